"""Executions: saved, looked at, given up."""

from collections.abc import Sequence

from wakegate_schema.records import (
    Execution,
    Identity,
    Suspension,
    Transition,
)
from wakegate_schema.states import State
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import (
    executions,
    resolutions,
)


class Executions(Part):
    """See the module."""

    async def save(self, suspension: Suspension) -> Execution:
        """Save a call. The same key with the same call returns the execution saved before.

        Raises `KeyConflict` for the same key with anything else, `NotFound` for an unknown instance, `NotAllowed`
        for a retired one, and for a group that is sealed or wakes another target.
        """
        saved = await self._writer.do(executions.save, suspension)
        self._ringer.ring()
        return saved

    async def execution(self, execution_id: str) -> Execution:
        """Return one execution. Raises `NotFound`."""
        return await self._reader.read(executions.one, execution_id)

    async def find_execution(self, provider: str, instance_id: str, request_id: str) -> Execution | None:
        """Return the execution that waits for this request, if it was saved here."""
        return await self._reader.read(executions.by_request, provider, instance_id, request_id)

    async def executions(
        self, after: int = 0, limit: int = 500, state: State | None = None
    ) -> list[tuple[int, Execution]]:
        """Return a page of executions with their row numbers, oldest first, after row `after`."""
        return await self._reader.read(executions.page, after, limit, state)

    async def latest_executions(
        self, before: int | None = None, limit: int = 500, state: State | None = None
    ) -> list[tuple[int, Execution]]:
        """Return a page of executions with their row numbers, the latest first, before row `before`."""
        return await self._reader.read(executions.latest, before, limit, state)

    async def executions_of(
        self,
        instances: Sequence[Identity],
        before: int | None = None,
        limit: int = 100,
        state: State | None = None,
        group: str | None = None,
    ) -> list[tuple[int, Execution]]:
        """Return a page of the executions of some instances, with their row numbers, the latest first.

        Args:
            instances: provider and id of each.
            before: only what has a lower row number.
            limit: the most there are in the page.
            state: only those in this state.
            group: only those of this group.
        """
        return await self._reader.read(resolutions.executions, instances, before, limit, state, group)

    async def executions_called(self, key: str, prefix: str | None) -> list[Execution]:
        """Return executions with this idempotency key, or whose ids begin with `prefix`: up to 20 of each."""
        return await self._reader.read(executions.called, key, prefix)

    async def transitions(self, execution_id: str) -> list[Transition]:
        """Return every change of an execution's state, oldest first."""
        return await self._reader.read(executions.transitions, execution_id)

    async def abandon(self, execution_id: str, reason: str, actor: str, at: int) -> Execution:
        """Give up an execution that has not started, and owe its cancel. A resolved one is returned as it is.

        Raises `NotFound`, or `NotAllowed` when the call has started: it may be happening.
        """
        return await self._writer.do(executions.abandon, (execution_id, reason, actor, at))

    async def keep_hold(self, execution_id: str, hold_id: str, until: int, at: int) -> bool:
        """Lengthen a hold. False when it was lost: the execution is, or will be, abandoned."""
        return await self._writer.do(executions.keep_hold, (execution_id, hold_id, until, at))

    async def in_doubt(self, after: int = 0, limit: int = 500) -> list[tuple[int, Execution]]:
        """Return a page of executions in doubt, oldest first."""
        return await self.executions(after, limit, State.IN_DOUBT)
