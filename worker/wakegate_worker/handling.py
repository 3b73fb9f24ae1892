"""Handling: one leased execution, taken as far as it goes now."""

import asyncio
import random
from collections.abc import Callable

import structlog

from wakegate_schema.records import Closing, Execution, Identity, Instance
from wakegate_schema.states import GIVE_UP_AFTER, NO_WORKER_HAS_THE_TOOL, State
from wakegate_schema.store import Store, StoreError, StoreUnavailable
from wakegate_schema.wake_targets import NONE
from wakegate_worker.backoff import after_store_failure, again_at, delay_s, give_up_at
from wakegate_worker.decisions import (
    SILENT,
    CredentialRefused,
    DecisionError,
    DecisionSource,
    Reading,
    SubmissionRejected,
)
from wakegate_worker.exchanges import Exchanges, ProviderBusy
from wakegate_worker.keeping import Keeping
from wakegate_worker.log import log
from wakegate_worker.parking import park
from wakegate_worker.reading_once import ReadingOnce
from wakegate_worker.resumption import Resumption
from wakegate_worker.sources import INSTANCE_PARKED, NoCredential, Sources
from wakegate_worker.stopping import Interrupted, Stop
from wakegate_worker.submission import Submission

STORE_UNAVAILABLE = "store_unavailable"
"""The problem of an execution that the store failed in the middle of; its lease was given back afterwards."""
INTERNAL_ERROR = "internal_error"
"""The problem of an execution that met an error nobody foresaw; the log has it."""


class Handler:
    """Submits, reads and resumes. What fails before the start is put on record and tried again."""

    def __init__(
        self,
        store: Store,
        sources: Sources,
        submission: Submission,
        resumption: Resumption,
        exchanges: Exchanges,
        keeping: Keeping,
        *,
        now: Callable[[], int],
        stop: Stop,
        woken: asyncio.Event,
    ) -> None:
        """Take the parts, the wall clock in µs, the stop, and what to set when a wake may be owed."""
        self._store = store
        self._instances: ReadingOnce[Identity, Instance] = ReadingOnce(lambda key: store.instance(*key))
        self._sources = sources
        self._submission = submission
        self._resumption = resumption
        self._exchanges = exchanges
        self._keeping = keeping
        self._now = now
        self._stop = stop
        self._woken = woken

    async def handle(self, execution: Execution) -> None:
        """Take a leased execution as far as it goes. Raises only `StoreUnavailable`: its lease then runs out."""
        structlog.contextvars.bind_contextvars(execution_id=execution.execution_id)
        try:
            async with self._keeping.kept(execution.lease):
                await self._handle(execution)
        except Interrupted:
            await self._resumption.release(execution, self._now(), execution.problem)
        except StoreUnavailable as error:
            log.warning("the store cannot be used", action="handle", reason=error.reason)
            await self._give_back(execution)
        except Exception as error:
            log.exception("unforeseen error", action="handle", error=type(error).__name__)
            problem = error.reason if isinstance(error, StoreError) else INTERNAL_ERROR
            due_at = again_at(execution, self._now(), random.random)
            await self._resumption.release(execution, due_at, problem)
        finally:
            if execution.wake != NONE:
                self._woken.set()

    async def _give_back(self, execution: Execution) -> None:
        """Give the lease back as soon as the store answers again, so that nobody waits for its end.

        The store takes a lease back only while it holds and nothing has started: whatever was committed, its answer
        lost perhaps, stands. Raises `StoreUnavailable` when the store does not answer before the lease's end.
        """
        loop, tries = asyncio.get_running_loop(), 0
        until = loop.time() + self._keeping.lease_s
        while True:
            await self._stop.pause(delay_s(tries, random.random, base_s=0.1, cap_s=1.0))
            due_at = after_store_failure(execution, self._now(), random.random)
            try:
                return await self._resumption.release(execution, due_at, STORE_UNAVAILABLE)
            except StoreUnavailable:
                if self._stop.requested or loop.time() >= until:
                    raise
            tries += 1

    async def _handle(self, execution: Execution) -> None:
        can_begin = self._submission.can_begin(execution)
        problem = execution.problem if can_begin else NO_WORKER_HAS_THE_TOOL
        if problem is not None and self._now() >= give_up_at(execution):
            await self._give_up(execution, problem, sent=execution.state is not State.SAVED)
            return
        if not can_begin:
            await self._leave(execution)
            return
        instance = await self._instances.read((execution.provider, execution.instance_id))
        try:
            await self._advance(execution, instance)
        except CredentialRefused as error:
            await self._park(execution, instance, error)
        except SubmissionRejected as error:
            await self._resumption.close(execution, Closing(State.REFUSED, error.reason))
        except (NoCredential, ProviderBusy) as error:  # nothing went out
            await self._again(execution, error, sent=execution.state is not State.SAVED)
        except DecisionError as error:
            await self._again(execution, error)

    async def _leave(self, execution: Execution) -> None:
        """Leave a call that was never submitted to a worker that has its tool; `Orphans` find it when it is over."""
        due_at = min(self._now(), give_up_at(execution) - GIVE_UP_AFTER)
        await self._resumption.release(execution, due_at, NO_WORKER_HAS_THE_TOOL, pass_on=True)

    async def _advance(self, execution: Execution, instance: Instance) -> None:
        source = self._sources.of(instance)
        with self._exchanges.under_way(execution.provider):
            answered = await self._ask(execution, source)
        if answered is not None:
            execution, reading = answered
            await self._resumption.resume(execution, instance, source, reading)

    async def _ask(self, execution: Execution, source: DecisionSource) -> tuple[Execution, Reading] | None:
        if execution.state in (State.SAVED, State.SUBMITTING):
            return await self._submission.submit(execution, source)
        with self._stop.interruptible():
            return execution, await source.read(execution, 0)

    async def _park(self, execution: Execution, instance: Instance, error: CredentialRefused) -> None:
        if await park(self._store, instance, error):
            await self._again(execution, NoCredential(reason=INSTANCE_PARKED))
        else:  # it was stored or sealed anew meanwhile: once more, with the one there is now
            await self._resumption.release(execution, self._now(), execution.problem)

    async def _again(self, execution: Execution, error: DecisionError, *, sent: bool = True) -> None:
        """Try again later: a new credential makes all that waits for it due, other failures are retried in time."""
        now, last = self._now(), give_up_at(execution)
        if now >= last:
            await self._give_up(execution, error.problem, sent=sent)
        elif error.problem == INSTANCE_PARKED:
            await self._resumption.release(execution, last, error.problem)
        else:
            due_at = again_at(execution, now, random.random, retry_after_s=error.retry_after_s)
            # Silence took this try's whole time; a worker on another host may hear the provider.
            is_silent = error.problem == SILENT
            await self._resumption.release(execution, min(due_at, last), error.problem, pass_on=is_silent)

    async def _give_up(self, execution: Execution, reason: str, *, sent: bool) -> None:
        """End what got no decision in time; if it was sent, the provider may have it, so a cancel is owed."""
        await self._resumption.close(execution, Closing(State.UNOBTAINED, reason, cancel=sent))
