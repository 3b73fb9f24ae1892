"""Attempts: a permission is given, spent once, and its outcome recorded."""

from wakegate_schema.records import (
    Approval,
    Claimed,
    Doubts,
    Execution,
    Lease,
    Outcome,
)
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import (
    attempts,
)


class Attempts(Part):
    """See the module."""

    async def permit(self, lease: Lease, approval: Approval, at: int, ahead: int = 0) -> bool:
        """waiting → permitted, for a harness-run execution. False when the lease, the state or the time was lost.

        `ahead` is by how many µs the provider's clock is ahead of the one that shows `at`; a claim, which cannot ask
        the provider, has that much less time.
        """
        return await self._writer.do(attempts.permit, (lease, approval, at, ahead))

    async def start(self, lease: Lease, approval: Approval, at: int, until: int) -> Execution | None:
        """waiting → permitted → started, in one commit, for a worker-run execution. Spends the permission.

        Guarded by state, lease and `at < expires_at`. Returns None when the guard does not hold. When this raises
        `StoreUnavailable`, read the execution again: it is yours only if it says started under this lease's number.
        """
        return await self._writer.do(attempts.start, (lease, approval, at, until))

    async def claim(
        self, execution_id: str, claim_id: str, at: int, until: int, margin: int, actor: str = "harness"
    ) -> Claimed | Execution:
        """permitted → started, for a harness that runs the call itself. `claim_id` is the claimer's choice.

        `actor` is who claims, as the records name them.

        A repeat with the same id returns the same attempt with a fresh token, while it is running. Anything that
        does not permit a start (state, another's claim, less than `margin` µs before expires_at) returns the
        execution as it is instead. Raises `NotFound`.
        """
        return await self._writer.do(attempts.claim, (execution_id, claim_id, at, until, margin, actor))

    async def renew(self, lease: Lease, at: int, until: int, token: str | None = None) -> bool:
        """Say that the attempt still runs. False when it is in doubt or settled. A claim's needs its token."""
        return await self._writer.do(attempts.renew, (lease, at, until, token))

    async def runs_on(self, lease: Lease, until: int, token: str | None = None) -> bool:
        """Say that the attempt still runs although its lease is lost or it is in doubt: a sign of life until `until`.

        Nothing is settled by it; but a probe's "it did not happen" is not taken from who has not seen it. False when
        the attempt is settled.
        """
        return await self._writer.do(attempts.runs_on, (lease, until, token))

    async def finish(
        self, lease: Lease, outcome: Outcome, at: int, token: str | None = None, actor: str | None = None
    ) -> Execution:
        """Record how the attempt ended; also late, when it was in doubt. A claim's needs its token.

        Repeats are no-ops. A word against what a person has settled is kept as an anomaly. Returns the execution
        as it is now. `actor` is who says so in the records, unless given whoever runs the call. Raises `NotAllowed`
        when this attempt does not exist or the token is not its own.
        """
        return await self._writer.do(attempts.finish, (lease, outcome, at, token, actor))

    async def settle(self, execution_id: str, *, happened: bool, by: str, note: str, at: int) -> Execution:
        """in_doubt → succeeded or failed, on a person's word.

        Raises `NotFound`, or `NotAllowed` from any other state.
        """
        return await self._writer.do(attempts.settle, (execution_id, happened, by, note, at))

    async def settle_by_probe(self, execution_id: str, outcome: Outcome, at: int, seen: int | None = None) -> bool:
        """in_doubt → succeeded or failed, on the word of the tool's probe.

        `seen` is the last sign of life that the one who asked has seen (`Execution.lease_until`). False when the
        execution is not in doubt any more, and for a `failed` when the attempt has given another sign since.
        """
        return await self._writer.do(attempts.settle_by_probe, (execution_id, outcome, at, seen))

    async def doubts(self, limit: int = 1000) -> Doubts:
        """Count what is in doubt, looking at the first `limit` at most."""
        return await self._reader.read(attempts.doubts, limit)
