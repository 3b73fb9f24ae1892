"""Accounts: the groups and users of a machine, or of another root that is to become one."""

import grp
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wakegate_console.installation.bounds import stay_inside
from wakegate_console.installation.steps import CannotInit, Found
from wakegate_console.layout import User

HERE = Path("/")
_TOOLS = "/usr/sbin:/sbin:/usr/bin:/bin"
_NAME_IN_USE = 9
"""What groupadd and useradd exit with when somebody else was faster."""
_LOCKED = (1, 10)
"""What they exit with when somebody else holds the lock of the password or the group file, too."""
_LOCKED_S = 10.0
"""Seconds for which such a lock is waited for: a run that was killed leaves a tool that is about to end."""
_FILES = ("passwd", "shadow", "group", "gshadow", "subuid", "subgid", "login.defs")
"""What the tools that make users and groups read or write, in /etc."""
_NO_LOGIN = ("nologin", "false")


@dataclass(frozen=True, slots=True)
class Account:
    """A user that is there."""

    uid: int
    gid: int
    shell: str


class Accounts:
    """The accounts under one root: the machine's as it resolves names, another root's from its files."""

    def __init__(self, root: Path) -> None:
        """Take the root; `/` is this machine."""
        self._root = root

    def gid(self, name: str) -> int | None:
        """Return a group's number; None when there is none."""
        group = self._group(name)
        return None if group is None else group[0]

    def uid(self, name: str) -> int | None:
        """Return a user's number; None when there is none."""
        account = self._account(name)
        return None if account is None else account.uid

    def name_of_uid(self, uid: int) -> str:
        """Return a user's name, or the number where nobody has it."""
        if self._root == HERE:
            with suppress(KeyError):
                return pwd.getpwuid(uid).pw_name
        return next((name for name, account in self._accounts() if account.uid == uid), str(uid))

    def name_of_gid(self, gid: int) -> str:
        """Return a group's name, or the number where none has it."""
        if self._root == HERE:
            with suppress(KeyError):
                return grp.getgrgid(gid).gr_name
        return next((name for name, number, _ in self._groups() if number == gid), str(gid))

    def look_at_group(self, name: str) -> Found | None:
        """Say whether there is a group of this name."""
        return None if self.gid(name) is None else Found()

    def look_at_user(self, user: User) -> Found | None:
        """Say whether there is a user as it should be: in its group, not root, and without a login."""
        account, group = self._account(user.name), self._group(user.group)
        if account is None:
            return None
        if account.uid == 0:
            return Found(f"has root's uid; a service must not; remove it (userdel {user.name}) and run this again")
        if group is None or (account.gid != group[0] and user.name not in group[1]):
            return Found(f"is not in its group; run: usermod --append --groups {user.group} {user.name}")
        if Path(account.shell).name not in _NO_LOGIN:
            return Found(f"can log in; run: usermod --shell /usr/sbin/nologin {user.name}")
        return Found()

    def make_group(self, name: str) -> None:
        """Make a system group. Raises CannotInit."""
        self._run("groupadd", "--system", name)

    def make_user(self, user: User) -> None:
        """Make a system user without home and login. Raises CannotInit."""
        self._run(
            *("useradd", "--system", "--gid", user.group, "--comment", user.what, "--no-log-init"),
            *("--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", user.name),
        )

    def _run(self, program: str, *arguments: str) -> None:
        found = shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_TOOLS}")
        if found is None:
            raise CannotInit(
                f"{program} is not here; install it (Debian: passwd, Fedora: shadow-utils, Alpine: shadow) and run"
                " this again"
            )
        for name in _FILES:
            stay_inside(self._root, self._root / "etc" / name)
        prefix = () if self._root == HERE else ("--prefix", str(self._root))
        until = time.monotonic() + _LOCKED_S
        while True:
            done = subprocess.run([found, *prefix, *arguments], capture_output=True, text=True, check=False)  # noqa: S603
            if done.returncode not in _LOCKED or time.monotonic() >= until:
                break
            time.sleep(0.2)
        if done.returncode not in (0, _NAME_IN_USE):
            said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise CannotInit(f"{program} {arguments[-1]} failed: {said}")

    def _account(self, name: str) -> Account | None:
        if self._root == HERE:
            try:
                found = pwd.getpwnam(name)
            except KeyError:
                return None
            return Account(found.pw_uid, found.pw_gid, found.pw_shell)
        return next((account for known, account in self._accounts() if known == name), None)

    def _group(self, name: str) -> tuple[int, list[str]] | None:
        if self._root == HERE:
            try:
                found = grp.getgrnam(name)
            except KeyError:
                return None
            return found.gr_gid, list(found.gr_mem)
        return next(((gid, members) for known, gid, members in self._groups() if known == name), None)

    def _accounts(self) -> Iterator[tuple[str, Account]]:
        for name, _, uid, gid, _, _, shell, *_ in self._lines("passwd", 7):
            yield name, Account(int(uid), int(gid), shell)

    def _groups(self) -> Iterator[tuple[str, int, list[str]]]:
        for name, _, gid, members, *_ in self._lines("group", 4):
            yield name, int(gid), [each for each in members.split(",") if each]

    def _lines(self, name: str, fields: int) -> Iterator[list[str]]:
        path = self._root / "etc" / name
        stay_inside(self._root, path)
        text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
        for line in text.splitlines():
            parts = line.split(":")
            if len(parts) >= fields and parts[2].isdecimal():
                yield parts
