"""Due: the moment at which the store has something to work on, and waiting for it (the embedded queue)."""

import time
from collections.abc import Callable

from wakegate_schema.clock import SECOND
from wakegate_schema.store import Store


async def seconds_until_due(store: Store, owner: str, longest: float, now: Callable[[], int]) -> float:
    """Return how many seconds it is until something is due to an owner, at most `longest`; 0 or less when it is now."""
    due_at = await store.next_due_at(owner)
    return longest if due_at is None else min(longest, (due_at - now()) / SECOND)


class DueWait:
    """Sleeps until an execution is due. The store is the queue: a commit by anybody is the hint."""

    def __init__(self, store: Store, owner: str, *, idle_s: float, now: Callable[[], int]) -> None:
        """Take the store, who leases, the longest sleep in seconds, and the wall clock in µs."""
        self._store = store
        self._owner = owner
        self._idle_s = idle_s
        self._now = now
        self._change = -1

    async def __call__(self) -> None:
        """Return when something is due, or after the longest sleep."""
        until = time.monotonic() + self._idle_s
        while (remaining := until - time.monotonic()) > 0:
            remaining = await seconds_until_due(self._store, self._owner, remaining, self._now)
            if remaining <= 0:
                return
            self._change = await self._store.changed(self._change, remaining)
