"""Databases with an empty store, emptied and given out again: making one anew takes several times as long."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

import psycopg
from psycopg import sql

from support.servers.postgresql import PostgresServer, end_sessions

_CATALOGUES: Final = (
    "pg_attrdef", "pg_attribute", "pg_class", "pg_constraint", "pg_default_acl", "pg_extension", "pg_index",
    "pg_largeobject_metadata", "pg_namespace", "pg_policy", "pg_proc", "pg_rewrite", "pg_statistic", "pg_trigger",
    "pg_type",
)  # fmt: skip
"""What a database is made of, and what the planner knows of it: a change writes a row there, or removes one."""
_MAKE: Final = " UNION ALL ".join(
    f"SELECT '{each}', count(*), max(CAST(CAST(xmin AS text) AS bigint)) FROM {each}" for each in _CATALOGUES
)
_OWN_SETTINGS: Final = """
    SELECT count(*) FROM pg_database AS d LEFT JOIN pg_db_role_setting AS s ON s.setdatabase = d.oid
    WHERE d.datname = current_database() AND (s.setdatabase IS NOT NULL OR d.datacl IS NOT NULL)
"""
_TABLES: Final = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
_SEQUENCES: Final = "SELECT sequencename FROM pg_sequences WHERE schemaname = 'public' ORDER BY 1"

_Connection = psycopg.Connection[tuple[Any, ...]]


class EmptyStores:
    """The databases of one server that a test each has for itself; a context manager.

    A database comes back under another name, so that whoever still knows the old one is shut out of it as if it were
    gone; with exactly the rows and the next numbers that a new one has. One in which anything but rows was changed is
    dropped. What was deleted still takes its room, so who counts what queries read takes a database made anew.

    Args:
        server: that runs for as long as they are used.
        template: the name of a database with an empty store.
    """

    def __init__(self, server: PostgresServer, template: str) -> None:
        self._server = server
        self._template = template
        self._free: list[str] = []
        with server.connect(template) as connection:
            self._make = _make(connection)
            self._empty = _emptying(connection)

    def __enter__(self) -> Self:
        self._clerk = self._server.connect()
        return self

    def __exit__(self, *exception: object) -> None:
        self._clerk.close()

    @contextmanager
    def store(self) -> Iterator[str]:
        """The URL of an empty store that nobody else has."""
        name = self._free.pop() if self._free else self._server.create_database(_name(), template=self._template)
        try:
            yield self._server.url(name)
        finally:
            self._take_back(name)

    def _take_back(self, name: str) -> None:
        new = _name()
        end_sessions(self._clerk, name)
        try:
            self._clerk.execute(sql.SQL("ALTER DATABASE {} RENAME TO {}").format(*map(sql.Identifier, (name, new))))
        except (psycopg.errors.ObjectInUse, psycopg.errors.InvalidCatalogName):  # somebody came back, or dropped it
            self._server.drop_database(name)
            return
        with self._server.connect(new) as connection:
            as_made = _make(connection) == self._make
            if as_made:
                connection.execute(self._empty)
        if as_made:
            self._free.append(new)
        else:
            self._server.drop_database(new)


def _emptying(connection: _Connection) -> sql.Composed:
    """The statements that empty a store, triggers and references put aside, and put back what a new one has."""
    statements: list[sql.Composable] = [sql.SQL("BEGIN; SET LOCAL session_replication_role = replica")]
    for (table,) in connection.execute(_TABLES).fetchall():
        name = sql.Identifier(table)
        statements.append(sql.SQL("DELETE FROM {}").format(name))
        rows = connection.execute(sql.SQL("SELECT to_jsonb(t)::text FROM {} AS t").format(name)).fetchall()
        put = sql.SQL("INSERT INTO {0} OVERRIDING SYSTEM VALUE SELECT * FROM jsonb_populate_record(NULL::{0}, {1})")
        statements += [put.format(name, sql.Literal(row)) for (row,) in rows]
    for (sequence,) in connection.execute(_SEQUENCES).fetchall():
        name = sql.Identifier(sequence)
        found = connection.execute(sql.SQL("SELECT last_value, is_called FROM {}").format(name)).fetchone()
        assert found is not None
        to = sql.SQL("SELECT setval({}, {}, {})").format(sql.Literal(sequence), *map(sql.Literal, found))
        statements.append(to)
    return sql.SQL("; ").join([*statements, sql.SQL("COMMIT")])


def _make(connection: _Connection) -> list[tuple[Any, ...]]:
    """What a database is made of: it is the same as long as only rows were changed."""
    return connection.execute(f"{_MAKE} UNION ALL SELECT 'own', ({_OWN_SETTINGS}), 0".encode()).fetchall()


def _name() -> str:
    return f"store_{secrets.token_hex(6)}"
