"""Workers: who lives, and what each has."""

from wakegate_schema.records import MissingTool, RegisteredWorker
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import workers


class Workers(Part):
    """See the module."""

    async def show_worker(self, worker: RegisteredWorker, at: int) -> None:
        """Note a worker's sign of life, and register it if it is not on record, with the tools that it has.

        Shown for half a minute, it counts as living; ten minutes after its last sign it is forgotten.
        """
        await self._writer.do(workers.show, (worker, at))

    async def drop_worker_tools(self, worker_id: str) -> None:
        """Say that a worker, which lives on for a while, starts nothing any more."""
        await self._writer.do(workers.drop_tools, worker_id)

    async def remove_worker(self, worker_id: str) -> None:
        """Forget a worker that has ended. One that is not on record is no error."""
        await self._writer.do(workers.remove, worker_id)

    async def workers(self) -> list[RegisteredWorker]:
        """Return the workers on record, those that have fallen silent lately included, by pool."""
        return await self._reader.read(workers.every)

    async def living_pools(self, at: int) -> frozenset[str]:
        """Return the names of the pools in which a worker lives at `at`."""
        return await self._reader.read(workers.living_pools, at)

    async def longest_lease_seconds(self) -> int:
        """Return the longest lease of the workers on record, 0 without any."""
        return await self._reader.read(workers.longest_lease)

    async def missing_tools(self, at: int) -> list[MissingTool]:
        """Return the tools that undecided calls name and that no worker which lives at `at` has at their version.

        Up to 100; of more than that, others with every second of `at`.
        """
        return await self._reader.read(workers.missing, at)
