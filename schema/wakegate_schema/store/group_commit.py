"""Group commit: whatever waits is written in one transaction and answered after one sync of the disk."""

import asyncio
import queue
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

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
PUT_TOGETHER: Final = 64
"""The most items that are handed to the writer as one; it takes such bundles whole."""
QUIET_TURNS: Final = 2
"""Turns of an event loop that bring nothing new, after which the writer is given what was gathered."""
PATIENCE_S = 10.0
"""How long a caller waits for an answer; longer than for somebody's lock on the file, so that this is told first."""
_UNANSWERED = object()
"""Not None: silence must not pass for success."""


@dataclass(slots=True)
class _Job:
    verb: Verb[Any, Any]
    item: Any
    future: asyncio.Future[Any]
    answer: Any = _UNANSWERED
    """The result, or the exception to raise."""


@dataclass(slots=True)
class _Bundle:
    """What one event loop wanted in a few turns: one hand-over, one timer and one answer for all of it."""

    jobs: list[_Job]
    loop: asyncio.AbstractEventLoop
    patience: asyncio.TimerHandle


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
        self._gathering: dict[asyncio.AbstractEventLoop, list[_Job]] = {}
        """What each event loop's present turn has asked for so far."""
        self._waiting: queue.SimpleQueue[_Bundle | None] = queue.SimpleQueue()
        self._count = 0
        """Items in the queue."""
        self._lock = threading.Lock()
        """Guards the thread, the count and the end: event loops in several threads may use one store."""
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
        gathering = self._gathering.get(loop, ())
        if self._closed:
            raise _closed()
        if self._count + len(gathering) >= MAX_WAITING:
            raise StoreUnavailable("too many writes are waiting; try again", reason="overloaded")
        if not gathering:
            gathering = self._gathering[loop] = []
            loop.call_soon(self._gather_on, loop, 0, 0)
        job = _Job(verb, item, loop.create_future())
        gathering.append(job)
        answer: _R = await job.future
        return answer

    async def close(self) -> bool:
        """Commit what waits and end the thread; return whether it has ended. Repeats are no-ops."""
        self._ownership.check()
        self._hand_over(asyncio.get_running_loop())
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

    def _gather_on(self, loop: asyncio.AbstractEventLoop, seen: int, quiet: int) -> None:
        """Let a loop that is at work gather more, for as long as every few turns of it bring something.

        A commit costs nearly as much for one item as for many, and takes the loop's time too.
        """
        count = len(self._gathering.get(loop, ()))
        quiet = 0 if count > seen else quiet + 1
        if quiet > QUIET_TURNS or count >= PUT_TOGETHER:
            self._hand_over(loop)
        else:
            loop.call_soon(self._gather_on, loop, count, quiet)

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give the writer what this turn of the loop has gathered: it is woken once, not once for each item."""
        gathered = self._gathering.pop(loop, [])
        try:
            for first in range(0, len(gathered), PUT_TOGETHER):
                self._put(gathered[first : first + PUT_TOGETHER], loop)
        except StoreUnavailable as error:
            _settle_all(gathered, error)  # what was put waits on, but nothing is done for who has been told

    def _put(self, jobs: list[_Job], loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if self._closed:
                raise _closed()
            # The writer may wait without end: for the turn of a stopped process, for a disk that hangs.
            self._waiting.put(_Bundle(jobs, loop, loop.call_later(PATIENCE_S, _give_up, jobs)))
            self._count += len(jobs)
            if self._thread is None:
                try:
                    self._begin()
                except RuntimeError as error:
                    raise StoreUnavailable(
                        "no thread can be had to write from; try again", reason="no_thread"
                    ) from error

    def _begin(self) -> None:
        thread = threading.Thread(target=self._run, name="wakegate-writer", daemon=True)
        thread.start()
        self._thread = thread

    def _run(self) -> None:
        try:
            while bundles := self._take():
                try:
                    batch = [job for bundle in bundles for job in bundle.jobs if not job.future.done()]
                    if batch:
                        self._commit(batch)
                finally:
                    _deliver(bundles)
        finally:
            self._end()

    def _end(self) -> None:
        """Let go. After a failure another thread goes on with what waits; at the end nobody is left waiting."""
        left: list[_Bundle] = []
        self._engine.close()  # takes the WAL in, perhaps; callers must not wait for the lock meanwhile
        with self._lock:
            self._thread = None
            if not self._closed:
                if not self._waiting.empty():
                    self._begin()
                return
            with suppress(queue.Empty):
                while True:
                    bundle = self._waiting.get_nowait()
                    left += [] if bundle is None else [bundle]
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
        except BaseException:
            # The verbs have left their answers already; none of them may be told without a commit.
            _answer_all(batch, StoreUnavailable("the writer ended before this was committed"))
            raise

    def _transact(self, batch: list[_Job], *, alone: bool) -> None:
        with self._engine.transaction(alone=alone) as transaction:
            # Waiting for the turn takes time: nothing is done any more for who has given up meanwhile.
            kinds = _by_verb(job for job in batch if not job.future.done())
            _reach("store.begin", kinds)
            self._apply(transaction, kinds)
            _reach("store.commit", kinds)
        _reach("store.committed", kinds)

    def _take(self) -> list[_Bundle]:
        """Wait for work; return all that waits, or nothing when it is time to end."""
        bundles: list[_Bundle] = []
        size = 0
        found = self._waiting.get()
        while found is not None:
            bundles.append(found)
            size += len(found.jobs)
            if size > MAX_BATCH - PUT_TOGETHER:
                break
            try:
                found = self._waiting.get_nowait()
            except queue.Empty:
                break
        if found is None and bundles:
            self._waiting.put(None)
        with self._lock:
            self._count -= size
        return bundles

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


def _closed() -> StoreUnavailable:
    return StoreUnavailable("the store is closed", reason="closed")


def _give_up(jobs: list[_Job]) -> None:
    _settle_all(jobs, StoreUnavailable("the store does not answer", reason="store_timeout"))


def _settle_all(jobs: list[_Job], error: Exception) -> None:
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(error)


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


def _deliver(bundles: list[_Bundle]) -> None:
    loops: dict[asyncio.AbstractEventLoop, list[_Bundle]] = {}
    for bundle in bundles:
        loops.setdefault(bundle.loop, []).append(bundle)
    for loop, of_loop in loops.items():
        with suppress(RuntimeError):  # the loop has ended, and with it everybody who waited
            loop.call_soon_threadsafe(_settle, of_loop)


def _settle(bundles: list[_Bundle]) -> None:
    for bundle in bundles:
        bundle.patience.cancel()
        for job in bundle.jobs:
            answer, future = job.answer, job.future
            if future.done():
                continue
            if answer is _UNANSWERED:
                future.set_exception(StoreUnavailable("the writer ended before this was committed"))
            elif isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)
