"""Leases: what is due, and everything the worker does before a start."""

from collections.abc import Sequence

from wakegate_schema.records import (
    Approval,
    Closing,
    Execution,
    Lease,
    MissingTool,
    RequestIdentity,
)
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import (
    leases,
)


class Leases(Part):
    """See the module."""

    async def lease_due(self, owner: str, limit: int, at: int, until: int) -> list[Execution]:
        """Lease up to `limit` unstarted executions that are due, soonest first.

        A lease that nobody gives back makes the execution due again at `until`. `owner` names one process. One that
        has registered as a worker is given what a harness runs, and what a worker is to run if it has the tool at the
        version that the call declares, if any. Any other is given everything, as every worker was before migration 5.
        To the one that passed an execution on, it is due two seconds later than to everybody else.
        """
        return await self._writer.do(leases.take, (owner, limit, at, until))

    async def lease_orphans(
        self, owner: str, missing: Sequence[MissingTool], limit: int, at: int, until: int
    ) -> list[Execution]:
        """Lease up to `limit` calls that are due and that no living worker has the tool for, of these tools.

        Those that their provider may have decided, so that a denial, a cancel and the end of an approval come through
        all the same; and those that were never submitted and are old enough to be given up. The others wait, due, for a
        worker that has their tool.
        """
        return await self._writer.do(leases.take_orphans, (owner, missing, limit, at, until))

    async def next_due_at(self, owner: str | None = None) -> int | None:
        """Return when the soonest unstarted execution that `lease_due` may give to `owner` is due, None for never."""
        return await self._reader.read(leases.next_due_at, owner)

    async def keep_lease(self, lease: Lease, at: int, until: int) -> bool:
        """Lengthen a lease before the start. False when it was lost: stop working on the execution."""
        return await self._writer.do(leases.keep, (lease, at, until))

    async def release(
        self,
        lease: Lease,
        due_at: int,
        problem: str | None,
        at: int,
        *,
        pass_on: bool = False,
        approval: Approval | None = None,
    ) -> bool:
        """Give a lease back and look again at `due_at`, or now if something came in meanwhile.

        A `problem` counts as a try that brought nothing; None clears both. With `pass_on` somebody else is to look:
        the lease's owner comes after everybody else. An `approval` that was read and cannot be used yet is pinned:
        no other one is taken for this execution from now on. False when the lease was lost.
        """
        released = await self._writer.do(leases.release, (lease, due_at, problem, at, pass_on, approval))
        if pass_on or due_at <= at:  # for others; to its own worker, what it releases is no news
            self._ringer.ring()
        return released

    async def begin_submission(self, lease: Lease, tool_version: str | None, at: int) -> bool:
        """saved → submitting, before the first byte goes out. `tool_version` is kept if none was declared.

        True also when it was submitting already; False when the lease or the state was lost.
        """
        return await self._writer.do(leases.begin_submission, (lease, tool_version, at))

    async def attach(self, execution_id: str, request: RequestIdentity, at: int) -> Execution:
        """Record the request's identity, in any state; submitting → waiting.

        Due at once when its notification came first. Repeats are no-ops; another identity than the recorded one
        raises `InvariantViolated`. One whose request was made before the present epoch began, give or take the clocks,
        belongs to the older epoch unless it was released. Returns the execution as it is now.
        """
        return await self._writer.do(leases.attach, (execution_id, request, at))

    async def close_unstarted(self, lease: Lease, closing: Closing, at: int) -> bool:
        """End an execution that will not start. False when the lease or the state was lost."""
        return await self._writer.do(leases.close, (lease, closing, at))

    async def lease_cancels(self, limit: int, at: int, until: int) -> list[Execution]:
        """Return executions that owe the provider a cancel, each due again at `until`."""
        return await self._writer.do(leases.take_cancels, (limit, at, until))

    async def cancel_settled(self, execution_id: str) -> None:
        """The provider has answered: no cancel is owed any more."""
        await self._writer.do(leases.cancel_settled, execution_id)

    async def cancel_retry(self, execution_id: str, due_at: int) -> None:
        """The cancel did not get through: try again at `due_at`."""
        await self._writer.do(leases.cancel_retry, (execution_id, due_at))
