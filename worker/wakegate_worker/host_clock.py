"""The host's clock mark: the highest wall clock reading this host has ever had (DESIGN, the start, step 7)."""

import asyncio
from collections.abc import Callable

from wakegate_schema import clock, clock_mark
from wakegate_schema.store import Store

MARK_EVERY = clock.SECOND
"""How often the mark is stored at most, in µs; well inside the tolerance."""


class HostClock:
    """Reads the wall clock and remembers, in the store too, how far it has come."""

    def __init__(self, store: Store, *, host: str | None = None, now: Callable[[], int] = clock.now) -> None:
        """Take the store, the host's name (its own unless given) and the wall clock in µs."""
        self._store = store
        self._host = host or clock_mark.host_name()
        self._now = now
        self._highest = 0
        self._marked_at: int | None = None
        self._marking: asyncio.Task[None] | None = None

    def now(self) -> int:
        """Return the wall clock, µs."""
        return self._now()

    @property
    def highest(self) -> int:
        """The highest reading known to this process, µs."""
        return self._highest

    async def mark(self) -> int:
        """Note the present reading and return the highest one until now, µs.

        The store's word counts, so an operator's reset of the mark is seen without a restart. Raises
        `StoreUnavailable`: then nothing may start.
        """
        now = self._now()
        if not self._is_fresh(now):
            await asyncio.shield(self._begin_marking(now))
            if self._marked_at is not None and now >= self._marked_at + MARK_EVERY:
                # What was joined began long before, with a reading that this one has left behind.
                await asyncio.shield(self._begin_marking(now))
        before = self._highest
        self._highest = max(before, now)
        return before

    def mark_soon(self) -> None:
        """Have the reading noted that a start is about to need, beside whatever else is written now."""
        now = self._now()
        if not self._is_fresh(now):
            self._begin_marking(now)

    def _begin_marking(self, now: int) -> asyncio.Task[None]:
        """Return the marking that is under way, all together have one."""
        if self._marking is None or self._marking.done():
            self._marking = asyncio.get_running_loop().create_task(self._mark(now))
            self._marking.add_done_callback(_heard)
        return self._marking

    async def _mark(self, now: int) -> None:
        self._highest = max(await self._store.mark_clock(self._host, now), now)
        self._marked_at = now

    async def is_behind(self) -> bool:
        """Return whether this host has shown a later time before; what seems to lie ahead may be the present then."""
        before = await self.mark()
        return clock_mark.is_behind(self._now(), before)

    def _is_fresh(self, now: int) -> bool:
        if self._marked_at is None or clock_mark.is_behind(now, self._highest):
            return False
        return self._marked_at <= now < self._marked_at + MARK_EVERY


def _heard(marking: asyncio.Task[None]) -> None:
    """Take note of a failure, which is told to who waits; nobody may."""
    if not marking.cancelled():
        marking.exception()
