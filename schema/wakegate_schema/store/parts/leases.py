"""Leases: what is due, and everything the worker does before a start."""

from wakegate_schema.records import (
    Approval,
    Closing,
    Execution,
    Lease,
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

        A lease that nobody gives back makes the execution due again at `until`. `owner` names one process: to the one
        that passed an execution on, it is due two seconds later than to everybody else.
        """
        return await self._writer.do(leases.take, (owner, limit, at, until))

    async def next_due_at(self, owner: str | None = None) -> int | None:
        """Return when the soonest unstarted execution becomes due to `owner`, or None when nothing will."""
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
        return await self._writer.do(leases.release, (lease, due_at, problem, at, pass_on, approval))

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
