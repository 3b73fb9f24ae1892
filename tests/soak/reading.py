"""Reading: a database that anything may have happened to, read with no code of the program."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any, Protocol

Row = Mapping[str, Any]

_CONNECT_S = 5
_CHECKS = (
    "CREATE EXTENSION IF NOT EXISTS amcheck",
    """\
SELECT bt_index_check(index.indexrelid, true)::text AS found
FROM pg_index AS index JOIN pg_class AS class ON class.oid = index.indexrelid
JOIN pg_am ON pg_am.oid = class.relam AND pg_am.amname = 'btree'
WHERE class.relpersistence = 'p' AND index.indisready AND index.indisvalid
""",
)
_HEAP = """\
SELECT class.relname || ': ' || found.msg AS found
FROM pg_class AS class, LATERAL verify_heapam(class.oid) AS found
WHERE class.relkind = 'r' AND class.relnamespace = current_schema()::regnamespace
"""


class Unreadable(Exception):
    """The database cannot be read now."""


class Reading(Protocol):
    """A connection to a database."""

    def rows(self, query: str) -> tuple[Row, ...]:
        """Return what a query finds."""

    def integrity(self) -> tuple[str, ...]:
        """Return what the database says of its own pages and indexes; only `ok` is good."""


@contextmanager
def reading(url: str) -> Iterator[Reading]:
    """Read a database: `sqlite:///FILE` or PostgreSQL's.

    Raises:
        Unreadable: that does not work now.
    """
    opened = _sqlite(url) if url.startswith("sqlite:") else _postgres(url)
    with opened as found:
        yield found


class _Sqlite:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, query: str) -> tuple[Row, ...]:
        return tuple(dict(row) for row in self._connection.execute(query))

    def integrity(self) -> tuple[str, ...]:
        said = [row[0] for row in self._connection.execute("PRAGMA integrity_check")]
        said += [f"foreign key: {tuple(row)}" for row in self._connection.execute("PRAGMA foreign_key_check")]
        return tuple(said)


@contextmanager
def _sqlite(url: str) -> Iterator[Reading]:
    file = url.removeprefix("sqlite:///")
    try:
        with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5.0)) as connection:
            connection.row_factory = sqlite3.Row
            yield _Sqlite(connection)
    except sqlite3.OperationalError as error:
        raise Unreadable(str(error)) from error


class _Postgres:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, query: str) -> tuple[Row, ...]:
        return tuple(self._connection.execute(query).fetchall())

    def integrity(self) -> tuple[str, ...]:
        import psycopg

        try:
            for check in _CHECKS:
                self._connection.execute(check)
        except psycopg.errors.IndexCorrupted as error:
            return (str(error),)
        return tuple(row["found"] for row in self.rows(_HEAP)) or ("ok",)


@contextmanager
def _postgres(url: str) -> Iterator[Reading]:
    import psycopg
    from psycopg.rows import dict_row

    try:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=_CONNECT_S, row_factory=dict_row)
        with closing(connection):
            yield _Postgres(connection)
    except psycopg.OperationalError as error:
        raise Unreadable(str(error)) from error
