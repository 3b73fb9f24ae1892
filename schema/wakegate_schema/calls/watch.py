"""The watch: one look at the store's changes, shared by everybody in this process who waits."""

import asyncio
from typing import Final

from wakegate_schema.calls.persistence import ended
from wakegate_schema.store import Store, StoreUnavailable

REREAD_S: Final = 1.0
"""How long a waiter goes without reading again, whatever the store says."""
GAP_S: Final = 0.02
"""The least time between two reads of one waiter, however much is committed."""


class Watch:
    """Tells waiters that somebody has committed something."""

    def __init__(self, store: Store) -> None:
        """Take the store."""
        self._store = store
        self._looking: asyncio.Task[None] | None = None
        self._closed = False
        self.number = -1
        """Of the latest change noticed. Note it before reading, so that no change in between is missed."""

    async def changed(self, seen: int, seconds: float) -> None:
        """Return once there is a change later than number `seen`, after `seconds`, or at the latest after `REREAD_S`.

        Two returns are at least `GAP_S` apart, unless the seconds are over before.
        """
        until = asyncio.get_running_loop().time() + min(seconds, GAP_S)
        if not self._closed and self.number == seen:
            if self._looking is None:
                self._looking = asyncio.get_running_loop().create_task(self._look())
            await asyncio.wait({self._looking}, timeout=seconds)
        await asyncio.sleep(max(0.0, until - asyncio.get_running_loop().time()))

    async def close(self) -> None:
        """Stop looking; whoever still waits reads again at once. Repeats are no-ops."""
        self._closed = True
        if self._looking is not None:
            await ended(self._looking)

    async def _look(self) -> None:
        try:
            self.number = await self._store.changed(self.number, REREAD_S)
        except StoreUnavailable:  # whoever reads will find out
            await asyncio.sleep(GAP_S)
        finally:
            self._looking = None
