"""The pump: leases what is due while there is room, and works on all of it at once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from wakegate_schema import fault_points
from wakegate_schema.store import StoreUnavailable
from wakegate_worker.log import log
from wakegate_worker.slots import Slots
from wakegate_worker.stopping import Interrupted, Stop

PAUSE_AFTER_FAILURE_S = 1.0
"""Seconds before the store is asked again after it failed."""
PAUSE_AFTER_NOTHING_S = 0.01
"""Seconds before the store is asked again when what was due went to somebody else."""
GATHER_S = 0.003
"""Seconds that a pump which was full waits for more room than the first bit: one lease for several is cheaper."""

_Item = TypeVar("_Item")


class Pump(Generic[_Item]):
    """One stream of work. Nothing that goes wrong with one item ends it."""

    def __init__(
        self,
        action: str,
        *,
        slots: Slots,
        take: Callable[[int], Awaitable[list[_Item]]],
        handle: Callable[[_Item], Awaitable[None]],
        wait: Callable[[], Awaitable[None]],
        stop: Stop,
    ) -> None:
        """Take the stream's parts.

        Args:
            action: its name in the log.
            slots: how many items at once.
            take: leases up to so many items.
            handle: works on one.
            wait: returns when it is worth taking again.
            stop: ends the taking; what was taken goes on.
        """
        self._action = action
        self._slots = slots
        self._take = take
        self._handle = handle
        self._wait = wait
        self._stop = stop
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Take and hand out until a stop is asked for."""
        while not self._stop.requested:
            try:
                await self._round()
            except Interrupted:
                return
            except StoreUnavailable as error:
                log.warning("the store cannot be used", action=self._action, reason=error.reason)
                await self._stop.pause(PAUSE_AFTER_FAILURE_S)
            except Exception as error:
                log.exception("unforeseen error", action=self._action, error=type(error).__name__)
                await self._stop.pause(PAUSE_AFTER_FAILURE_S)

    async def finish(self, seconds: float) -> int:
        """Wait for what is being worked on, `seconds` or until the stop is forced; return how much is given up."""
        if not self._tasks:
            return 0
        forced: asyncio.Future[object] = asyncio.ensure_future(self._stop.forced.wait())
        working: asyncio.Future[object] = asyncio.ensure_future(asyncio.wait(set(self._tasks)))
        await asyncio.wait({forced, working}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        forced.cancel()
        working.cancel()
        left = list(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        return len(left)

    async def _round(self) -> None:
        room = self._slots.free
        if room == 0:
            await self._stop.pause(PAUSE_AFTER_FAILURE_S, self._slots.changed)
            if len(self._tasks) > 1:
                await asyncio.sleep(GATHER_S)
            return
        items = await self._take(room)
        for item in items:
            self.begin(item)
        # What was taken asks the store first, and then whoever looks for more: both go through one connection.
        await asyncio.sleep(0 if items else PAUSE_AFTER_NOTHING_S)
        if len(items) < room:
            with self._stop.interruptible():
                await self._wait()

    def begin(self, item: _Item) -> None:
        """Work on one that was taken, in a slot of its own."""
        self._slots.take()
        task = asyncio.get_running_loop().create_task(self._work(item))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self, item: _Item) -> None:
        try:
            await fault_points.passing("work.begin", self._action)
            await self._handle(item)
            await fault_points.passing("work.end", self._action)
        except StoreUnavailable as error:
            log.warning("the store cannot be used", action=self._action, reason=error.reason)
        except Exception as error:
            log.exception("unforeseen error", action=self._action, error=type(error).__name__)
        finally:
            self._slots.give_back()
