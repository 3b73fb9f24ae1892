"""Presence: who has the store open, so that nobody puts another file in its place meanwhile.

Whoever opens the store holds a shared lock on a file beside it; a restore needs the lock for itself alone. A reader
counts too: SQLite's last connection to a file removes the WAL of that name, which may be another file's by then.
"""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from weakref import WeakSet

from wakegate_schema.store.errors import StoreInUse, StoreUnavailable
from wakegate_schema.store.sqlite.connection import FILE_MODE
from wakegate_schema.store.sqlite.making import make_file


class Presence:
    """A lock on one file beside the database, held until it is closed; the kernel lets go of it for the dead."""

    def __init__(self, descriptor: int | None) -> None:
        """Take the locked file; see `shared` and `alone`."""
        self._descriptor = descriptor
        _OPEN.add(self)

    @classmethod
    def shared(cls, database: Path, *, reading: bool) -> "Presence":
        """Say that the store is open here. Neither waits.

        Args:
            database: its file, whose folder must be there.
            reading: it is only read; whoever may make no file in the folder can remove none, and needs no lock.

        Raises:
            StoreUnavailable: it is being restored just now.
            OSError: the lock's file cannot be opened.
        """
        try:
            descriptor = _open(database)
        except OSError:
            if not reading:
                raise
            return cls(None)
        if not _lock(descriptor, fcntl.LOCK_SH):
            raise StoreUnavailable(
                f"the store at {database} is being restored; try again when `wakegate db restore` has ended",
                reason="store_being_restored",
            )
        return cls(descriptor)

    @classmethod
    def alone(cls, database: Path) -> "Presence":
        """Keep everybody else from opening the store.

        Raises:
            StoreInUse: somebody has it open.
            OSError: the lock's file cannot be opened.
        """
        descriptor = _open(database)
        if not _lock(descriptor, fcntl.LOCK_EX):
            raise StoreInUse(
                f"the store at {database} is in use{_by(_path(database))}; stop the services and every harness that has"
                " it open, then run this again"
            )
        return cls(descriptor)

    def close(self) -> None:
        """Let go. Repeats are no-ops."""
        _OPEN.discard(self)
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None


_OPEN: WeakSet[Presence] = WeakSet()


def _close_in_child() -> None:
    """A fork shares its parent's lock and would hold it on after the parent's death."""
    for presence in list(_OPEN):
        presence.close()


os.register_at_fork(after_in_child=_close_in_child)


def _path(database: Path) -> Path:
    real = database.resolve()
    return real.with_name(real.name + "-open")


_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Whatever lies there, opening it waits for nobody."""


def _open(database: Path) -> int:
    path = _path(database)
    with suppress(FileNotFoundError):
        return os.open(path, _FLAGS)
    make_file(path, FILE_MODE, database)
    return os.open(path, _FLAGS)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True


def _by(path: Path) -> str:
    """Return which processes hold the lock, as far as the kernel says: ` by process 7, 9`."""
    found = path.stat()
    wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    try:
        lines = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeError):
        return ""
    holders = sorted({int(line[4]) for line in lines if len(line) > 5 and line[5] == wanted and line[4].isdecimal()})
    return f" by process {', '.join(map(str, holders))}" if holders else ""
