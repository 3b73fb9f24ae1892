"""Claiming: a permitted call is started for the harness that runs it, with every clock looked at before and after."""

import functools
import time
from dataclasses import dataclass
from typing import Final

from wakegate_schema import clock, clock_mark
from wakegate_schema.calls.giving_back import given_back_if_cancelled
from wakegate_schema.calls.grant import Grant, grant_of
from wakegate_schema.calls.outcomes import DIFFERS, LAPSED_AT_START, START_TOO_SLOW
from wakegate_schema.calls.persistence import patiently
from wakegate_schema.calls.refusal import Refusal, clock_behind, refusal_of
from wakegate_schema.calls.standing import Standing, Taken
from wakegate_schema.calls.telling import tell
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Claimed, Execution, Outcome
from wakegate_schema.store import Store, StoreUnavailable

MARGIN: Final = 2 * SECOND
"""A claim with less time than this before `expires_at` is refused (µs)."""
APPROVED: Final = "The call is approved; run it now, once."


@dataclass(frozen=True, slots=True)
class Terms:
    """On what terms calls are claimed."""

    actor: str
    """Who claims, as the records name them."""
    lease: float
    """Seconds that a lease lasts without being renewed."""
    patience: float
    """Seconds for which an unavailable store is tried again once a claim is committed."""


async def claim(store: Store, execution: Execution, claim_id: str, terms: Terms) -> Taken:
    """Commit `started` if a valid approval permits it (DESIGN, the start, steps 6 and 7).

    Args:
        store: where the call is.
        execution: the call, as it was read just now.
        claim_id: the claimer's choice; a repeat with the same one gives the same attempt, while it runs.
        terms: who claims, and for how long.

    Cancelled after the commit, the attempt is recorded as not begun.

    Raises:
        StoreUnavailable: it could not be done, or its answer was lost.
    """
    host, now = clock_mark.host_name(), clock.now()
    highest = await store.mark_clock(host, now)
    if clock_mark.is_behind(clock.now(), highest):
        return _refused(await tell(store, execution), clock_behind(highest))
    taking = _start(store, execution.execution_id, claim_id, terms, highest)
    return await given_back_if_cancelled(taking, functools.partial(_finish, store, terms))


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What the start of a claimed call must keep within."""

    execution: Execution
    highest: int
    """This host's highest clock reading before the claim, µs."""
    begun_at: int
    """This host's clock before the claim, µs."""
    begun: float
    """The monotonic time then, in seconds; it stands still while the machine is suspended, the clock does not."""
    lease: float

    @property
    def end(self) -> int:
        """When the approval ends by the clock that is furthest ahead, this host's or the provider's, µs."""
        expires_at = self.execution.expires_at
        return 0 if expires_at is None else expires_at - self.execution.provider_ahead

    def unfit(self) -> Outcome | None:
        """Return why the call must not begin although it is claimed; None when it may."""
        at = clock.now()
        if clock_mark.is_behind(at, self.highest) or max(at, self.highest) >= self.end:
            return LAPSED_AT_START
        # A process that was held up may find that others have taken the attempt for dead, or settled it.
        if max(time.monotonic() - self.begun, (at - self.begun_at) / SECOND) >= self.lease:
            return START_TOO_SLOW
        if not self.execution.intact:
            return DIFFERS
        return None


async def _start(store: Store, execution_id: str, claim_id: str, terms: Terms, highest: int) -> Taken:
    begun, begun_at = time.monotonic(), clock.now()
    at = max(begun_at, highest)
    until = at + int(terms.lease * SECOND)
    found = await store.claim(execution_id, claim_id, at, until, MARGIN, terms.actor)
    if not isinstance(found, Claimed):
        return _refused(await tell(store, found))
    return await _looked_at(store, found, terms, _Bounds(found.execution, highest, begun_at, begun, terms.lease))


async def _looked_at(store: Store, claimed: Claimed, terms: Terms, bounds: _Bounds) -> Taken:
    """Look once more at everything, right before the call may begin (AAP, execution rules 4)."""
    grant = grant_of(claimed)
    give_back = functools.partial(_finish, store, terms, grant)
    try:
        standing = await patiently(lambda: tell(store, claimed.execution), terms.patience)
    except StoreUnavailable:
        await give_back(Outcome("not_begun", "store_unavailable"))
        raise
    unfit = bounds.unfit()
    if unfit is not None:
        return _refused(await tell(store, await give_back(unfit)))
    behind = max(0, bounds.highest - clock.now())
    return Taken(
        standing, APPROVED, None, grant, claimed.execution.arguments, terms.lease, bounds.end - behind, bounds.unfit
    )


async def _finish(store: Store, terms: Terms, grant: Grant, outcome: Outcome) -> Execution:
    async def finish() -> Execution:
        return await store.finish(grant.lease, outcome, clock.now(), grant.token, terms.actor)

    return await patiently(finish, terms.patience)


def _refused(standing: Standing, why: Refusal | None = None) -> Taken:
    refusal, explanation = why or refusal_of(standing)
    return Taken(standing, explanation, refusal)
