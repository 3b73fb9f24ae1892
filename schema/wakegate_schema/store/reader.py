"""Reading: one connection that can only read, in one thread, off the event loop."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.sqlite import connect
from wakegate_schema.store.transaction import Transaction

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Reader:
    """Runs reading verbs; no read outlives its statement, so that the WAL can always be taken in."""

    def __init__(self, path: Path, queries: Mapping[str, str]) -> None:
        """Take the database file's path and the dialect's named queries; the file is opened by the first read."""
        self._path = path
        self._queries = queries
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wakegate-reader")

    async def read(self, verb: Callable[Concatenate[Transaction, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run a reading verb. Raises what it raises, or `StoreUnavailable`."""

        def run() -> _R:
            try:
                if self._connection is None:
                    self._connection = connect(self._path, read_only=True)
                return verb(Transaction(self._connection, self._queries), *args, **kwargs)
            except sqlite3.Error as error:
                self._close()
                raise StoreUnavailable(f"the store at {self._path} cannot be read: {error}") from error

        try:
            future = self._thread.submit(run)
        except RuntimeError as error:
            raise StoreUnavailable("the store is closed", reason="closed") from error
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Let go of the file. Repeats are no-ops."""
        with suppress(RuntimeError):
            await asyncio.wrap_future(self._thread.submit(self._close))
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None
