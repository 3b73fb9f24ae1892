"""Resuming: adopted requests, whose framework is woken by its own resumer in a process of its own."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import structlog

from wakegate_schema import strict_json, timestamps, wire
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Adoption, Instance
from wakegate_schema.settings import Settings
from wakegate_schema.states import GIVE_UP_AFTER
from wakegate_schema.store import Store, StoreError, StoreUnavailable
from wakegate_worker import wake_programs
from wakegate_worker.adoption_rules import (
    APPROVAL_EXPIRED,
    CONSUMED_IN_DOUBT,
    GIVEN_UP,
    NO_RESUME_HANDLE,
    End,
    Handle,
    Look,
    after_run,
    handle_of,
    next_step,
)
from wakegate_worker.backoff import retry_at
from wakegate_worker.decisions import CredentialRefused, DecisionError, InvalidAnswer, Reading
from wakegate_worker.log import log
from wakegate_worker.owed import PARKED_RETRY_S
from wakegate_worker.parking import park
from wakegate_worker.repeats import is_told
from wakegate_worker.sources import INSTANCE_PARKED, INSTANCE_RETIRED, Sources
from wakegate_worker.stopping import Interrupted, Stop
from wakegate_worker.wake_programs import Ended, Hold, NotHeld, Program

LEASE_S: Final = 15.0
"""Seconds that a thread is taken: no longer than a dead worker may cost."""
LOOK_S: Final = 60.0
"""Seconds that one is being looked at; longer than the exchange with the provider may take."""
KEEP_EVERY_S: Final = LEASE_S / 3
MARGIN_S: Final = 2.0
"""Seconds before the lease's end at which a run that could not be kept is ended: nobody else has begun one yet."""
TAKEN_PAUSE_S: Final = 1.0
"""Seconds after which it is tried again to take a thread that another run has."""


