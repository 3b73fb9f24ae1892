"""Waiting for services that are only just starting: for a few seconds in all, and said aloud."""

import asyncio
import time
from collections.abc import Callable

PAUSE_S = 0.25
"""Seconds between two looks."""


class Wait:
    """A bounded wait, shared by everything that one command waits for."""

    def __init__(self, seconds: float, say: Callable[[str], None]) -> None:
        """Take how long it may last in all, and what is told once of each thing that is waited for."""
        self._seconds = seconds
        self._say = say
        self._until = time.monotonic() + seconds
        self._said: set[str] = set()

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() >= self._until

    async def pause(self, thing: str) -> None:
        """Wait a moment for a thing, such as `the provider to listen`."""
        if thing not in self._said:
            self._said.add(thing)
            self._say(f"waiting up to {self._seconds:g} s for {thing}")
        await asyncio.sleep(PAUSE_S)
