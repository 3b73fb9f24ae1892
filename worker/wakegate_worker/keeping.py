"""Keeping: leases, lengthened again and again for as long as what is done under them takes."""

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
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
        self._every_s = lease_s / 3
        self._now = now
        self._signs: dict[str, asyncio.Task[None]] = {}
        """What gives signs of life, by the id of the execution whose tool runs on."""

    def kept(self, lease: Lease) -> "Beside":
        """Keep the lease before the start, so that nobody asks the same beside an answer that is on its way."""
        keep = functools.partial(self._until_lost, "keep", lease, self._store.keep_lease)
        return Beside(keep, after_s=self._every_s)

    def renewed(self, lease: Lease) -> "Beside":
        """Keep the attempt's lease; a lost one does not end what runs, its word counts late too."""
        return Beside(functools.partial(self._renew, lease), after_s=self._every_s)

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

        await self._until_lost("runs_on", lease, sign)

    async def _until_lost(
        self,
        action: str,
        lease: Lease,
        lengthen: Callable[[Lease, int, int], Awaitable[bool]],
    ) -> None:
        """Lengthen now, and again and again."""
        while True:
            pause_s = self._every_s
            try:
                now = self._now()
                if not await lengthen(lease, now, now + round(self.lease_s * SECOND)):
                    return
            except StoreUnavailable as error:
                pause_s = self.lease_s / 15
                log.warning("the lease waits for the store", action=action, reason=error.reason)
            except Exception as error:  # who runs a tool must not fall silent for it
                log.exception("unforeseen error", action=action, error=type(error).__name__)
            await asyncio.sleep(pause_s)


class Beside:
    """Does some work for as long as the block lasts, from some time on: a block that ends sooner needs no task."""

    __slots__ = ("_after_s", "_task", "_timer", "_work")

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], *, after_s: float = 0.0) -> None:
        """Take the work, and after how many seconds in the block it begins."""
        self._work = work
        self._after_s = after_s
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> None:
        """Set the timer."""
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._begin)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the work, if it has begun; nothing of it is under way afterwards."""
        self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._work())
