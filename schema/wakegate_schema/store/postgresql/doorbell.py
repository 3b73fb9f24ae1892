"""PostgreSQL's doorbell: notices that anybody, on any host, has committed something.

What a transaction would see now (its snapshot) changes with every commit. Asking for it needs neither a session of
one's own nor a table; LISTEN would need the first, which a pooler does not give.
"""

import asyncio
from contextlib import suppress

from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.ownership import Ownership
from wakegate_schema.store.reader import Reader
from wakegate_schema.store.transaction import Transaction

POLL_S = 0.025
"""Seconds between two looks, for all who wait in this process."""
DOWN_POLL_S = 0.5
"""The same while the database cannot be reached."""


class PostgresDoorbell:
    """See `Doorbell`. However many wait, one looks."""

    def __init__(self, reader: Reader) -> None:
        """Take what reads the store."""
        self._reader = reader
        self._ownership = Ownership()
        self._looking = asyncio.Lock()
        self._seen: str | None = None
        self._number = 0
        self._looked_at = 0.0
        self._poll_s = POLL_S
        self._waiting = 0
        self._watch: asyncio.Task[None] | None = None
        self._closed = False

    async def wait(self, since: int, timeout: float) -> int:
        """See `Doorbell.wait`."""
        self._ownership.check()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        await self._look()
        self._waiting += 1
        try:
            while self._number == since and (remaining := deadline - loop.time()) > 0:
                if self._watch is None or self._watch.done():
                    self._watch = loop.create_task(self._until_another())
                await asyncio.wait([self._watch], timeout=remaining)
                self._refuse_closed()
                if self._watch.done() and not self._watch.cancelled():
                    self._watch.result()
        finally:
            self._waiting -= 1
        return self._number

    def close(self) -> None:
        """Whoever still waits hears that it is closed. Repeats are no-ops."""
        self._ownership.check()
        self._closed = True

    async def _until_another(self) -> None:
        """Look until there is another change, or nobody waits any more."""
        number = self._number
        while self._number == number and self._waiting and not self._closed:
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

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed", reason="closed")


def snapshot(tx: Transaction) -> str:
    """Return which transactions are over, as a reading verb."""
    row = tx.first("snapshot")
    return "" if row is None else str(row["snapshot"])
