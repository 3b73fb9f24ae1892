"""Stores that are away for a while: the file is elsewhere, or the server lets nobody in."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from wakegate_schema.setting_types import sqlite_path

if TYPE_CHECKING:  # it takes its time, and most tests have no server
    from psycopg import Connection


async def away(database: str, seconds: float) -> None:
    """Make a store unreachable for a while; on PostgreSQL every connection to it is cut."""
    with _no_file(database) if database.startswith("sqlite:") else shut(database):
        await asyncio.sleep(seconds)


@contextmanager
def _no_file(database: str) -> Iterator[None]:
    path = sqlite_path(database)
    path.rename(path.with_suffix(".away"))
    yield
    path.with_suffix(".away").rename(path)


@contextmanager
def shut(database: str) -> Iterator[None]:
    """Let nobody into a PostgreSQL database, and cut whoever is in it."""
    with administrating(database) as connection:
        name = database_name(database)
        _allow(connection, name, whether=False)
        cut(connection, name)
        try:
            yield
        finally:
            _allow(connection, name, whether=True)


@contextmanager
def administrating(database: str) -> "Iterator[Connection[tuple[Any, ...]]]":
    """Connect to the server of a database, past that database."""
    import psycopg

    with psycopg.connect(database, dbname="postgres", autocommit=True) as connection:
        yield connection


def cut(connection: "Connection[tuple[Any, ...]]", name: str) -> int:
    """End every connection to a database and wait until they have ended; return how many there were."""
    ended = connection.execute(
        "SELECT COUNT(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity WHERE datname = %s", [name]
    ).fetchone()
    return int(ended[0]) if ended else 0


def database_name(database: str) -> str:
    """The name of the database that a URL means."""
    from psycopg.conninfo import conninfo_to_dict

    return str(conninfo_to_dict(database)["dbname"])


def _allow(connection: "Connection[tuple[Any, ...]]", name: str, *, whether: bool) -> None:
    from psycopg import sql

    statement = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    connection.execute(statement.format(sql.Identifier(name), sql.SQL("true" if whether else "false")))
