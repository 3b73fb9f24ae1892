"""Waiting for hints: until something is due, a hint says so, or the time for a sweep has come."""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from wakegate_schema.store import Store
from wakegate_worker.due import seconds_until_due
from wakegate_worker.slots import Slots
from wakegate_worker.stopping import Stop

FILLED_GAP_S: Final = 0.05
"""Seconds between two rings at least that a worker without room for more makes for the others of its pool."""
ENDED_GAP_S: Final = 0.005
"""Seconds from the end of an execution to the look for what it left due: all that end meanwhile are one look."""


class HintSource(Protocol):
    """Where hints come from."""

    def start(self, told: Callable[[], None]) -> None:
        """Begin; `told` is called in this event loop for each hint."""

    def ask(self, wanted: bool) -> None:
        """Say whether a hint is wanted now."""

    async def close(self) -> None:
        """End."""


class HintWait:
    """Sleeps until an execution is due. Between hints the store is asked no more often than the sweep."""

    def __init__(
        self,
        store: Store,
        owner: str,
        source: HintSource,
        *,
        slots: Slots,
        sweep_s: float,
        now: Callable[[], int],
        stop: Stop,
    ) -> None:
        """Take what the waiting goes by.

        Args:
            store: what is asked, and what rings.
            owner: who leases.
            source: of hints.
            slots: room for executions; what ends there may be due again.
            sweep_s: the longest sleep, in seconds.
            now: the wall clock, µs.
            stop: ends the sleep.
        """
        self._store = store
        self._owner = owner
        self._source = source
        self._slots = slots
        self._sweep_s = sweep_s
        self._now = now
        self._stop = stop
        self._hinted = asyncio.Event()
        self._heard = 0
        self._begun = False
        self._rang_at = float("-inf")

    async def __call__(self) -> None:
        """Return when something is due, or when the time for a sweep has come."""
        until = time.monotonic() + self._sweep_s
        if not self._begun:
            self._source.start(self._told)
            self._begun = True
        self._source.ask(True)
        try:
            while (remaining := until - time.monotonic()) > 0:
                remaining = await seconds_until_due(self._store, self._owner, remaining, self._now)
                if remaining <= 0:
                    return
                heard = self._heard
                await self._stop.pause(remaining, self._hinted, self._slots.changed)
                if self._heard == heard:
                    await self._stop.pause(min(remaining, ENDED_GAP_S), self._hinted)
        finally:
            self._source.ask(False)

    def filled(self) -> None:
        """Ring for the others of the pool: what was due filled this worker, and there may be more."""
        if (now := time.monotonic()) >= self._rang_at + FILLED_GAP_S:
            self._rang_at = now
            self._store.ring()

    def _told(self) -> None:
        """Take a hint. One that comes while there is no room goes back, to another worker."""
        self._heard += 1
        self._hinted.set()
        if self._slots.free == 0:
            self._store.ring()
