"""Long polls: who waits for one request hears when it is decided."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from wakegate_provider.bell import IDLE_SECONDS, Bell, heard
from wakegate_provider.problems import Problem
from wakegate_provider.store import ProviderStore, StoreThread
from wakegate_schema.store.errors import StoreUnavailable

MAX_WAITING = 1024
"""How many long polls may wait at the same time."""

STEP = 500
"""How many decisions are read at a time."""

log = structlog.get_logger()


class Herald:
    """Tells those who wait for a request that it was decided, whichever process decided it."""

    def __init__(self, store: StoreThread, bell: Bell) -> None:
        """Take the store's thread and the bell."""
        self._store = store
        self._bell = bell
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._count = 0
        self.closing = False

    @contextmanager
    def waiting(self, request_id: str) -> Iterator[asyncio.Event]:
        """Give an event that is set when this request is decided or the service stops.

        Raises:
            Problem: 429 `too_many_waiting`.
        """
        if self._count >= MAX_WAITING:
            raise Problem(429, "too_many_waiting", "Too many long polls are waiting.", retry_after=1)
        event = asyncio.Event()
        self._waiting[request_id].add(event)
        self._count += 1
        try:
            yield event
        finally:
            self._count -= 1
            self._waiting[request_id].discard(event)
            if not self._waiting[request_id]:
                del self._waiting[request_id]

    def close(self) -> None:
        """Let every long poll answer now with what it knows."""
        self.closing = True
        for events in self._waiting.values():
            for event in events:
                event.set()

    async def run(self, since: int) -> None:
        """Pass on what is decided, for ever.

        Args:
            since: the number of the last decision that is known (`last_resolution`).
        """
        with self._bell.listening() as event:
            while True:
                await heard(event, IDLE_SECONDS)
                try:
                    since = await self._pass_on(since)
                except StoreUnavailable as error:
                    log.warning("looking for decisions failed", action="wait", reason=error.reason)
                    await asyncio.sleep(1.0)

    async def _pass_on(self, since: int) -> int:
        """Set the events of what was decided after `since`; return the number of the last one."""
        while True:
            rows = await self._store(ProviderStore.all, "resolved_since", resolution=since, limit=STEP)
            for row in rows:
                since = row["resolution"]
                for event in self._waiting.get(row["request_id"], ()):
                    event.set()
            if len(rows) < STEP:
                return since


def last_resolution(store: ProviderStore) -> int:
    """Return the number of the newest decision in the store, 0 when there is none."""
    row = store.one("last_resolution")
    return 0 if row is None else row["resolution"]
