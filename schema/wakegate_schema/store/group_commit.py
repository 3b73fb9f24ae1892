"""Group commit: whatever waits is written in one transaction and answered after one sync of the disk."""

import asyncio
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from wakegate_schema import fault_points
from wakegate_schema.loggers import logger
from wakegate_schema.store.engine import Engine
from wakegate_schema.store.errors import Collided, StoreError, StoreUnavailable
from wakegate_schema.store.ownership import Ownership
from wakegate_schema.store.transaction import Transaction

_log = logger("wakegate_schema")
_T = TypeVar("_T")
_R = TypeVar("_R")

Verb = Callable[[Transaction, Sequence[_T]], Sequence[_R]]

MAX_BATCH = 256
"""Items in one transaction; keeps a commit short."""
MAX_WAITING = 10_000
"""Items waiting for a commit; more are refused, so that memory stays bounded."""
PATIENCE_S = 10.0
"""How long a caller waits for an answer; longer than for somebody's lock on the file, so that this is told first."""
_UNANSWERED = object()
"""Not None: silence must not pass for success."""


@dataclass(slots=True)
class _Job:
    verb: Verb[Any, Any]
    item: Any
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    answer: Any = _UNANSWERED
    """The result, or the exception to raise."""


_Kinds = dict[Verb[Any, Any], list[_Job]]


