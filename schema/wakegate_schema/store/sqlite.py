"""SQLite as the store's engine: one file, WAL, every commit synced, writers taking turns."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from wakegate_schema.errors import WakegateError
from wakegate_schema.store.errors import InvariantViolated, StoreError, StoreUnavailable
from wakegate_schema.store.transaction import Transaction
from wakegate_schema.store.turn import TurnLock

FILE_MODE = 0o660
"""Receiver and worker are two users of one group; SQLite's own default would lock the second one out."""
BUSY_TIMEOUT_MS = 5_000
"""How long to wait for a writer that does not take turns (an operator's sqlite3 shell)."""
WAL_SIZE_LIMIT = 64 * 1024 * 1024


class Savepoint:
    """A place in a transaction to go back to."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Take the connection that the savepoint was set on."""
        self._connection = connection

    def undo(self) -> None:
        """Take back everything since the savepoint."""
        self._connection.execute("ROLLBACK TO verb")


class SqliteEngine:
    """One connection for writing, opened by the first transaction and again after the file was unreachable."""

    def __init__(self, path: Path, queries: Mapping[str, str]) -> None:
        """Take the database file's path and the dialect's named queries."""
        self._path = path
        self._queries = queries
        self._connection: sqlite3.Connection | None = None
        self._turn: TurnLock | None = None
        self._identity: tuple[int, int] | None = None

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Wait for the turn, begin IMMEDIATE, commit; roll back on any error.

        Raises:
            StoreUnavailable: nothing was committed, or the commit's answer was lost.
        """
        try:
            connection, turn = self._opened()
            with turn:
                connection.execute("BEGIN IMMEDIATE")
                yield Transaction(connection, self._queries)
                connection.execute("COMMIT")
                self._same_file()
        except Exception as error:
            self._recover(error)
            translated = self.translate(error)
            if translated is error:
                raise
            raise translated from error

    @contextmanager
    def savepoint(self) -> Iterator[Savepoint]:
        """Set a savepoint inside the running transaction."""
        connection = self._opened()[0]
        connection.execute("SAVEPOINT verb")
        yield Savepoint(connection)
        connection.execute("RELEASE verb")

    def translate(self, error: Exception) -> Exception:
        """Turn a driver's error into ours; leave anything else as it is."""
        if isinstance(error, WakegateError):
            return error
        if isinstance(error, sqlite3.IntegrityError):
            return InvariantViolated(f"the database refused a change: {error}")
        if isinstance(error, sqlite3.Error | OSError):
            return StoreUnavailable(f"the store at {self._path} cannot be written: {error}", reason=_word(error))
        return error

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        if self._turn is not None:
            self._turn.close()
        self._connection = self._turn = self._identity = None

    def _opened(self) -> tuple[sqlite3.Connection, TurnLock]:
        if self._connection is None or self._turn is None:
            self._turn = self._turn or TurnLock(self._path, mode=FILE_MODE)
            with self._turn:  # two processes cannot make one new file WAL at once: SQLite does not wait there
                self._connection = connect(self._path)
            self._identity = _identity(self._path)
        return self._connection, self._turn

    def _same_file(self) -> None:
        """A commit to a file that nobody can find any more is lost, so it does not count."""
        if _identity(self._path) != self._identity:
            raise StoreUnavailable(f"the store at {self._path} was removed or replaced", reason="store_vanished")

    def _recover(self, error: Exception) -> None:
        """Roll back; after anything but a refused change, open the file anew next time."""
        if self._connection is not None and self._connection.in_transaction:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.Error | OSError | StoreError):
            self.close()


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Open an existing database file with the settings every connection needs.

    Raises sqlite3.Error when that does not work now.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False,
        timeout=BUSY_TIMEOUT_MS / 1000,
    )  # fmt: skip
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA recursive_triggers = ON")  # or REPLACE walks around append-only
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_SIZE_LIMIT}")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def create(path: Path) -> None:
    """Make an empty database file, readable and writable by owner and group. An existing one is left alone."""
    try:
        made = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except FileExistsError:
        return
    os.fchmod(made, FILE_MODE)
    os.close(made)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _word(error: Exception) -> str:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return {
        sqlite3.SQLITE_BUSY: "store_busy",
        sqlite3.SQLITE_LOCKED: "store_busy",
        sqlite3.SQLITE_FULL: "disk_full",
        sqlite3.SQLITE_READONLY: "store_read_only",
        sqlite3.SQLITE_CORRUPT: "store_corrupt",
        sqlite3.SQLITE_NOTADB: "store_corrupt",
    }.get(code, "store_unavailable")
