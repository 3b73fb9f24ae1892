"""Reading: one connection that only reads, in one thread, off the event loop."""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from wakegate_schema import fault_points
from wakegate_schema.loggers import logger
from wakegate_schema.store.engine import ReadSession
from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.ownership import Ownership
from wakegate_schema.store.transaction import Transaction

_log = logger("wakegate_schema")
_P = ParamSpec("_P")
_R = TypeVar("_R")

PATIENCE_S: Final = 10.0
"""How long a caller waits for an answer, in seconds: as long as for a write's."""

_Call = tuple[Future[Any], Callable[[], Any]]


class Reader:
    """Runs reading verbs, one after the other."""

    def __init__(self, session: ReadSession) -> None:
        """Take the connection; it is opened by the first read."""
        self._session = session
        self._ownership = Ownership()
        self._waiting: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        """Guards the thread and the end: event loops in several threads may use one store."""
        self._thread: threading.Thread | None = None
        self._closed = False

    async def read(self, verb: Callable[Concatenate[Transaction, _P], _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run a reading verb. Raises what it raises, or `StoreUnavailable`; that too when nothing answers."""
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

        future = self._submit(lambda: run(again=True))
        try:
            # The database may never answer: a table that somebody has locked, a server that was stopped, a dead disk.
            async with asyncio.timeout(PATIENCE_S) as patience:
                return await asyncio.wrap_future(future)
        except TimeoutError as error:
            if not patience.expired():
                raise
            raise StoreUnavailable("the store does not answer", reason="store_timeout") from error

    async def close(self) -> None:
        """Let go of the database, when what is being read has ended. Repeats are no-ops."""
        with self._lock:
            self._closed = True
            thread = self._thread
            self._waiting.put(None)
        if thread is not None:
            await asyncio.to_thread(thread.join, PATIENCE_S)
            if thread.is_alive():
                _log.error("the store cannot be closed; its reader hangs", action="close_failed")

    def _submit(self, call: Callable[[], _R]) -> "Future[_R]":
        future: Future[_R] = Future()
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed", reason="closed")
            self._waiting.put((future, call))
            if self._thread is None:
                self._begin()
        return future

    def _begin(self) -> None:
        # A daemon: a database that never answers shall not keep a process that is to end.
        thread = threading.Thread(target=self._run, name="wakegate-reader", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise StoreUnavailable("no thread can be had to read from; try again", reason="no_thread") from error
        self._thread = thread

    def _run(self) -> None:
        while (asked := self._waiting.get()) is not None:
            future, call = asked
            if not future.set_running_or_notify_cancel():
                continue  # nobody waits any more
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - whoever asked is told
                future.set_exception(error)
        self._session.close()
