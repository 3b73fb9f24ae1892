"""Upkeep: the sweep, retention, and whether the store can be written."""

from wakegate_schema.records import (
    Pruned,
    Swept,
)
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.sqlite import wal
from wakegate_schema.store.verbs import (
    leases,
    retention,
)


class Upkeep(Part):
    """See the module."""

    async def probe(self) -> None:
        """Make a real, durable write. Raises `StoreUnavailable` when that does not work now."""
        await self._writer.do(retention.probe, None)

    async def take_in_wal(self) -> int:
        """Take SQLite's WAL in if it has grown too large; return how many bytes it has then. See `sqlite/wal.py`."""
        return 0 if self._file is None else await self._reader.read(wal.take_in, self._file)

    async def wal_bytes(self) -> int:
        """Return how many bytes SQLite's WAL has: what was committed and is not in the database's own file yet."""
        return 0 if self._file is None else await self._reader.read(wal.measure, self._file)

    async def sweep(self, at: int, limit: int = 200) -> Swept:
        """Act on what time has done: started calls whose lease ran out, approvals that lapsed, holds that were lost."""
        return await self._writer.do(leases.sweep, (at, limit))

    async def prune(self, at: int, erase_finished_before: int, limit: int = 500) -> Pruned:
        """Take one bounded step of retention (DESIGN, "Retention"). Tombstones stay."""
        return await self._writer.do(retention.prune, (at, erase_finished_before, limit))