class Resuming:
    """Runs resumers, one at a time for each thread, until a read shows that nothing waits any more."""

    def __init__(
        self,
        store: Store,
        sources: Sources,
        resumers: Mapping[str, Program],
        *,
        now: Callable[[], int],
        stop: Stop,
    ) -> None:
        """Take the store, the sources, the program for each framework, the wall clock in µs and the stop."""
        self._store = store
        self._sources = sources
        self._resumers = resumers
        self._now = now
        self._stop = stop
        self._running: Counter[str] = Counter()
        """How many runs of each framework last now: those of one never take the room of the others."""

    async def take(self, limit: int) -> list[Adoption]:
        """Return up to `limit` adoptions that are due and that a resumer of this worker may be for."""
        now, at_once = self._now(), wake_programs.AT_ONCE
        frameworks = [framework for framework in self._resumers if self._running[framework] < at_once]
        return await self._store.lease_adoptions(frameworks, limit, now, now + _us(LOOK_S))

    async def handle(self, adoption: Adoption) -> None:
        """Read the request, and do what is to be done for it now."""
        structlog.contextvars.bind_contextvars(request_id=adoption.request_id)
        if self._now() >= adoption.created_at + GIVE_UP_AFTER:
            await self._end(adoption, GIVEN_UP)
            return
        try:
            instance = await self._store.instance(adoption.provider, adoption.instance_id)
            reading = await self._read(adoption, instance)
        except Interrupted:
            await self._store.adoption_again(adoption.lease, self._now(), None)
        except StoreUnavailable:
            raise
        except CredentialRefused as error:
            if await park(self._store, instance, error):
                await self._put_off(adoption, error)
            else:  # it was stored or sealed anew meanwhile: once more, with the one there is now
                await self._store.adoption_again(adoption.lease, self._now(), None)
        except (DecisionError, StoreError) as error:
            await self._put_off(adoption, error)
        else:
            await self._act(adoption, reading.request)

    async def _read(self, adoption: Adoption, instance: Instance) -> Reading:
        source = self._sources.of(instance)
        with self._stop.interruptible():
            reading = await source.read_request(adoption.request_id)
        if reading.request.id != adoption.request_id:
            raise InvalidAnswer("the answer is about another request", reason="request_id_differs")
        return reading

    async def _act(self, adoption: Adoption, request: wire.ApprovalRequest) -> None:
        handle = handle_of(request)
        if handle is None:
            await self._end(adoption, NO_RESUME_HANDLE)
            return
        if adoption.framework is None:
            if not await self._store.adoption_learned(adoption.lease, handle.framework, handle.thread, self._now()):
                return
            log.info("adopted", action="adopt", framework=handle.framework)
        program = self._resumers.get(adoption.framework or handle.framework)
        step = next_step(adoption, request, self._now())
        if isinstance(step, End):
            await self._end(adoption, step.reason)
        elif isinstance(step, Look):
            await self._again(adoption, step.due_at, step.problem)
        elif program is None:  # another worker's
            await self._store.adoption_again(adoption.lease, self._now(), None)
        elif self._running[program.name] >= wake_programs.AT_ONCE:
            await self._store.adoption_again(adoption.lease, self._now() + _us(TAKEN_PAUSE_S), None)
        else:
            self._running[program.name] += 1
            try:
                await self._run(adoption, program, handle, request)
            finally:
                self._running[program.name] -= 1

    async def _run(self, adoption: Adoption, program: Program, handle: Handle, request: wire.ApprovalRequest) -> None:
        begun_at, begun = self._now(), time.monotonic()
        if not await self._store.adoption_run(adoption.lease, begun_at, begun_at + _us(LEASE_S)):
            await self._store.adoption_again(adoption.lease, begun_at + _us(TAKEN_PAUSE_S), None)
            return
        log.info("resuming", action="resume", framework=program.name, runs=adoption.runs + 1)
        ended = await self._kept(adoption, program, _message(handle, request), begun)
        well = ended.problem is None
        due_at = after_run(adoption, request, began_at=begun_at, well=well, now=self._now())
        if well:
            log.info("resumed", action="resume", framework=program.name, due_at=timestamps.render(due_at))
        else:
            said = {} if ended.detail is None else {"stderr": ended.detail}
            log.warning("a resumer has failed", action="resume", framework=program.name, problem=ended.problem, **said)
        if not await self._store.adoption_again(adoption.lease, due_at, ended.problem, "well" if well else "badly"):
            log.info("the lease is lost", action="resume")

    async def _kept(self, adoption: Adoption, program: Program, message: bytes, begun: float) -> Ended:
        """Run the program for as long as its thread can be kept: nobody runs the thread beside it."""
        if time.monotonic() >= begun + LEASE_S - MARGIN_S:  # taking it took too long
            return Ended("thread_lost")
        hold = Hold(begun + LEASE_S - MARGIN_S)
        run = asyncio.ensure_future(wake_programs.run(program, adoption.request_id, message, hold))
        keep = asyncio.ensure_future(self._keep(adoption, hold))
        try:
            await asyncio.wait({run, keep}, return_when=asyncio.FIRST_COMPLETED)
            return run.result() if run.done() else Ended("thread_lost")
        except NotHeld:
            return Ended("thread_lost")
        finally:
            for task in (run, keep):
                task.cancel()
            await asyncio.gather(run, keep, return_exceptions=True)

    async def _keep(self, adoption: Adoption, hold: Hold) -> None:
        """Lengthen the lease again and again; return when it is lost, or cannot be kept in time."""
        pause_s = KEEP_EVERY_S
        while (left := hold.until - time.monotonic()) > 0:
            await asyncio.sleep(min(pause_s, left))
            begun, now = time.monotonic(), self._now()
            with suppress(TimeoutError, StoreUnavailable):
                async with asyncio.timeout(max(0.0, hold.until - begun)):
                    if not await self._store.adoption_keep(adoption.lease, now, now + _us(LEASE_S)):
                        return
                    hold.lengthen(begun + LEASE_S - MARGIN_S)
                    pause_s = KEEP_EVERY_S
                    continue
            pause_s = 1.0

    async def _put_off(self, adoption: Adoption, error: DecisionError | StoreError) -> None:
        if error.reason == INSTANCE_RETIRED:
            await self._end(adoption, INSTANCE_RETIRED)
            return
        retry_after_s = error.retry_after_s if isinstance(error, DecisionError) else None
        due_at = retry_at(adoption.tries, self._now(), random.random, retry_after_s=retry_after_s)
        if isinstance(error, CredentialRefused) or error.reason == INSTANCE_PARKED:
            due_at = self._now() + _us(PARKED_RETRY_S)
        await self._again(adoption, due_at, error.reason)

    async def _again(self, adoption: Adoption, due_at: int, problem: str) -> None:
        await self._store.adoption_again(adoption.lease, due_at, problem)
        tries = adoption.tries + 1
        if is_told(tries, changed=problem != adoption.problem):
            due = timestamps.render(due_at)
            log.info("to be tried again", action="adopt", problem=problem, tries=tries, due_at=due)

    async def _end(self, adoption: Adoption, reason: str) -> None:
        if await self._store.adoption_ended(adoption.lease, reason, self._now()):
            level = log.warning if reason in _TO_BE_LOOKED_AT else log.info
            level("adoption ended", action="adopt", reason=reason)


_TO_BE_LOOKED_AT: Final = (APPROVAL_EXPIRED, GIVEN_UP, CONSUMED_IN_DOUBT)


def resumers_of(settings: Settings) -> dict[str, Program]:
    """Return the program that resumes each framework's runs, by the framework's name."""
    return {
        framework: wake_programs.of_resumer(framework, function, settings.resumers_directory, settings.resumer_seconds)
        for framework, function in settings.resumers.items()
    }


def _message(handle: Handle, request: wire.ApprovalRequest) -> bytes:
    message = {"handle": dict(handle.value), "request": wire.object_value(request)}
    return strict_json.dumps(message, max_depth=strict_json.MAX_DEPTH + 1)  # a request may have all of its depth


def _us(seconds: float) -> int:
    return round(seconds * SECOND)
