"""Resumption: from what the provider says to what becomes of the call (DESIGN, "The start, step by step")."""

import random
import time

from wakegate_schema import timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Approval, Closing, Execution, Instance
from wakegate_schema.states import State
from wakegate_schema.store import Store
from wakegate_worker.backoff import (
    AFTER_DEADLINE,
    APPROVED_CAP_S,
    LONG_POLL_S,
    give_up_at,
    look_after_notification,
    next_look,
    retry_at,
)
from wakegate_worker.boundary import FUTURE_TOLERANCE, NotYet, Pending, Permit, Refusal, approval_of, check, lapsed
from wakegate_worker.clocks import ClockVerdict, server_time
from wakegate_worker.consuming import Cleared, Consuming, NotNow
from wakegate_worker.decisions import CredentialRefused, DecisionError, DecisionSource, Reading
from wakegate_worker.host_clock import HostClock
from wakegate_worker.log import log
from wakegate_worker.long_polls import LongPolls
from wakegate_worker.registry import ArgumentsDoNotFit
from wakegate_worker.repeats import is_told
from wakegate_worker.slots import Slots
from wakegate_worker.starting import CannotRunHere, Starting
from wakegate_worker.stopping import Stop

PENDING_AFTER_NOTIFICATION = "pending_after_notification"
"""The problem of a request that is pending although its notification came."""
STILL_PENDING = "still_pending"
"""The reason of a request that was pending long after its deadline."""
LEAST_POLL_S = 1.0
"""A long poll that is answered sooner than this, undecided, was none: its provider does not hold requests."""

_HINTS = {
    ClockVerdict.CLOCK_BEHIND: "correct this host's clock; if it is right now: wakegate clock reset --by NAME",
    ClockVerdict.NO_SERVER_DATE: "the provider's answers have no Date; ask whoever runs it, or what is between",
}


