"""The bell: who waits for a change of the store hears of it, whichever process made it."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from wakegate_schema.store.sqlite.doorbell import SqliteDoorbell

IDLE_SECONDS = 30.0
"""The longest that anybody sleeps without looking, so that a wall clock that was set is noticed."""


class Bell:
    """Rings everybody who listens; all of it in the event loop's thread."""

    def __init__(self) -> None:
        """Start with nobody listening."""
        self._listeners: set[asyncio.Event] = set()

    @contextmanager
    def listening(self) -> Iterator[asyncio.Event]:
        """Give an event that every ring sets, for as long as the block lasts."""
        event = asyncio.Event()
        self._listeners.add(event)
        try:
            yield event
        finally:
            self._listeners.discard(event)

    def ring(self) -> None:
        """Tell all who listen that something may have changed."""
        for event in self._listeners:
            event.set()


async def watch(doorbell: SqliteDoorbell, bell: Bell) -> None:
    """Ring the bell whenever any connection, of any process, has committed; for ever."""
    number = 0
    while True:
        number = await doorbell.wait(number, IDLE_SECONDS)
        bell.ring()


async def heard(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the next ring and take it; false when the seconds passed without one."""
    try:
        async with asyncio.timeout(max(seconds, 0)):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
