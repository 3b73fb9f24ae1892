"""Leasing: what is due is taken by this worker, and waited for by hints or by the changes of the store."""

import time
from collections.abc import Awaitable, Callable

from wakegate_schema.clock import SECOND
from wakegate_schema.records import Execution
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store
from wakegate_worker.due import DueWait
from wakegate_worker.hints.waiting import HintSource, HintWait
from wakegate_worker.host_clock import HostClock
from wakegate_worker.slots import Slots
from wakegate_worker.stopping import Stop

IDLE_S = 60.0
"""Seconds after which the queue is looked at though nothing happened: a wall clock may have been set."""


class Leasing:
    """Takes executions for one worker."""

    def __init__(
        self,
        store: Store,
        owner: str,
        hints: HintSource | None,
        *,
        slots: Slots,
        settings: Settings,
        clock: HostClock,
        stop: Stop,
    ) -> None:
        """Take what it works with.

        Args:
            store: what is asked.
            owner: who leases.
            hints: where hints come from; None to hear of every commit from the store itself.
            slots: room for executions.
            settings: `lease_seconds` and `sweep_seconds` are used.
            clock: the host's.
            stop: ends the waiting.
        """
        self._store = store
        self._owner = owner
        self._lease_us = settings.lease_seconds * SECOND
        self._clock = clock
        self._hints = hints
        self._hint_wait: HintWait | None = None
        self._longest_s = IDLE_S if hints is None else settings.sweep_seconds
        self._is_due = False
        """Whether the last wait ended because something is due, and not because its time was over."""
        if hints is not None:
            self._hint_wait = HintWait(
                store, owner, hints, slots=slots, sweep_s=settings.sweep_seconds, now=clock.now, stop=stop
            )
        self._wait: Callable[[], Awaitable[None]] = self._hint_wait or DueWait(
            store, owner, idle_s=IDLE_S, now=clock.now
        )

    async def wait(self) -> None:
        """Return when something is due, or may be."""
        begun = time.monotonic()
        await self._wait()
        self._is_due = time.monotonic() - begun < self._longest_s

    async def take(self, limit: int) -> list[Execution]:
        """Lease up to `limit` executions that are due. Filled by them, hint to others: there may be more."""
        now = self._clock.now()
        if self._is_due:  # a start will need the mark: one commit for both
            self._clock.mark_soon()
        due = await self._store.lease_due(self._owner, limit, now, now + self._lease_us)
        if due:
            self._clock.mark_soon()
        if len(due) == limit and self._hint_wait is not None:
            self._hint_wait.filled()
        return due

    async def close(self) -> None:
        """Take no more hints."""
        if self._hints is not None:
            await self._hints.close()
