"""The shelf: where every history gets an empty store of its own, a copy of one that was made once."""

import asyncio
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from support.rooms import room
from wakegate_schema.keys import ensure_key
from wakegate_schema.store import migrate_store

if TYPE_CHECKING:
    from support.servers.emptied import EmptyStores

DATABASE: Final = "WAKEGATE_TEST_DATABASE"
"""Names the database that `make model` searches on: sqlite or postgresql; without it, each test says which."""
KEYS: Final = ("receiver.key", "worker.key")


class Shelf(Protocol):
    """Gives stores and takes them back."""

    @contextmanager
    def store(self) -> Iterator[tuple[str, Path]]:
        """An empty store's URL, and a directory with the keys, until the history is over."""
        yield "", Path()


class SqliteShelf:
    """Each store is a file."""

    def __init__(self, directory: Path) -> None:
        """Make the first one in a directory."""
        self._directory = directory
        asyncio.run(migrate_store(f"sqlite:///{directory}/wakegate.db"))
        with sqlite3.connect(directory / "wakegate.db") as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        _make_keys(directory)

    @contextmanager
    def store(self) -> Iterator[tuple[str, Path]]:
        """See `Shelf`."""
        with tempfile.TemporaryDirectory(prefix="model-", dir=room()) as name:
            for file in ("wakegate.db", *KEYS):
                shutil.copy(self._directory / file, Path(name) / file)
            yield f"sqlite:///{name}/wakegate.db", Path(name)


class PostgresShelf:
    """Each store is a database of one server."""

    def __init__(self, stores: "EmptyStores", directory: Path) -> None:
        """Take where empty stores come from, and a directory for the keys."""
        self._stores = stores
        self._directory = directory
        _make_keys(directory)

    @contextmanager
    def store(self) -> Iterator[tuple[str, Path]]:
        """See `Shelf`."""
        with self._stores.store() as url:
            yield url, self._directory


def _make_keys(directory: Path) -> None:
    for name in KEYS:
        ensure_key(directory / name)
