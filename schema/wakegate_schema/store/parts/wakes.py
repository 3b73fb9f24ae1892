"""Wakes and groups: what harnesses are owed."""

from collections.abc import Sequence

from wakegate_schema.records import (
    Execution,
    Group,
    Wake,
    WakeState,
)
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import (
    groups,
    wakes,
)


class Wakes(Part):
    """See the module."""

    async def lease_wakes(
        self, limit: int, at: int, until: int, *, target: str | None = None, but: Sequence[str] = ()
    ) -> list[Wake]:
        """Return wakes that are owed, each due again at `until`: those of one target, or of all `but` some."""
        return await self._writer.do(wakes.take, (limit, at, until, target, tuple(but)))

    async def keep_wake(self, wake_id: str, since: int, until: int) -> bool:
        """Lengthen the lease of a wake, which was until `since`. False when it is not; it may be delivered twice."""
        return await self._writer.do(wakes.keep, (wake_id, since, until))

    async def wake_delivered(self, wake_id: str, at: int) -> None:
        """The harness has acknowledged the wake."""
        await self._writer.do(wakes.delivered, (wake_id, at))

    async def wake_failed(self, wake_id: str, due_at: int | None, problem: str) -> None:
        """The wake did not get through: try again at `due_at`, or never (undelivered, visible) for None."""
        await self._writer.do(wakes.failed, (wake_id, due_at, problem))

    async def wakes(self, execution_id: str) -> list[Wake]:
        """Return the wakes that tell of an execution, oldest first: its own, and that of its group."""
        return await self._reader.read(wakes.of_execution, execution_id)

    async def replay_wake(self, wake_id: str, at: int) -> Wake:
        """Owe a wake anew from `at` on, whatever has become of it: delivered and given-up ones too.

        Returns it as it is now. Raises `NotFound`.
        """
        return await self._writer.do(wakes.replay, (wake_id, at))

    async def wake(self, wake_id: str) -> Wake:
        """Return one wake. Raises `NotFound`."""
        return await self._reader.read(wakes.one, wake_id)

    async def wakes_called(self, prefix: str) -> list[Wake]:
        """Return up to 20 wakes whose ids begin with `prefix`, which is in lower case."""
        return await self._reader.read(wakes.called, prefix)

    async def latest_wakes(
        self, before: int | None = None, limit: int = 500, state: WakeState | None = None
    ) -> list[tuple[int, Wake]]:
        """Return a page of wakes with their row numbers, the latest first, before row `before`."""
        return await self._reader.read(wakes.latest, before, limit, state)

    async def seal_group(self, provider: str, instance_id: str, group: str, at: int) -> None:
        """Say that a group is complete: one wake tells of it once all of its calls are resolved. Repeats are no-ops.

        Raises `NotFound` when no call was saved with this group.
        """
        await self._writer.do(groups.seal, (provider, instance_id, group, at))

    async def group_calls(
        self, provider: str, instance_id: str, group: str, after: int = 0, limit: int = 20
    ) -> list[tuple[int, Execution]]:
        """Return a page of a group's calls with their row numbers, the first saved first, after row `after`."""
        return await self._reader.read(groups.calls, provider, instance_id, group, after, limit)

    async def group_executions(
        self, group_number: int, after: int = 0, limit: int = 20
    ) -> list[tuple[int, Execution, str]]:
        """Return a page of what a group's wake tells of, the first saved first, after row `after`.

        Each with its row number, and the id of its resolution.
        """
        return await self._reader.read(groups.told, group_number, after, limit)

    async def group_name(self, group_number: int) -> str:
        """Return the name of a wake's group."""
        return await self._reader.read(groups.name, group_number)

    async def open_groups(self, before: int | None = None, limit: int = 500) -> list[tuple[int, Group]]:
        """Return a page of the groups that are not sealed, with their numbers, the latest first, before `before`."""
        return await self._reader.read(groups.open_ones, before, limit)

    async def stuck_groups(self, limit: int = 1000) -> int:
        """Count, up to `limit`, the groups whose calls are all resolved and that wake nobody for want of a seal."""
        return await self._reader.read(groups.stuck, limit)
