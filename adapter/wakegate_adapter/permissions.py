"""Permissions: taking the one permission to run a call, keeping its lease, and recording how it ended."""

import asyncio
import functools
import os
import re
import time
from typing import Final

from wakegate_adapter.attempt import Taken
from wakegate_adapter.errors import OutcomeNotRecorded
from wakegate_adapter.log import log
from wakegate_adapter.persistence import patiently, to_the_end, until_lost
from wakegate_schema import clock, clock_mark, ids, timestamps
from wakegate_schema.calls.call import check_visible
from wakegate_schema.calls.grant import Grant, grant_of
from wakegate_schema.calls.outcomes import LAPSED_AT_START
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Claimed, Execution, Outcome
from wakegate_schema.resolution import Resolution, resolution_of
from wakegate_schema.states import OLDER_EPOCH, State
from wakegate_schema.store import Store, StoreError, StoreUnavailable

MARGIN: Final = 2 * SECOND
"""A claim with less time than this before `expires_at` is refused (µs)."""


class Permissions:
    """The verbs on permissions, over the store."""

    def __init__(self, store: Store, lease: float, patience: float) -> None:
        """Take the store, the seconds a lease lasts, and the seconds for which an unavailable store is tried."""
        self._store = store
        self.lease = lease
        self._patience = patience

    async def take(self, execution_id: str, claim_id: str) -> Taken:
        """Commit `started` if a valid approval permits it; see `Adapter.take`.

        Cancelled after the commit, the attempt is recorded as not begun.
        """
        check_visible(claim_id, "claim_id")
        highest = await self._highest_clock()
        if clock_mark.is_behind(clock.now(), highest):
            execution = await self._store.execution(execution_id)
            return await self._refused(execution, ("clock_behind", _clock_behind(highest)))
        taking = asyncio.get_running_loop().create_task(self._take(execution_id, claim_id, highest))
        try:
            return await asyncio.shield(taking)
        except asyncio.CancelledError:
            await to_the_end(self._give_back(taking))
            raise

    async def renew(self, grant: Grant) -> bool:
        """Lengthen the lease. False when it was lost: the call is in doubt, or settled."""
        at = clock.now()
        return await self._store.renew(grant.lease, at, at + int(self.lease * SECOND), grant.token)

    async def keep(self, grant: Grant) -> None:
        """Keep the lease by renewing it, until it is lost; then return."""
        await until_lost(lambda: self.renew(grant), self.lease, functools.partial(_not_renewed, grant))
        log.warning("the lease is lost", action="renew", execution_id=grant.execution_id)

    async def give_signs(self, grant: Grant) -> None:
        """Say again and again that the call goes on although its lease is lost, until it is settled."""
        await until_lost(lambda: self.runs_on(grant), self.lease, functools.partial(_not_renewed, grant))

    async def runs_on(self, grant: Grant) -> bool:
        """Say once that the call goes on although its lease is lost. False when it is settled."""
        at = clock.now()
        return await self._store.runs_on(grant.lease, at, at + int(self.lease * SECOND), grant.token)

    async def finish(self, grant: Grant, outcome: Outcome) -> Execution:
        """Record how the attempt ended, insisting while the store is unavailable.

        Raises:
            OutcomeNotRecorded: it could not be recorded; the cause says why.
        """

        async def record() -> Execution:
            return await self._store.finish(grant.lease, outcome, clock.now(), grant.token)

        try:
            execution = await patiently(record, self._patience)
        except StoreError as error:
            fields = {"execution_id": grant.execution_id, "outcome": outcome.kind, "reason": error.reason}
            log.error("the outcome could not be recorded", action="finish", **fields)
            raise OutcomeNotRecorded(grant, outcome.kind, str(error)) from error
        log.info("finished", action="finish", execution_id=grant.execution_id, state=execution.state.value)
        return execution

    async def resolution(self, execution: Execution) -> Resolution:
        """Return what is to be told of an execution, under the id that its wake has too."""
        transitions = await patiently(lambda: self._store.transitions(execution.execution_id), self._patience)
        *_, told = (found for found in transitions if found.to_state is execution.state)  # a release enters it again
        return resolution_of(execution, told.wake_id)

    async def _highest_clock(self) -> int:
        """Put this host's clock on record; return the highest reading before (DESIGN, start, step 7)."""
        host, at = clock_mark.host_name(), clock.now()
        return await patiently(lambda: self._store.mark_clock(host, at), self._patience)

    async def _take(self, execution_id: str, claim_id: str, highest: int) -> Taken:
        async def claim() -> Claimed | Execution:
            at = max(clock.now(), highest)
            return await self._store.claim(execution_id, claim_id, at, at + int(self.lease * SECOND), MARGIN)

        begun = time.monotonic()
        found = await patiently(claim, self._patience)
        if not isinstance(found, Claimed):
            return await self._refused(found)
        return await self._checked(found, highest, begun)

    async def _checked(self, claimed: Claimed, highest: int, begun: float) -> Taken:
        """Look once more at everything, right before the call may begin (AAP, execution rules 4)."""
        grant = grant_of(claimed)
        try:
            resolution = await self.resolution(claimed.execution)
        except StoreUnavailable:
            await self.finish(grant, Outcome("not_begun", "store_unavailable"))
            raise
        log.info("claimed", action="claim", execution_id=grant.execution_id)  # may take its time
        look = functools.partial(self._unfit, claimed.execution, highest, begun)
        unfit = look()
        if unfit is not None:
            return await self._refused(await self.finish(grant, unfit))
        told = "The call is approved; run it now, once."
        return Taken(resolution, told, None, grant, claimed.execution.arguments, look)

    def _unfit(self, execution: Execution, highest: int, begun: float) -> Outcome | None:
        """Return why the call must not begin although it is claimed; None when it may."""
        at, expires_at = clock.now(), execution.expires_at
        if expires_at is None or clock_mark.is_behind(at, highest):
            return LAPSED_AT_START
        if max(at, highest) >= expires_at - execution.provider_ahead:
            return LAPSED_AT_START
        # A process that was held up may find that others have taken the attempt for dead, or settled it.
        if time.monotonic() - begun >= self.lease:
            return Outcome("not_begun", "start_too_slow", error="the claim took as long as its lease lasts")
        if not execution.intact:
            return Outcome("not_begun", "digest_differs", error="the saved call is not the one that was approved")
        return None

    async def _refused(self, execution: Execution, why: tuple[str, str] | None = None) -> Taken:
        resolution = await self.resolution(execution)
        refusal, explanation = why or refusal_of(execution, resolution)
        log.info("claim refused", action="claim", execution_id=execution.execution_id, reason=refusal)
        return Taken(resolution, explanation, refusal)

    async def _give_back(self, taking: "asyncio.Task[Taken]") -> None:
        await asyncio.wait({taking})
        if taking.cancelled() or taking.exception() is not None:
            return
        if (grant := taking.result().grant) is not None:
            await self.finish(grant, Outcome("not_begun", "cancelled_at_start", error="cancelled before it began"))


