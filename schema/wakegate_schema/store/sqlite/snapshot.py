"""One moment of a store in SQLite, to be read as a whole."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite.connection import connect, translate
from wakegate_schema.store.sqlite.transaction import SqliteTransaction


@contextmanager
def sqlite_snapshot(path: Path) -> Iterator[SqliteTransaction]:
    """Read a file as it is now, however long it takes; whoever writes meanwhile is not held up, but the WAL grows.

    Raises `StoreUnavailable` when it cannot be read.
    """
    try:
        connection = connect(path, read_only=True)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error
    with closing(connection):
        try:
            connection.execute("BEGIN")
            transaction = SqliteTransaction(connection, load_store(SQLITE))
            transaction.all("migrations_applied")  # a snapshot is taken by the first read
            yield transaction
        except sqlite3.Error as error:
            raise translate(error, path) from error
