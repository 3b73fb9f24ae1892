"""Places: how much one harness may ask for at a time, so that it slows neither the webhooks nor other harnesses."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aiolimiter import AsyncLimiter

from wakegate_receiver.control.answers import ControlRefused

REQUESTS: Final = 128
"""The most requests of one harness in progress, those that wait included."""
STREAMS: Final = 16
"""The most streams of one harness."""
RATE: Final = 250
"""The most requests of one harness a second."""


class Places:
    """Who has how many requests and streams. Each harness has bounds of its own."""

    def __init__(self, requests: int = REQUESTS, streams: int = STREAMS, rate: int = RATE) -> None:
        """Take the bounds of each harness."""
        self._bounds = {"too_many_requests": requests, "too_many_streams": streams}
        self._rate = rate
        self._taken: Counter[tuple[str, str | None]] = Counter()
        self._limiters: dict[str | None, AsyncLimiter] = {}
        self._turns: dict[str | None, asyncio.Lock] = {}

    async def spend(self, name: str | None) -> None:
        """Count one request of a harness. Raises `ControlRefused` at once, never waits: `rate_limit`."""
        limiter = self._limiters.setdefault(name, AsyncLimiter(self._rate, time_period=1))
        if not limiter.has_capacity():
            raise ControlRefused("rate_limit")
        await limiter.acquire()

    @contextmanager
    def request(self, name: str | None) -> Iterator[None]:
        """Have a request's place for the length of the block. Raises `ControlRefused`: `too_many_requests`."""
        with self._place("too_many_requests", name):
            yield

    @contextmanager
    def stream(self, name: str | None) -> Iterator[None]:
        """Have a stream's place for the length of the block. Raises `ControlRefused`: `too_many_streams`."""
        with self._place("too_many_streams", name):
            yield

    def turn(self, name: str | None) -> asyncio.Lock:
        """Return what a harness holds while one of its large bodies is read; its others wait for that."""
        return self._turns.setdefault(name, asyncio.Lock())

    @contextmanager
    def _place(self, reason: str, name: str | None) -> Iterator[None]:
        if self._taken[reason, name] >= self._bounds[reason]:
            raise ControlRefused(reason)
        self._taken[reason, name] += 1
        try:
            yield
        finally:
            self._taken[reason, name] -= 1
