"""Keeping: leases, lengthened again and again for as long as what is done under them takes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from wakegate_schema.clock import SECOND
from wakegate_schema.records import Lease
from wakegate_schema.store import Store, StoreUnavailable
from wakegate_worker.log import log


class Keeping:
    """Keeps the leases of this process: on executions that have not started, and on attempts."""

    def __init__(self, store: Store, *, lease_s: float, now: Callable[[], int]) -> None:
        """Take the store, a lease's length in seconds, and the wall clock in µs."""
        self._store = store
        self.lease_s = lease_s
        """A lease's length, in seconds."""
        self._now = now
        self._signs: dict[str, asyncio.Task[None]] = {}
        """What gives signs of life, by the id of the execution whose tool runs on."""

    @asynccontextmanager
    async def kept(self, lease: Lease) -> AsyncIterator[None]:
        """Keep the lease before the start, so that nobody asks the same beside an answer that is on its way."""
        async with beside(self._until_lost("keep", lease, self._store.keep_lease)):
            yield

    @asynccontextmanager
    async def renewed(self, lease: Lease) -> AsyncIterator[None]:
        """Keep the attempt's lease; a lost one does not end what runs, its word counts late too."""
        async with beside(self._renew(lease)):
            yield

    def runs_on(self, lease: Lease) -> None:
        """Say again and again that the tool still runs although its attempt was given up, until `is_over`."""
        self._signs[lease.execution_id] = asyncio.get_running_loop().create_task(self._give_signs(lease))

    def is_over(self, execution_id: str) -> None:
        """Say no more of a tool that runs on, if it does."""
        if task := self._signs.pop(execution_id, None):
            task.cancel()

    async def finish(self) -> None:
        """Say no more of anything: the process ends, and with it whatever still runs."""
        tasks = list(self._signs.values())
        self._signs.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(self, lease: Lease) -> None:
        await self._until_lost("renew", lease, self._store.renew)
        log.warning("the lease is lost; the tool goes on", action="renew")
        await self._give_signs(lease)

    async def _give_signs(self, lease: Lease) -> None:
        async def sign(lease: Lease, _: int, until: int) -> bool:
            return await self._store.runs_on(lease, until)

        await self._until_lost("runs_on", lease, sign, at_once=True)

    async def _until_lost(
        self,
        action: str,
        lease: Lease,
        lengthen: Callable[[Lease, int, int], Awaitable[bool]],
        *,
        at_once: bool = False,
    ) -> None:
        kept, pause_s = True, 0.0 if at_once else self.lease_s / 3
        while kept:
            await asyncio.sleep(pause_s)
            pause_s = self.lease_s / 3
            try:
                now = self._now()
                kept = await lengthen(lease, now, now + round(self.lease_s * SECOND))
            except StoreUnavailable as error:
                pause_s = self.lease_s / 15
                log.warning("the lease waits for the store", action=action, reason=error.reason)
            except Exception as error:  # who runs a tool must not fall silent for it
                log.exception("unforeseen error", action=action, error=type(error).__name__)


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do some work for as long as the block lasts."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
