"""Grants: a permission is taken, its lease kept, and what became of it recorded, over the store or the control API."""

import functools

from wakegate_adapter.errors import OutcomeNotRecorded
from wakegate_adapter.log import log
from wakegate_schema.calls import Calls, Grant, Standing, Taken
from wakegate_schema.calls.giving_back import given_back_if_cancelled
from wakegate_schema.calls.outcomes import LAPSED_AT_START
from wakegate_schema.calls.persistence import patiently, to_the_end, until_lost
from wakegate_schema.calls.refusal import refusal_of
from wakegate_schema.errors import WakegateError
from wakegate_schema.records import Outcome
from wakegate_schema.store import StoreUnavailable


class Grants:
    """What a harness does with the right to run a call."""

    def __init__(self, calls: Calls, patience: float) -> None:
        """Take the verbs, and the seconds for which they are tried again while nobody answers."""
        self._calls = calls
        self._patience = patience

    async def take(self, execution_id: str, claim_id: str) -> Taken:
        """Claim a permitted call, and look at every clock as the last thing; see `Adapter.take`.

        While the answer is lost it is asked for again, under the same id: nothing was begun. Cancelled after the
        claim, the attempt is recorded as not begun.
        """
        try:
            taken = await self._calls.take(execution_id, claim_id)
        except StoreUnavailable as error:
            if error.reason == "closed":
                raise
            # It may be claimed, and nobody knows: from here on, only an answer ends this.
            again = patiently(lambda: self._calls.take(execution_id, claim_id), self._patience)
            taken = await given_back_if_cancelled(again, self.finish)
        return await self._looked_at(taken)

    async def keep(self, grant: Grant, lease: float) -> None:
        """Keep the lease, which lasts so many seconds, by renewing it until it is lost; then return."""
        await until_lost(lambda: self._calls.renew(grant), lease, functools.partial(_not_renewed, grant))
        log.warning("the lease is lost", action="renew", execution_id=grant.execution_id)

    async def give_signs(self, grant: Grant, lease: float) -> None:
        """Say again and again that the call goes on although its lease is lost, until it is settled."""
        await until_lost(lambda: self._calls.runs_on(grant), lease, functools.partial(_not_renewed, grant))

    async def finish(self, grant: Grant, outcome: Outcome) -> Standing:
        """Record how the attempt ended, insisting while nobody answers.

        Raises:
            OutcomeNotRecorded: it could not be recorded; the cause says why.
        """
        try:
            standing = await patiently(lambda: self._calls.finish(grant, outcome), self._patience)
        except WakegateError as error:
            fields = {"execution_id": grant.execution_id, "outcome": outcome.kind, "reason": error.reason}
            log.error("the outcome could not be recorded", action="finish", **fields)
            raise OutcomeNotRecorded(grant, outcome.kind, str(error)) from error
        log.info("finished", action="finish", execution_id=grant.execution_id, state=standing.state.value)
        return standing

    async def _looked_at(self, taken: Taken) -> Taken:
        execution_id = taken.resolution.execution_id
        if taken.grant is None:
            log.info("claim refused", action="claim", execution_id=execution_id, reason=taken.refusal)
            return taken
        log.info("claimed", action="claim", execution_id=execution_id)  # may take its time
        unfit = LAPSED_AT_START if taken.unfit is None else taken.unfit()
        if unfit is None:
            return taken
        standing = await to_the_end(self.finish(taken.grant, unfit))
        refusal, explanation = refusal_of(standing)
        return Taken(standing, explanation, refusal)


def _not_renewed(grant: Grant, error: StoreUnavailable) -> None:
    if error.reason == "closed":
        raise error
    log.warning(
        "the lease could not be renewed yet", action="renew", execution_id=grant.execution_id, reason=error.reason
    )
