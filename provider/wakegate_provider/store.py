"""The provider's own store: one SQLite file, its tables, its transactions, and the thread that uses it."""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from wakegate_schema.store import queries
from wakegate_schema.store.errors import StoreError, StoreMissing, StoreOutdated, StoreUnavailable
from wakegate_schema.store.sqlite import connection as sqlite
from wakegate_schema.store.sqlite import placement

VERSION = 2

P = ParamSpec("P")
R = TypeVar("R")
Value = str | int | bytes | None


class ProviderStore:
    """One connection to the provider's store, for one thread at a time."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Take an open connection; `open_store` makes one."""
        self.path = path
        self._connection = connection
        self._queries = queries.load("wakegate_provider", "sql/queries")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make everything inside one durable step: committed at the end, or nothing of it.

        Raises:
            StoreUnavailable: the file is locked, full or damaged.
        """
        with _translated():
            self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            with _translated():
                self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def one(self, query: str, /, **values: Value) -> sqlite3.Row | None:
        """Return the first row of a named query, or None."""
        with _translated():
            row: sqlite3.Row | None = self._connection.execute(self._queries[query], values).fetchone()
        return row

    def all(self, query: str, /, **values: Value) -> list[sqlite3.Row]:
        """Return every row of a named query."""
        with _translated():
            return self._connection.execute(self._queries[query], values).fetchall()

    def each(self, query: str, /, **values: Value) -> Iterator[sqlite3.Row]:
        """Give the rows of a named query as they are read."""
        with _translated():
            yield from self._connection.execute(self._queries[query], values)

    def run(self, query: str, /, **values: Value) -> int:
        """Run a named statement and return how many rows it changed."""
        with _translated():
            return self._connection.execute(self._queries[query], values).rowcount

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class StoreThread:
    """The one thread in which a service uses its store, off the event loop."""

    def __init__(self, store: ProviderStore) -> None:
        """Take the store; from now on only this thread uses it."""
        self._store = store
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="provider-store")

    async def __call__(
        self, function: Callable[Concatenate[ProviderStore, P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run `function(store, …)` in the store's thread, one call after another; return its result."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._executor, partial(function, self._store, *args, **kwargs))

    def close(self) -> None:
        """Finish what was begun, then close the store."""
        self._executor.shutdown(wait=True)
        self._store.close()


def open_store(path: Path, *, create: bool) -> ProviderStore:
    """Open the provider's store.

    Args:
        path: the SQLite file.
        create: make the file (0600) and its tables when they are missing; a reviewing command does not.

    Raises:
        StoreMissing: there is no file.
        StoreMisplaced: the folder is missing or on a network.
        StoreOutdated: the file is not the provider's store, or is of another version.
        StoreError: the file cannot be created or used.
    """
    if create:
        placement.check(path)
        _create_file(path)
    elif not path.is_file():
        raise StoreMissing(
            f"there is no provider store at {path.absolute()}; start the provider first, or name its store by"
            " WAKEGATE_PROVIDER_DATABASE or --config"
        )
    try:
        _check(path, create=create)
        return ProviderStore(sqlite.connect(path), path)
    except sqlite3.Error as error:
        raise StoreError(
            f"cannot use {path.absolute()} as the provider's store: {error}; name another file by"
            " WAKEGATE_PROVIDER_DATABASE"
        ) from error


def _create_file(path: Path) -> None:
    """Create the file for this user alone; SQLite gives its mode to the files beside it."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"cannot create the provider's store {path}: {error.strerror}") from error


def _check(path: Path, *, create: bool) -> None:
    """Make or check the tables before anything else is set, so that another program's file stays as it is."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if create:
            _create_tables(connection)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        whole = _has_added(connection)
    if version != VERSION:
        raise StoreOutdated(
            f"{path} is no provider store of version {VERSION}; name another file in WAKEGATE_PROVIDER_DATABASE"
        )
    if not whole:
        raise StoreOutdated(f"{path} is an earlier provider's store; start the provider, which brings it up to date")


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create every table in an empty file, or bring one of an earlier provider up to date, all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        statements = _lacking(connection)
        for statement in statements:
            connection.execute(statement)
        if statements:
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _lacking(connection: sqlite3.Connection) -> list[str]:
    """Return the statements that make an empty file or an earlier store whole; none for another program's file."""
    tables = queries.load("wakegate_provider", "sql/schema")
    added = queries.load("wakegate_provider", "sql/added").values()
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if connection.execute("PRAGMA schema_version").fetchone()[0] == 0:
        return [*tables.values(), *added]
    if version == 1:
        return [*queries.load("wakegate_provider", "sql/upgrade").values(), tables["create_updates"], *added]
    if version == VERSION and not _has_added(connection):
        return list(added)
    return []


def _has_added(connection: sqlite3.Connection) -> bool:
    """Whether the store has what was added without another version, all of it in one transaction."""
    return connection.execute("PRAGMA table_info(consumptions)").fetchone() is not None


@contextmanager
def _translated() -> Iterator[None]:
    """Turn the driver's trouble with the file into this store's error; a broken rule stays what it is."""
    try:
        yield
    except sqlite3.IntegrityError:
        raise
    except sqlite3.DatabaseError as error:
        raise StoreUnavailable(f"the provider's store cannot be used now: {error}") from error
