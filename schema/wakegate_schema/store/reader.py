"""Reading: one connection that can only read, in one thread, off the event loop."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from wakegate_schema import fault_points
from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.file import DatabaseFile
from wakegate_schema.store.ownership import Ownership
from wakegate_schema.store.sqlite import translate
from wakegate_schema.store.transaction import Transaction

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Reader:
    """Runs reading verbs; no read outlives its statement, so that the WAL can always be taken in."""

    def __init__(self, path: Path, queries: Mapping[str, str]) -> None:
        """Take the database file's path and the dialect's named queries; the file is opened by the first read."""
        self.path = path
        self._queries = queries
        self._file = DatabaseFile(path, read_only=True)
        self._ownership = Ownership()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wakegate-reader")

    async def read(self, verb: Callable[Concatenate[Transaction, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run a reading verb. Raises what it raises, or `StoreUnavailable`."""

        self._ownership.check()

        def run() -> _R:
            try:
                fault_points.reach("store.read", verb)
                return verb(Transaction(self._file.current(), self._queries), *args, **kwargs)
            except Exception as error:
                translated = translate(error, self.path)
                if translated is error:
                    raise
                if isinstance(translated, StoreUnavailable):
                    self._file.close()
                raise translated from error

        try:
            future = self._thread.submit(run)
        except RuntimeError as error:
            raise StoreUnavailable("the store is closed", reason="closed") from error
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Let go of the file. Repeats are no-ops."""
        with suppress(RuntimeError):
            await asyncio.wrap_future(self._thread.submit(self._file.close))
        self._thread.shutdown(wait=False)
