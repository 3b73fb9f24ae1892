"""The log of what harnesses are told, and what is counted of it and of the rest."""

from collections.abc import Sequence

from wakegate_schema.records import (
    Census,
    Identity,
    Timing,
    Told,
)
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import (
    census,
    resolutions,
)


class ToldLog(Part):
    """See the module."""

    async def resolutions(
        self, instances: Sequence[Identity] | None, after: tuple[int, int] | None, limit: int = 100
    ) -> list[Told]:
        """Return a page of what was told of some instances, or of all for None, in the order of the commits.

        Args:
            instances: provider and id of each.
            after: a place, `Told.place`; None begins with the earliest that is kept. A place of an older epoch
                resumes with whatever that epoch has not left here.
            limit: the most there are in the page.
        """
        return await self._reader.read(resolutions.page, instances, after, limit)

    async def resolutions_end(self, instances: Sequence[Identity] | None = None) -> tuple[int, int]:
        """Return the place of the last thing told of some instances, or of all for None: epoch and number."""
        return await self._reader.read(resolutions.end, instances)

    async def numbering_key(self) -> bytes:
        """Return the secret 32 bytes under which the numbers of calls and resolutions are shown to harnesses."""
        return await self._reader.read(resolutions.numbering_key)

    async def census(self) -> Census:
        """Count what is unfinished, and say since when the oldest of it is due."""
        return await self._reader.read(census.take)

    async def timings(self, after: int, limit: int = 500) -> list[Timing]:
        """Return what was told after number `after`, in order, with the times of the attempt."""
        return await self._reader.read(census.timings, after, limit)
