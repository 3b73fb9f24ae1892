"""The database file: one connection to it, and whether what is open is still what lies there."""

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from wakegate_schema.store.errors import StoreVanished
from wakegate_schema.store.sqlite.connection import connect

_SETTLED_NS = 1_000_000_000
"""A folder changed less than this ago may have changed again within the same tick of its timestamp."""

_Identity = tuple[int, int]
"""Which file it is: device and inode."""


class DatabaseFile:
    """One connection to the database at a path, opened when it is needed."""

    def __init__(
        self, path: Path, *, read_only: bool = False, busy_ms: int | None = None, checkpoint_pages: int | None = None
    ) -> None:
        """Take the path; the rest is as for `connect`."""
        self._path = path
        self._read_only = read_only
        self._busy_ms = busy_ms
        self._checkpoint_pages = checkpoint_pages
        self._connection: sqlite3.Connection | None = None
        self._opened: dict[Path, _Identity | None] = {}
        """The database, its WAL and the WAL's index: which file each was when it was opened."""
        self._folder: tuple[int, int, int] | None = None
        """The folder when everything in it was seen to be in place; None when it has to be looked at again."""
        self._hampered = False
        """Whether something of it could only be read when it was opened."""

    def connection(self) -> sqlite3.Connection:
        """Return the connection.

        Raises sqlite3.Error or OSError when the file cannot be opened, `StoreVanished` when it must not be.
        """
        if self._connection is None:
            self._refuse_foreign_wal()
            self._connection = connect(
                self._path, read_only=self._read_only, busy_ms=self._busy_ms, checkpoint_pages=self._checkpoint_pages
            )
            self._opened = {path: _identity(path) for path in (self._path, *_beside(self._path))}
            self._folder = None
            self._hampered = not self._may_be_written()
        return self._connection

    def current(self) -> sqlite3.Connection:
        """Return the connection to the file that lies there now, which may not be the one that was open.

        One that was opened while the file could only be read is let go of when it can be written: SQLite shares the
        WAL's index among all connections of a process, and who writes would go on being refused.
        """
        if self._connection is not None and (
            _identity(self._path) != self._opened[self._path] or (self._hampered and self._may_be_written())
        ):
            self.close()
        return self.connection()

    def check(self) -> None:
        """Raise `StoreVanished` unless all that is open is still where others would find it.

        A commit to a file that nobody can find any more is lost, so it does not count. Looking at the folder alone
        says the same as looking at each file, while nothing in the folder has changed.
        """
        folder = _folder(self._path)
        if folder == self._folder:
            return
        for path, identity in self._opened.items():
            if _identity(path) != identity:
                raise StoreVanished(f"{path} was removed or replaced while the store was in use{self._advice(path)}")
        settled = time.time_ns() - folder[2] > _SETTLED_NS and not self._path.is_symlink()
        self._folder = folder if settled else None

    def is_there(self) -> bool:
        """Return whether the open file lies there, whatever became of its WAL."""
        return _identity(self._path) == self._opened.get(self._path)

    def roll_back(self) -> None:
        """End a transaction that failed."""
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = None

    def _may_be_written(self) -> bool:
        return all(os.access(path, os.W_OK) for path, identity in self._opened.items() if identity is not None)

    def _refuse_foreign_wal(self) -> None:
        """SQLite would take in the WAL of the file that lay here before, and make one damaged file of two."""
        for path, identity in self._opened.items():
            if path == self._path and _identity(path) in (identity, None):
                return
            if path != self._path and identity is not None and _identity(path) == identity:
                raise StoreVanished(
                    f"{self._path} was replaced, but {path} is still the old one's: stop every process that uses the "
                    "store, move the old -wal and -shm away, and start them again"
                )

    def _advice(self, path: Path) -> str:
        if path == self._path:
            return ""
        return ": stop every process that uses the store, which saves what can be saved, and start them again"


def wal_path(path: Path) -> Path:
    """Return where SQLite keeps a database's WAL: beside the file that a link leads to."""
    real = path.resolve()
    return real.with_name(real.name + "-wal")


def _beside(path: Path) -> tuple[Path, Path]:
    """Return where the WAL and its index are."""
    real = path.resolve()
    return wal_path(path), real.with_name(real.name + "-shm")


def _identity(path: Path) -> _Identity | None:
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _folder(path: Path) -> tuple[int, int, int]:
    found = path.parent.stat()
    return found.st_dev, found.st_ino, found.st_mtime_ns
