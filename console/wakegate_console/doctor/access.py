"""Access: who may do what with a file, by its owner, group and mode (access lists are not looked at)."""

import grp
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import Final

READ: Final = 4
WRITE: Final = 2
ENTER: Final = 1


@dataclass(frozen=True, slots=True)
class User:
    """A user, with every group that it is in."""

    uid: int
    groups: frozenset[int]

    @property
    def name(self) -> str:
        """Its name, `uid 1234` where it has none."""
        return user_name(self.uid)

    def may(self, status: os.stat_result, wanted: int) -> bool:
        """Say whether the mode lets this user do what is wanted: READ, WRITE, ENTER, or several of them."""
        if self.uid == 0:
            return True
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid in self.groups else 0
        return (status.st_mode >> shift) & wanted == wanted

    def reaches(self, path: Path) -> bool:
        """Say whether this user may enter every folder on the way to a file. Raises OSError."""
        return all(self.may(folder.stat(), ENTER) for folder in path.resolve().parents)

    def reads(self, path: Path) -> bool:
        """Say whether this user may read a file; True where this process cannot see that."""
        try:
            return self.may(path.stat(), READ) and self.reaches(path)
        except OSError:
            return True


def user(uid: int, group: int | None = None) -> User:
    """Return a user of this machine.

    Args:
        uid: its number.
        group: one it is known to be in, for a user that is in no list.
    """
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return User(uid, frozenset() if group is None else frozenset({group}))
    return User(uid, frozenset(os.getgrouplist(entry.pw_name, entry.pw_gid)))


def named(name: str) -> User | None:
    """Return the user of this name, None where there is none."""
    try:
        return user(pwd.getpwnam(name).pw_uid)
    except KeyError:
        return None


def home(uid: int | None) -> str:
    """Return a user's home as its entry has it, `/` where it has none; of this process's user for None."""
    try:
        return pwd.getpwuid(os.geteuid() if uid is None else uid).pw_dir
    except KeyError:
        return "/"


def user_name(uid: int) -> str:
    """Return a user's name, `uid 1234` where it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def group_name(gid: int) -> str:
    """Return a group's name, `gid 1234` where it has none."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"gid {gid}"


def status(path: Path) -> os.stat_result | None:
    """Return the status of what a path leads to; None where there is nothing, or nothing that this user can see."""
    try:
        return path.stat()
    except OSError:
        return None