def _not_renewed(grant: Grant, error: StoreUnavailable) -> None:
    if error.reason == "closed":
        raise error
    log.warning(
        "the lease could not be renewed yet", action="renew", execution_id=grant.execution_id, reason=error.reason
    )


def refusal_of(execution: Execution, resolution: Resolution) -> tuple[str, str]:
    """Return why a call may not be claimed: a machine word, and one sentence for the agent."""
    if execution.state is State.STARTED and execution.started_at is not None:
        who = f"claim {execution.claim_id}" if execution.claim_id else "the worker"
        when = timestamps.render(execution.started_at)
        return "already_started", f"The call was already started, at {when} by {who}, and is not started again."
    if execution.runs == "worker" and not execution.resolved:
        return "runs_in_worker", "The worker runs this call when it is approved; a harness cannot claim it."
    if execution.problem == OLDER_EPOCH:
        return OLDER_EPOCH, (
            "The store has gone back in time, and the call may have been started before that; it is not started unless"
            " an operator releases it."
        )
    if execution.state is State.PERMITTED:
        return "too_late", "The call was approved, but too little time is left before that ends, so it does not run."
    return execution.state.value, resolution.explanation


def new_claim_id(label: str | None = None) -> str:
    """Return an id that no other claim has, beginning with the label, or with what names this process."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", clock_mark.host_name())[:100]
    return f"{label or f'{host}/{os.getpid()}'}/{ids.new()}"


def _clock_behind(highest: int) -> str:
    return (
        f"The clock of this host is behind {timestamps.render(highest)}, a time it has shown before, so no call may"
        " start here; correct the clock, or have an operator reset the mark (`wakegate clock reset`)."
    )
