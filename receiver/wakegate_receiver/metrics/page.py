"""The page: everything there is to measure, in Prometheus' text format."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from importlib.metadata import version
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.process_collector import ProcessCollector

from wakegate_receiver.metrics.gauges import Gauges, StoreLook
from wakegate_receiver.metrics.measures import Measures
from wakegate_receiver.metrics.tally import KEPT_EVERY_S, Tally
from wakegate_receiver.metrics.together import together
from wakegate_schema import clock_mark
from wakegate_schema.clock import SECOND
from wakegate_schema.records import RegisteredWorker
from wakegate_schema.store import Store, StoreError

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
LOOK_TIMEOUT_S: Final = 3.0
"""How long the store may take to be looked at for one page."""
FOLLOW_EVERY_S: Final = 5.0
"""How often what was told is counted although nobody asks."""
FRESH_S: Final = 1.0
"""How long one look serves: whoever asks more often is told the same."""
_PAGE: Final = 500

_log = structlog.get_logger()


def metrics_page(
    store: Store,
    refused: Mapping[str, int],
    connections: Callable[[], int],
    now: Callable[[], int],
    tally: Tally | None = None,
) -> "tuple[Measures, MetricsPage]":
    """Return what counts and the page it is written on.

    Args:
        store: what is looked at, and the queue beside it.
        refused: how often each reason was given.
        connections: how many are open.
        now: the wall clock, µs.
        tally: where several processes keep their counts; None for a receiver by itself.
    """
    registry = CollectorRegistry()
    measures = Measures(registry)
    gauges = Gauges(refused, connections, version("wakegate"), store.queue_state)
    return measures, MetricsPage(store, measures, gauges, registry, now, tally)


class MetricsPage:
    """Writes the page. One for each receiver; what it counts begins with the receiver."""

    def __init__(
        self,
        store: Store,
        measures: Measures,
        gauges: Gauges,
        registry: CollectorRegistry,
        now: Callable[[], int],
        tally: Tally | None = None,
    ) -> None:
        """Take the store, what counts, the registry of both, the wall clock (µs), and several processes' tally."""
        self._store = store
        self._measures = measures
        self._gauges = gauges
        self._registry = registry
        self._now = now
        self._tally = tally
        self._last: int | None = None
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()
        self._next: asyncio.Task[bytes] | None = None
        """The page that is about to be written."""
        registry.register(gauges)
        ProcessCollector(registry=registry)

    async def text(self) -> bytes:
        """Return the page. A store that cannot be read is told by `wakegate_store_up 0`, not by an error.

        Writing takes the loop's time, so whoever asks before it has begun is given the same page.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._write())
        return await asyncio.shield(self._next)

    async def _write(self) -> bytes:
        async with self._looking:
            try:
                loop = asyncio.get_running_loop()
                if loop.time() - self._looked_at >= FRESH_S:
                    self._gauges.look = await self._look()
                    self._looked_at = loop.time()
            finally:
                self._next = None
            page = generate_latest(self._registry)
        if self._tally is None:
            return page
        return together({self._tally.number: page} | self._tally.others(), self._tally.number)

    async def tell(self) -> None:
        """Keep what this process counts in the tally, until cancelled. The store is another process's to look at."""
        while self._tally is not None:
            try:
                self._tally.keep(generate_latest(self._registry))
            except OSError as error:
                _log.warning("this process's counts cannot be told", action="metrics", problem=error.strerror)
            await asyncio.sleep(KEPT_EVERY_S)

    async def follow(self) -> None:
        """Count what is told from now on, until cancelled."""
        while True:
            async with self._looking:
                await self._bounded(self._count_told)
            await asyncio.sleep(FOLLOW_EVERY_S)

    async def _look(self) -> StoreLook | None:
        found: list[StoreLook] = []

        async def look() -> None:
            await self._count_told()
            found.append(await self._look_at_store())

        await self._bounded(look)
        return found[0] if found else None

    async def _bounded(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            async with asyncio.timeout(LOOK_TIMEOUT_S):
                await work()
        except (StoreError, TimeoutError) as error:
            reason = error.reason if isinstance(error, StoreError) else "store_timeout"
            _log.debug("the store cannot be counted", action="metrics", reason=reason)

    async def _look_at_store(self) -> StoreLook:
        store, at = self._store, self._now()
        host = clock_mark.host_name()
        highest = max((mark.highest_at for mark in await store.clock_marks() if mark.host == host), default=0)
        return StoreLook(
            at=at,
            census=await store.census(),
            instances=tuple(await store.instances()),
            wal_bytes=await store.wal_bytes(),
            epoch=(await store.epoch()).number,
            clock_behind=max(0.0, (highest - at) / SECOND),
            workers=_by_pool(await store.workers(), at),
            missing=tuple(await store.missing_tools(at)),
        )

    async def _count_told(self) -> None:
        if self._last is None:
            _, self._last = await self._store.resolutions_end()
        while timings := await self._store.timings(self._last, _PAGE):
            for timing in timings:
                self._measures.told(timing)
            self._last = timings[-1].number


def _by_pool(workers: list[RegisteredWorker], at: int) -> dict[str, int]:
    """Return how many live in each pool that has a worker on record."""
    found = dict.fromkeys((worker.pool for worker in workers), 0)
    for worker in workers:
        found[worker.pool] += worker.lives_at(at)
    return found
