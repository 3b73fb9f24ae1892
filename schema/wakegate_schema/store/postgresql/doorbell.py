"""PostgreSQL's doorbell: notices that anybody, on any host, has committed something.

What a transaction would see now (its snapshot) changes with every commit. Asking for it needs neither a session of
one's own nor a table; LISTEN would need the first, which a pooler does not give.
"""

import asyncio
from contextlib import suppress

from wakegate_schema.store.doorbell import Doorbell
from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.reader import Reader
from wakegate_schema.store.transaction import Transaction

POLL_S = 0.025
"""Seconds between two looks, for all who wait in this process."""
DOWN_POLL_S = 0.5
"""The same while the database cannot be reached."""


class PostgresDoorbell(Doorbell):
    """See `Doorbell`."""

    def __init__(self, reader: Reader) -> None:
        """Take what reads the store."""
        super().__init__()
        self._reader = reader
        self._looking = asyncio.Lock()
        self._seen: str | None = None
        self._looked_at = 0.0
        self._poll_s = POLL_S

    async def _look_first(self) -> None:
        await self._look()

    async def _look_again(self) -> None:
        await asyncio.sleep(self._poll_s)
        with suppress(StoreUnavailable):  # closed: whoever waits says so
            await self._look()

    async def _look(self) -> None:
        async with self._looking:
            self._refuse_closed()
            now = asyncio.get_running_loop().time()
            if now - self._looked_at < self._poll_s / 2:
                return
            self._looked_at = now
            try:
                seen, self._poll_s = await self._reader.read(snapshot), POLL_S
            except StoreUnavailable:
                self._refuse_closed()
                seen, self._poll_s = "", DOWN_POLL_S
            if seen != self._seen:
                self._seen = seen
                self._number += 1


def snapshot(tx: Transaction) -> str:
    """Return which transactions are over, as a reading verb."""
    row = tx.first("snapshot")
    return "" if row is None else str(row["snapshot"])
