"""The watch: one look at the store's changes, shared by everybody in this adapter who waits."""

import asyncio
from collections.abc import Callable
from typing import Final

from wakegate_adapter.persistence import ended, patiently
from wakegate_schema.records import Execution
from wakegate_schema.store import Store

REREAD_S: Final = 1.0
"""How long a waiter goes without reading again, whatever the store says."""
GAP_S: Final = 0.02
"""The least time between two reads of one waiter, however much is committed."""


class Watch:
    """Waits for executions to get somewhere."""

    def __init__(self, store: Store, patience: float) -> None:
        """Take the store, and how many seconds reading it may fail."""
        self._store = store
        self._patience = patience
        self._number = -1
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    async def until(self, execution_id: str, there: Callable[[Execution], bool]) -> Execution:
        """Return the execution as soon as `there` holds of it. Raises `NotFound`, or `StoreUnavailable`."""
        loop = asyncio.get_running_loop()
        while True:
            seen, read_at = self._number, loop.time()
            execution = await patiently(lambda: self._store.execution(execution_id), self._patience)
            if there(execution):
                return execution
            await self._changed(seen)
            await asyncio.sleep(max(0.0, read_at + GAP_S - loop.time()))

    async def close(self) -> None:
        """Stop looking; whoever still waits finds the store closed."""
        self._closed = True
        if self._looking is not None:
            await ended(self._looking)

    async def _changed(self, seen: int) -> None:
        """Wait for a change later than number `seen`, at most `REREAD_S`."""
        if self._closed or self._number != seen:
            return
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look())
        await asyncio.wait({self._looking})

    async def _look(self) -> None:
        try:
            self._number = await self._store.changed(self._number, REREAD_S)
        finally:
            self._looking = None
