"""A store whose transactions are timed, from having the turn to the end of the commit."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.scale.grounds import Ground
from benchmarks.scale.turning import Timed
from wakegate_schema.store import Store, open_store


class Times(Timed):
    """See `Timed`; reading is timed too."""

    async def read_s(self, read: Callable[[], Awaitable[object]]) -> float:
        """Seconds that a read takes."""
        begun = time.monotonic()
        await read()
        return time.monotonic() - begun


@asynccontextmanager
async def timed_store(at: Ground) -> AsyncIterator[tuple[Store, Times]]:
    """Open a store as a service does, with a writer of its own."""
    async with await open_store(at.location, mode="service") as store:
        writer = store._writer
        timed = writer._engine = Times(writer._engine)
        yield store, timed
