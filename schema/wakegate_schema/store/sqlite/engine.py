"""SQLite as the store's engine: one file, WAL, every commit synced, writers taking turns."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from wakegate_schema.store.errors import StoreError, StoreVanished
from wakegate_schema.store.sqlite.checkpoints import BESIDE_PAGES, Checkpoints
from wakegate_schema.store.sqlite.connection import FILE_MODE, translate
from wakegate_schema.store.sqlite.file import DatabaseFile
from wakegate_schema.store.sqlite.transaction import SqliteTransaction
from wakegate_schema.store.sqlite.turn import TurnLock
from wakegate_schema.store.transaction import Transaction


class SqliteSavepoint:
    """See `Savepoint`."""

    def __init__(self, transaction: Transaction, *undoing: str) -> None:
        """Take the transaction that the savepoint was set in, and the statements that go back to it."""
        self._transaction = transaction
        self._undoing = undoing

    def undo(self) -> None:
        """Take back everything since the savepoint."""
        for statement in self._undoing:
            self._transaction.run(statement)


class SqliteEngine:
    """See `Engine`. There is one writer at a time, so every transaction is alone."""

    def __init__(self, path: Path, queries: Mapping[str, str], *, beside: bool = False) -> None:
        """Take the database file's path and the dialect's named queries.

        Args:
            path: of the file.
            queries: the dialect's.
            beside: take the WAL in beside the commits, as who writes for long does. Else SQLite does it in a commit.
        """
        self._path = path
        self._queries = queries
        self._checkpoints = Checkpoints(path) if beside else None
        self._file = DatabaseFile(path, checkpoint_pages=BESIDE_PAGES if beside else None)
        self._turn: TurnLock | None = None
        self._untouched = False
        """Whether nothing has been done since the transaction began."""

    @contextmanager
    def transaction(self, *, alone: bool = True) -> Iterator[Transaction]:  # noqa: ARG002 (it always is)
        """Wait for the turn, begin IMMEDIATE, commit; roll back on any error. See `Engine.transaction`."""
        try:
            self._turn = self._turn or TurnLock(self._path, mode=FILE_MODE)
            with self._turn:  # opening too: two cannot make one new file WAL at once, SQLite does not wait there
                connection = self._file.connection()
                connection.execute("BEGIN IMMEDIATE")
                self._file.check()  # what is known to be lost is not begun
                self._untouched = True
                yield SqliteTransaction(connection, self._queries)
                connection.execute("COMMIT")
                self._file.check()
            if self._checkpoints is not None:
                self._checkpoints.committed(connection.total_changes)
        except Exception as error:
            self._recover(error)
            translated = translate(error, self._path)
            if translated is error:
                raise
            raise translated from error

    @contextmanager
    def savepoint(self, transaction: Transaction) -> Iterator[SqliteSavepoint]:
        """Set a savepoint inside the running transaction; its beginning is one already."""
        if self._untouched:
            self._untouched = False
            yield SqliteSavepoint(transaction, "ROLLBACK", "BEGIN IMMEDIATE")
            return
        transaction.run("SAVEPOINT verb")
        yield SqliteSavepoint(transaction, "ROLLBACK TO verb")
        transaction.run("RELEASE verb")

    def translate(self, error: Exception) -> Exception:
        """Turn a driver's error into ours; leave anything else as it is."""
        return translate(error, self._path)

    def close(self) -> None:
        """Let go of the file."""
        if self._checkpoints is not None:
            self._checkpoints.close()
        self._file.close()
        if self._turn is not None:
            self._turn.close()
        self._turn = None

    def _recover(self, error: Exception) -> None:
        """Roll back; after anything but a refused change, open the file anew next time.

        Not while the file lies there and its WAL does not: a second WAL would hide the first, and it is the last of
        the connections, closing, that brings the first one's content into the file.
        """
        self._file.roll_back()
        if isinstance(error, StoreVanished) and self._file.is_there():
            return
        if isinstance(error, sqlite3.Error | OSError | StoreError):
            self.close()
