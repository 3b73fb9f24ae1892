"""A store's database reached past the store, in the same words for SQLite and for PostgreSQL.

A statement may say `CAST('…' AS BLOB)` for bytes; PostgreSQL's word for it is put in.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, Self

import pytest

from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import migrations
from wakegate_schema.store.dialects import POSTGRESQL, SQLITE, Dialect
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite.connection import connect, create

_SQLITE_KINDS = {
    "SQLITE_CONSTRAINT_TRIGGER": "trigger",
    "SQLITE_CONSTRAINT_CHECK": "check",
    "SQLITE_CONSTRAINT_UNIQUE": "unique",
    "SQLITE_CONSTRAINT_PRIMARYKEY": "unique",
    "SQLITE_CONSTRAINT_ROWID": "unique",
    "SQLITE_CONSTRAINT_FOREIGNKEY": "foreign key",
    "SQLITE_CONSTRAINT_NOTNULL": "not null",
}
_POSTGRES_KINDS = {
    "23000": "trigger",
    "23514": "check",
    "23505": "unique",
    "23503": "foreign key",
    "23502": "not null",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """How a database refused a statement."""

    kind: str
    """`trigger`, `check`, `unique`, `foreign key` or `not null`."""
    message: str
    rule: str | None
    """What refused it; SQLite does not say."""


class Raw(Protocol):
    """A connection to a store's database."""

    dialect: Dialect

    def execute(self, statement: str) -> None:
        """Run a statement."""

    def script(self, text: str) -> None:
        """Run the statements of a script, all or none of them."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds."""

    def refusal(self, statement: str) -> Refusal:
        """Run a statement that must be refused; return how it was, with nothing changed."""

    @contextmanager
    def undone(self) -> Iterator[Self]:
        """Take back at the end whatever is done in here."""
        yield self

    def close(self) -> None:
        """Let go of the database."""


def open_raw(url: str) -> Raw:
    """Open the database of a store's URL; a file that does not exist is made."""
    return SqliteRaw(sqlite_path(url)) if url.startswith("sqlite:") else PostgresRaw(url)


def make_schema(raw: Raw) -> None:
    """Make everything that the migrations make in an empty database."""
    scripts = [each.statements for each in migrations.available(raw.dialect).values()]
    raw.script(";\n".join([load_store(raw.dialect)["migration_ledger"], *chain.from_iterable(scripts), ""]))


class SqliteRaw:
    """See `Raw`."""

    dialect = SQLITE

    def __init__(self, path: Path) -> None:
        create(path)
        self._connection = connect(path)
        self._connection.row_factory = None

    def execute(self, statement: str) -> None:
        """Run a statement."""
        self._connection.execute(statement)

    def script(self, text: str) -> None:
        """Run the statements of a script, all or none of them."""
        self._connection.executescript(f"BEGIN;\n{text}\nCOMMIT;")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        return self._connection.execute(query).fetchall()

    def refusal(self, statement: str) -> Refusal:
        """Run a statement that must be refused; return how it was, with nothing changed."""
        with pytest.raises(sqlite3.IntegrityError) as refused:
            self._connection.execute(statement)
        return Refusal(_SQLITE_KINDS[refused.value.sqlite_errorname], str(refused.value), None)

    @contextmanager
    def undone(self) -> Iterator[Self]:
        """Take back at the end whatever is done in here."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self
        finally:
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()


class PostgresRaw:
    """See `Raw`."""

    dialect = POSTGRESQL

    def __init__(self, url: str) -> None:
        import psycopg  # here, because it takes its time, and most tests have no server

        self._refused = psycopg.IntegrityError
        self._connection: psycopg.Connection[tuple[Any, ...]] = psycopg.connect(url, autocommit=True)

    def execute(self, statement: str) -> None:
        """Run a statement."""
        self._connection.execute(_in_postgres(statement))

    def script(self, text: str) -> None:
        """Run the statements of a script, all or none of them."""
        self._connection.execute(text.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query finds."""
        return self._connection.execute(_in_postgres(query)).fetchall()

    def refusal(self, statement: str) -> Refusal:
        """Run a statement that must be refused; return how it was, with nothing changed."""
        with pytest.raises(self._refused) as refused, self._connection.transaction():
            self._connection.execute(_in_postgres(statement))
        said = refused.value.diag
        return Refusal(_POSTGRES_KINDS[said.sqlstate or ""], said.message_primary or "", said.constraint_name)

    @contextmanager
    def undone(self) -> Iterator[Self]:
        """Take back at the end whatever is done in here."""
        with self._connection.transaction(force_rollback=True):
            yield self

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()


def _in_postgres(statement: str) -> bytes:
    return re.sub(r"\bBLOB\b", "BYTEA", statement).encode()