class Resumption:
    """Acts on readings of a leased, waiting execution until it is decided, started, or to be looked at later."""

    def __init__(
        self,
        store: Store,
        starting: Starting,
        consuming: Consuming,
        *,
        clock: HostClock,
        slots: Slots,
        long_polls: LongPolls,
        lease_s: float,
        stop: Stop,
    ) -> None:
        """Take the parts.

        Args:
            store: the store.
            starting: starts calls.
            consuming: spends their approvals at the provider.
            clock: this host's.
            slots: those that a long poll frees.
            long_polls: the polls under way.
            lease_s: a lease's length, seconds.
            stop: ends what waits.
        """
        self._store = store
        self._starting = starting
        self._consuming = consuming
        self._clock = clock
        self._slots = slots
        self._long_polls = long_polls
        self._lease_s = lease_s
        self._stop = stop

    async def resume(self, execution: Execution, instance: Instance, source: DecisionSource, reading: Reading) -> None:
        """Act on a reading, and on those that follow while the request is long-polled.

        Raises:
            DecisionError: a further reading failed.
            Interrupted: a stop broke it off; nothing was spent.
        """
        following: Reading | None = reading
        while following is not None:
            reading = following
            verdict = check(execution, reading.request, self._clock.now())
            if isinstance(verdict, Pending):
                following = await self._wait(execution, instance, source)
                continue
            following = None
            if isinstance(verdict, Permit):
                await self._permitted(execution, source, verdict.approval, reading)
            elif isinstance(verdict, NotYet):
                await self.release(execution, verdict.due_at, verdict.problem, approval=approval_of(reading.request))
            elif verdict.closing.reason == Refusal.TIME_IN_FUTURE and await self._is_slow(reading):
                await self._slow(execution, source, reading)
            elif verdict.closing.state is State.LAPSED:
                await self._lapse(execution, verdict.closing, source, reading)
            else:
                await self.close(execution, verdict.closing)

    async def close(self, execution: Execution, closing: Closing) -> None:
        """End an execution that will not start."""
        if not await self._store.close_unstarted(execution.lease, closing, self._clock.now()):
            log.info("the lease is lost", action="close")
            await self._in_vain(execution, closing.consumed_at)
            return
        level = log.error if closing.state is State.REFUSED else log.info
        level("closed", action="close", state=closing.state, reason=closing.reason)

    async def release(
        self,
        execution: Execution,
        due_at: int,
        problem: str | None,
        *,
        hint: str | None = None,
        pass_on: bool = False,
        approval: Approval | None = None,
    ) -> None:
        """Look again at `due_at`, or sooner when something comes in.

        Args:
            execution: one under this worker's lease.
            due_at: wall clock, µs.
            problem: what stands in the way, or None.
            hint: what to do about it, when it is for people to do something.
            pass_on: rather another worker than this is to look.
            approval: one that was read and cannot be used yet; no other is taken from now on.
        """
        await self._store.release(
            execution.lease, due_at, problem, self._clock.now(), pass_on=pass_on, approval=approval
        )
        tries = execution.tries + 1
        if problem is None or not is_told(tries, changed=problem != execution.problem):
            return
        fields = {"problem": problem, "tries": tries, "due_at": timestamps.render(due_at)}
        if hint is None:
            log.info("to be tried again", action="retry", **fields)
        else:
            log.warning("it cannot go on yet", action="retry", **fields, hint=hint)

    async def _permitted(
        self, execution: Execution, source: DecisionSource, approval: Approval, reading: Reading
    ) -> None:
        """Start the call, or permit its harness to: what can be known without spending anything is found out first."""
        if not await self._is_in_time(execution, source, approval, reading):
            return
        prepared = None
        try:
            if execution.runs == "worker":
                prepared = self._starting.prepare(execution)
        except (CannotRunHere, ArgumentsDoNotFit) as error:
            await self._not_now(execution, approval, error.reason, hint=str(error), pass_on=True)
            return
        cleared = await self._consume(execution, source, approval, reading)
        if cleared is None:
            return
        approval, is_new = cleared.approval, cleared.reading is not reading
        if is_new and not await self._is_in_time(execution, source, approval, cleared.reading):
            return
        if prepared is None:
            begun = await self._permit(execution, approval, cleared.reading)
        else:
            begun = await self._starting.start(execution, approval, prepared, cleared.reading)
        if not begun:
            await self._in_vain(execution, approval.consumed_at)

    async def _is_in_time(
        self, execution: Execution, source: DecisionSource, approval: Approval, reading: Reading
    ) -> bool:
        verdict = await self._starting.check_time(approval, reading)
        if verdict is ClockVerdict.LAPSED:
            await self._lapse(execution, lapsed(approval), source, reading)
        elif verdict is not ClockVerdict.IN_TIME:
            await self._not_now(execution, approval, str(verdict), hint=_HINTS[verdict])
        return verdict is ClockVerdict.IN_TIME

    async def _lapse(self, execution: Execution, closing: Closing, source: DecisionSource, reading: Reading) -> None:
        """End a call whose approval is over, by whatever clock; it may have been consumed from here all the same."""
        await self.close(execution, await self._consuming.lapsed(execution, closing, source, reading))

    async def _consume(
        self, execution: Execution, source: DecisionSource, approval: Approval, reading: Reading
    ) -> Cleared | None:
        """Consume the approval where that is to be done; None when the call does not start now."""
        try:
            answer = await self._consuming.consume(execution, approval, source, reading)
        except CredentialRefused:
            raise
        except DecisionError as error:  # consumed or not: the same key asks again, as long as the approval lasts
            await self._not_now(execution, approval, error.problem, retry_after_s=error.retry_after_s)
            return None
        if isinstance(answer, Cleared):
            return answer
        if isinstance(answer, NotNow):
            await self._not_now(execution, approval, answer.problem, hint=answer.hint)
        else:
            await self.close(execution, answer)
        return None

    async def _in_vain(self, execution: Execution, consumed_at: int | None) -> None:
        """Owe the provider the word that it never ran, should it have been ended while it was consumed."""
        if consumed_at is not None:
            await self._store.consumed_in_vain(execution.execution_id, consumed_at, self._clock.now())

    async def _permit(self, execution: Execution, approval: Approval, reading: Reading) -> bool:
        now = self._clock.now()
        ahead = max(0, (_server_now(reading) or now) - now)
        permitted = await self._store.permit(execution.lease, approval, now, ahead)
        log.info("permitted" if permitted else "the lease is lost", action="permit")
        return permitted

    async def _not_now(
        self,
        execution: Execution,
        approval: Approval,
        problem: str,
        *,
        hint: str | None = None,
        pass_on: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        """Leave an approved call for later, or for another worker, until its approval lapses."""
        due_at = min(self._soon(execution, problem, retry_after_s), approval.expires_at)
        await self.release(execution, due_at, problem, hint=hint, pass_on=pass_on, approval=approval)

    async def _is_slow(self, reading: Reading) -> bool:
        """Return whether a decision that seems to lie far ahead is none of the provider's fault.

        By the provider's own clock it does not lie far ahead, or this host has shown a later time before.
        """
        decision, server_now = reading.request.decision, _server_now(reading)
        if decision is not None and server_now is not None:
            latest = max(timestamps.parse(reading.request.created_at), timestamps.parse(decision.decided_at))
            if latest <= server_now + FUTURE_TOLERANCE:
                return True
        return await self._clock.is_behind()

    async def _slow(self, execution: Execution, source: DecisionSource, reading: Reading) -> None:
        """Wait for this host's clock to be corrected, until the approval ends by the provider's."""
        approval, server_now = approval_of(reading.request), _server_now(reading)
        if approval is not None and server_now is not None and server_now >= approval.expires_at:
            await self._lapse(execution, lapsed(approval), source, reading)
            return
        problem = ClockVerdict.CLOCK_BEHIND
        due_at = self._soon(execution, problem)
        await self.release(execution, due_at, problem, hint=_HINTS[problem], approval=approval)

    def _soon(self, execution: Execution, problem: str, retry_after_s: float | None = None) -> int:
        """Return when to look again at a decided call that cannot start here because of this problem, µs."""
        tries = execution.tries if execution.problem == problem else 0
        return retry_at(tries, self._clock.now(), random.random, retry_after_s=retry_after_s, cap_s=APPROVED_CAP_S)

    async def _wait(self, execution: Execution, instance: Instance, source: DecisionSource) -> Reading | None:
        """Wait for a decision here if there is a place to; else see to it that somebody looks again."""
        now = self._clock.now()
        if now >= give_up_at(execution):
            await self.close(execution, Closing(State.UNOBTAINED, STILL_PENDING, cancel=True))
            return None
        if instance.delivery == "webhook":
            request_id = execution.request_id or ""
            notified = await self._store.notified(execution.provider, execution.instance_id, request_id)
            tries = execution.tries if execution.problem == PENDING_AFTER_NOTIFICATION else 0
            soon = look_after_notification(tries, now) if notified else next_look(execution, "webhook", now)
            if soon is not None:
                await self.release(execution, soon, PENDING_AFTER_NOTIFICATION if notified else None)
                return None
        reading = await self._poll(execution, source)
        if reading is None:
            now = self._clock.now()
            await self.release(execution, next_look(execution, instance.delivery, now), None)
        return reading

    async def _poll(self, execution: Execution, source: DecisionSource) -> Reading | None:
        """Ask the provider to answer when the request is decided; None when it did not, or there was no place."""
        now = self._clock.now()
        deadline_at = execution.deadline_at or now
        lease_us = round(self._lease_s * SECOND)
        if now >= deadline_at + AFTER_DEADLINE or not await self._store.keep_lease(
            execution.lease, now, now + lease_us
        ):
            return None
        begun = time.monotonic()
        wait_s = max(LEAST_POLL_S, min(LONG_POLL_S, self._lease_s / 2))
        with self._slots.lent(), self._stop.interruptible():
            reading = await self._long_polls.run(deadline_at, source.read(execution, wait_s))
        held = time.monotonic() - begun >= LEAST_POLL_S
        if reading is None or (reading.request.status == "pending" and not held):
            return None
        return reading


def _server_now(reading: Reading) -> int | None:
    return server_time(reading.server_date, reading.received_monotonic, time.monotonic())
