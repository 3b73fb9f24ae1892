"""The doorbell: who waits for a change of the store hears of it, whoever made it."""

import asyncio
from abc import ABC, abstractmethod

from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.ownership import Ownership


class Doorbell(ABC):
    """Counts the changes it noticed; used in one event loop. However many wait, one looks."""

    def __init__(self) -> None:
        """Have noticed nothing yet."""
        self._ownership = Ownership()
        self._number = 0
        """Of the latest change that was noticed."""
        self._waiting = 0
        self._watch: asyncio.Task[None] | None = None
        self._closed = False

    async def wait(self, since: int, timeout: float) -> int:
        """Return the latest change's number as soon as it is not `since`, at the latest after `timeout` seconds.

        Raises `StoreUnavailable` once closed, and in a fork.
        """
        self._ownership.check()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        self._refuse_closed()
        await self._look_first()
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
        """Let go of the database; whoever still waits hears that it is closed. Repeats are no-ops."""
        self._ownership.check()
        self._closed = True

    @abstractmethod
    async def _look_first(self) -> None:
        """Look for whoever begins to wait, unless somebody has just looked."""

    @abstractmethod
    async def _look_again(self) -> None:
        """Wait until it is worth looking, and look."""

    async def _until_another(self) -> None:
        """Look until there is another change, or nobody waits any more."""
        number = self._number
        while self._number == number and self._waiting and not self._closed:
            await self._look_again()

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed", reason="closed")
