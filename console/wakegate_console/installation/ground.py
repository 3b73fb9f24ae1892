"""The ground: directories and files under one root, made whole with owner and mode, and never over what is there."""

import os
import secrets
import stat
from pathlib import Path

from wakegate_console.installation.accounts import Accounts
from wakegate_console.installation.bounds import stay_inside
from wakegate_console.installation.steps import CannotInit, Found
from wakegate_console.layout import Place
from wakegate_schema import drafts

_PARENT_MODE = 0o755
_OF_KIND = {"directory": stat.S_ISDIR, "file": stat.S_ISREG, "secret": stat.S_ISREG}


class Ground:
    """The file system under one root, whose files belong to the users of that root."""

    def __init__(self, root: Path, accounts: Accounts) -> None:
        """Take the root and its accounts."""
        self._root = root
        self._accounts = accounts

    def at(self, path: Path) -> Path:
        """Return where a path of that root is seen from here."""
        return self._root / path.relative_to("/")

    def look(self, place: Place, content: bytes | None = None) -> Found | None:
        """Compare what is there with the table, and with `content` where that is given."""
        path = self.at(place.path)
        try:
            found = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not _OF_KIND[place.kind](found.st_mode):
            word = "directory" if place.kind == "directory" else "plain file"
            return Found(f"is no {word}; move it away and run this again")
        return Found(self._wrong_right(place, path, found) or _wrong_content(path, content))

    def make(self, place: Place, content: bytes = b"") -> None:
        """Make what the table says, parents included.

        Raises:
            CannotInit: its owner is not there, or its directory is outside the root.
            OSError: it cannot be made; there is none then.
        """
        path = self.at(place.path)
        self._make_parents(path)
        uid, gid = self._owner(place)
        if uid is None or gid is None:
            raise CannotInit(f"{place.path} is to belong to {place.owner}:{place.group}, which is not there")
        if place.kind == "directory":
            _make_directory(path, place.mode, (uid, gid))
        else:
            drafts.make(path, content, place.mode, durable=True, owner=(uid, gid))

    def _owner(self, place: Place) -> tuple[int | None, int | None]:
        """Return whose it is to be; None for a user or group that is not there."""
        return (
            0 if place.owner == "root" else self._accounts.uid(place.owner),
            0 if place.group == "root" else self._accounts.gid(place.group),
        )

    def _wrong_right(self, place: Place, path: Path, found: os.stat_result) -> str:
        """Say what is wrong with owner and mode, and the command that corrects it."""
        mode = stat.S_IMODE(found.st_mode)
        if (found.st_uid, found.st_gid) == self._owner(place) and mode == place.mode:
            return ""
        owner = f"{self._accounts.name_of_uid(found.st_uid)}:{self._accounts.name_of_gid(found.st_gid)}"
        # chown first: it drops the set-group-ID bit
        right = f"chown {place.owner}:{place.group} {path} && chmod {place.mode:04o} {path}"
        return f"belongs to {owner}, mode {mode:04o}; run: {right}"

    def _make_parents(self, path: Path) -> None:
        """Make missing parents, root's; a link on the way must not lead out of the root."""
        parent = path.parent
        stay_inside(self._root, parent)
        for missing in reversed([each for each in (parent, *parent.parents) if not each.exists()]):
            _make_directory(missing, _PARENT_MODE, (0, 0))


def _make_directory(path: Path, mode: int, owner: tuple[int, int]) -> None:
    """Make a directory that has its name only once owner and mode are right."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    draft.mkdir(mode=0o700)
    try:
        os.chown(draft, *owner)
        draft.chmod(mode)
        draft.rename(path)
    except BaseException:
        draft.rmdir()
        raise
    drafts.sync_directory(path.parent)


def _wrong_content(path: Path, content: bytes | None) -> str:
    if content is None or path.read_bytes() == content:
        return ""
    return (
        "is not this version's: it was changed, or is an older one; to have this version's, move it away and run this"
        " again (your own changes belong in a drop-in: systemctl edit)"
    )
