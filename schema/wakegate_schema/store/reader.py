"""Reading: one connection that can only read, in one thread, off the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

from wakegate_schema import fault_points
from wakegate_schema.store.engine import ReadSession
from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.ownership import Ownership
from wakegate_schema.store.transaction import Transaction

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Reader:
    """Runs reading verbs, one after the other."""

    def __init__(self, session: ReadSession) -> None:
        """Take the connection; it is opened by the first read."""
        self._session = session
        self._ownership = Ownership()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="wakegate-reader")
        self._closed = False

    async def read(self, verb: Callable[Concatenate[Transaction, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run a reading verb. Raises what it raises, or `StoreUnavailable`."""
        self._ownership.check()

        def run(again: bool) -> _R:
            if self._closed:  # or whoever asks while it closes opens the database once more
                raise StoreUnavailable("the store is closed", reason="closed")
            try:
                fault_points.reach("store.read", verb)
                return verb(self._session.transaction(), *args, **kwargs)
            except Exception as error:
                translated = self._session.translate(error)
                if isinstance(translated, StoreUnavailable):
                    self._session.close()
                    if again and self._session.is_cut_off(error):
                        return run(again=False)
                if translated is error:
                    raise
                raise translated from error

        try:
            future = self._thread.submit(run, again=True)
        except RuntimeError as error:
            raise StoreUnavailable("the store is closed", reason="closed") from error
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Let go of the database. Repeats are no-ops."""
        self._closed = True
        with suppress(RuntimeError):
            await asyncio.wrap_future(self._thread.submit(self._session.close))
        self._thread.shutdown(wait=False)
