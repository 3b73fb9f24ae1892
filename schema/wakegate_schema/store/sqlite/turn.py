"""The turn lock: who writes next, fairly, among all processes on one machine.

SQLite lets a waiting writer sleep and try again, so that one of two busy writers can starve for seconds. Two
advisory file locks make a queue of it: whoever waits holds `next`, and only then may wait for `turn`.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from weakref import WeakSet

from wakegate_schema.store.sqlite.making import make_file


class TurnLock:
    """A lock on two files beside the database, taken before every write transaction."""

    def __init__(self, database: Path, *, mode: int) -> None:
        """Open (or make, with permission bits `mode`) the two files beside `database`."""
        self._next = _open(database, database.with_name(database.name + "-next"), mode)
        self._turn = _open(database, database.with_name(database.name + "-turn"), mode)
        _OPEN.add(self)

    def __enter__(self) -> None:
        """Wait for the turn, without end while its holder is stopped; the kernel wakes the one that waits."""
        fcntl.flock(self._next, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._turn, fcntl.LOCK_EX)
        finally:
            fcntl.flock(self._next, fcntl.LOCK_UN)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let the next one have it."""
        fcntl.flock(self._turn, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of both files."""
        _OPEN.discard(self)
        os.close(self._next)
        os.close(self._turn)


_OPEN: WeakSet[TurnLock] = WeakSet()


def _close_in_child() -> None:
    """A fork shares its parent's locks and would hold them on after the parent's death."""
    for lock in list(_OPEN):
        lock.close()


os.register_at_fork(after_in_child=_close_in_child)


def _open(database: Path, path: Path, mode: int) -> int:
    make_file(path, mode, database)
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)
