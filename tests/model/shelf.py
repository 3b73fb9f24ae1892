"""The shelf: where every history gets an empty store of its own, a copy of one that was made once."""

import asyncio
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from wakegate_schema.keys import ensure_key
from wakegate_schema.store import migrate_store

if TYPE_CHECKING:
    from support.servers import PostgresServer

DATABASE: Final = "WAKEGATE_TEST_DATABASE"
"""Names the database that `make model` searches on: sqlite or postgresql; without it, each test says which."""
KEYS: Final = ("receiver.key", "worker.key")
ROOM: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where files are made: what a disk keeps when the power fails is shown elsewhere."""


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
        with tempfile.TemporaryDirectory(prefix="model-", dir=ROOM) as name:
            for file in ("wakegate.db", *KEYS):
                shutil.copy(self._directory / file, Path(name) / file)
            yield f"sqlite:///{name}/wakegate.db", Path(name)


class PostgresShelf:
    """Each store is a database of one server."""

    def __init__(self, server: "PostgresServer", template: str, directory: Path) -> None:
        """Take a server with an empty store, and a directory for the keys."""
        self._server = server
        self._template = template
        self._directory = directory
        _make_keys(directory)

    @contextmanager
    def store(self) -> Iterator[tuple[str, Path]]:
        """See `Shelf`."""
        name = self._server.create_database(f"model_{secrets.token_hex(6)}", template=self._template)
        try:
            yield self._server.url(name), self._directory
        finally:
            self._server.drop_database(name)


def _make_keys(directory: Path) -> None:
    for name in KEYS:
        ensure_key(directory / name)