class GroupCommit:
    """One writer thread with one connection. Verbs get whatever of their kind waits, as one batch."""

    def __init__(self, engine: Engine, *, beside: Collection[Verb[Any, Any]] = ()) -> None:
        """Take the engine; the thread starts with the first write.

        Args:
            engine: of the database.
            beside: the verbs whose batches need not be alone in the database: each raises `Collided` where another
                process has come in its way.
        """
        self._engine = engine
        self._beside = beside
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        """Guards the thread and the end: event loops in several threads may use one store."""
        self._thread: threading.Thread | None = None
        self._closed = False
        self._ownership = Ownership()

    async def do(self, verb: Verb[_T, _R], item: _T) -> _R:
        """Run a verb on one item and return its result once that is durable.

        Raises what the verb raised for this item, or `StoreUnavailable` when it was not, or may not have been,
        committed. A caller that stops waiting before its batch has its turn is left out of it.
        """
        self._ownership.check()
        loop = asyncio.get_running_loop()
        job = _Job(verb, item, loop.create_future(), loop)
        self._put(job)
        # The writer may wait without end: for the turn of a stopped process, for a disk that hangs.
        patience = loop.call_later(PATIENCE_S, _give_up, job.future)
        try:
            answer: _R = await job.future
        finally:
            patience.cancel()
        return answer

    async def close(self) -> bool:
        """Commit what waits and end the thread; return whether it has ended. Repeats are no-ops."""
        self._ownership.check()
        with self._lock:
            thread = self._thread
            if thread is not None and not self._closed:
                self._waiting.put(None)
            self._closed = True
        if thread is not None:
            await asyncio.to_thread(thread.join, PATIENCE_S)
            if thread.is_alive():
                _log.error("the store cannot be closed; its writer hangs", action="close_failed")
                return False
        return True

    def _put(self, job: _Job) -> None:
        with self._lock:
            if self._closed:
                raise StoreUnavailable("the store is closed", reason="closed")
            if self._waiting.qsize() >= MAX_WAITING:
                raise StoreUnavailable("too many writes are waiting; try again", reason="overloaded")
            self._waiting.put(job)
            if self._thread is None:
                try:
                    self._begin()
                except RuntimeError as error:
                    job.future.cancel()  # it waits on, but nothing is done for who has given up
                    raise StoreUnavailable(
                        "no thread can be had to write from; try again", reason="no_thread"
                    ) from error

    def _begin(self) -> None:
        thread = threading.Thread(target=self._run, name="wakegate-writer", daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        try:
            while batch := self._take():
                try:
                    self._commit(batch)
                finally:
                    _deliver(batch)
        finally:
            self._end()

    def _end(self) -> None:
        """Let go. After a failure another thread goes on with what waits; at the end nobody is left waiting."""
        left: list[_Job] = []
        self._engine.close()  # takes the WAL in, perhaps; callers must not wait for the lock meanwhile
        with self._lock:
            self._thread = None
            if not self._closed:
                if not self._waiting.empty():
                    self._begin()
                return
            with suppress(queue.Empty):
                while True:
                    job = self._waiting.get_nowait()
                    left += [] if job is None else [job]
        _deliver(left)

    def _commit(self, batch: list[_Job]) -> None:
        try:
            try:
                self._transact(batch, alone=not all(job.verb in self._beside for job in batch))
            except Collided:
                self._transact(batch, alone=True)
        except StoreError as error:
            _answer_all(batch, error)
        except Exception as error:  # noqa: BLE001 - every caller is told
            _answer_all(batch, StoreUnavailable(f"the store failed: {type(error).__name__}"))
            _log.exception("a batch failed", action="commit_failed")

    def _transact(self, batch: list[_Job], *, alone: bool) -> None:
        with self._engine.transaction(alone=alone) as transaction:
            # Waiting for the turn takes time: nothing is done any more for who has given up meanwhile.
            kinds = _by_verb(job for job in batch if not job.future.done())
            _reach("store.begin", kinds)
            self._apply(transaction, kinds)
            _reach("store.commit", kinds)
        _reach("store.committed", kinds)

    def _take(self) -> list[_Job]:
        """Wait for work; return all that waits, or nothing when it is time to end."""
        while True:
            batch: list[_Job] = []
            job = self._waiting.get()
            while job is not None:
                if not job.future.done():
                    batch.append(job)
                if len(batch) >= MAX_BATCH:
                    return batch
                try:
                    job = self._waiting.get_nowait()
                except queue.Empty:
                    break
            else:
                if batch:
                    self._waiting.put(None)
                return batch
            if batch:
                return batch

    def _apply(self, transaction: Transaction, kinds: _Kinds) -> None:
        for verb, jobs in kinds.items():
            if len(jobs) == 1 or not self._attempt(transaction, verb, jobs):
                for job in jobs:
                    self._attempt(transaction, verb, [job])

    def _attempt(self, transaction: Transaction, verb: Verb[Any, Any], jobs: list[_Job]) -> bool:
        """Run a verb on a batch so that a failure leaves no trace of it."""
        with self._engine.savepoint(transaction) as savepoint:
            try:
                answers = verb(transaction, [job.item for job in jobs])
                for job, answer in zip(jobs, answers, strict=True):
                    job.answer = answer
            except Exception as error:
                translated = self._engine.translate(error)
                if isinstance(translated, StoreUnavailable):
                    raise translated from error
                savepoint.undo()
                _answer_all(jobs, translated)
                return False
        return True


def _give_up(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(StoreUnavailable("the store does not answer", reason="store_timeout"))


def _by_verb(batch: Iterable[_Job]) -> _Kinds:
    kinds: _Kinds = {}
    for job in batch:
        kinds.setdefault(job.verb, []).append(job)
    return kinds


def _reach(place: str, kinds: _Kinds) -> None:
    for verb in kinds:
        fault_points.reach(place, verb)


def _answer_all(jobs: list[_Job], error: Exception) -> None:
    for job in jobs:
        job.answer = error


def _deliver(batch: list[_Job]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
    for job in batch:
        loops.setdefault(job.loop, []).append(job)
    for loop, jobs in loops.items():
        with suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
            loop.call_soon_threadsafe(_settle, jobs)


def _settle(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.done():
            continue
        if job.answer is _UNANSWERED:
            job.future.set_exception(StoreUnavailable("the writer ended before this was committed"))
        elif isinstance(job.answer, Exception):
            job.future.set_exception(job.answer)
        else:
            job.future.set_result(job.answer)
