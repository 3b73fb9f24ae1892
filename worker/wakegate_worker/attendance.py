"""Attendance: this worker's row among the workers on record, from its start to its end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Final

from wakegate_schema import clock_mark
from wakegate_schema.records import RegisteredWorker
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store, StoreError, migrations
from wakegate_worker.log import log
from wakegate_worker.periodic import every
from wakegate_worker.stopping import Stop

SHOW_EVERY_S: Final = 10.0
"""How often a sign of life is shown, in seconds; three of them may get lost before others take it for dead."""


class Attendance:
    """Says who this worker is and what it has, and that it lives. Whoever is given calls for a tool goes by it."""

    def __init__(self, store: Store, worker: RegisteredWorker, *, now: Callable[[], int]) -> None:
        """Take the store, what is said, and the wall clock in µs."""
        self._store = store
        self._worker = worker
        self._now = now
        self._ended = Stop()
        self._task: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Register, before anything is leased, and go on showing signs of life. Raises `StoreUnavailable`."""
        await self._show()
        shown = every(SHOW_EVERY_S, "attend", self._show, stop=self._ended)
        self._task = asyncio.get_running_loop().create_task(shown)

    async def drop_tools(self, within: float) -> None:
        """Say that nothing is started here any more; what is under way goes on. Gives up after `within` seconds."""
        self._worker = replace(self._worker, tools={}, resumers=frozenset())
        await self._try(self._store.drop_worker_tools, within)

    async def end(self, within: float) -> None:
        """Go from the record. After `within` seconds it is left to the others, which forget who is silent."""
        self._ended.request()
        if self._task is not None:
            await self._task
            await self._try(self._store.remove_worker, within)

    async def _show(self) -> None:
        await self._store.show_worker(self._worker, self._now())

    async def _try(self, verb: Callable[[str], Awaitable[None]], within: float) -> None:
        try:
            async with asyncio.timeout(within):
                await verb(self._worker.worker_id)
        except StoreError as error:
            log.warning("the store cannot be used", action="attend", reason=error.reason)
        except TimeoutError:
            log.warning("the store cannot be used", action="attend", reason="store_timeout")


def registered(worker_id: str, tools: dict[str, str], settings: Settings, at: int) -> RegisteredWorker:
    """Return what this process says of itself.

    Args:
        worker_id: its name on its leases.
        tools: the version of each, by name.
        settings: `pool`, `lease_seconds` and `resumers` are used.
        at: wall clock, µs.
    """
    return RegisteredWorker(
        worker_id=worker_id,
        host=clock_mark.host_name(),
        pool=settings.pool,
        version=version("wakegate"),
        migration=migrations.latest(),
        lease_seconds=settings.lease_seconds,
        started_at=at,
        seen_at=at,
        tools=tools,
        resumers=frozenset(settings.resumers),
    )
