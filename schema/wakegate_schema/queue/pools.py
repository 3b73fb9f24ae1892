"""Pools: which ones live, asked of the store now and then from the thread that rings."""

import asyncio
import time
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, Final

from wakegate_schema.errors import WakegateError
from wakegate_schema.queue.ringer import Living

ASK_EVERY_S: Final = 5.0
"""How long an answer serves, in seconds. A worker that begins in a new pool looks by itself, and sweeps."""
ANSWER_S: Final = 1.0
"""How long the store may take to say it, in seconds; then the last answer serves."""


class Pools:
    """The pools to ring."""

    def __init__(self, pool: str) -> None:
        """Take the pool that is rung while it is not known which live, or none does."""
        self._default = frozenset({pool})
        self._living = self._default
        self._asked_at = float("-inf")
        self._asked: tuple[Living, asyncio.AbstractEventLoop] | None = None

    def follow(self, ask: Living, loop: asyncio.AbstractEventLoop) -> None:
        """Ask this from now on, in this event loop."""
        self._asked = ask, loop

    def living(self) -> frozenset[str]:
        """Return the pools to ring. Not to be called in the event loop: it waits for that."""
        if self._asked is not None and time.monotonic() >= self._asked_at + ASK_EVERY_S:
            ask, loop = self._asked
            found = _answer(_asking(ask), loop)
            if found is not None:
                self._living = found or self._default
            self._asked_at = time.monotonic()
        return self._living


async def _asking(ask: Living) -> frozenset[str]:
    async with asyncio.timeout(ANSWER_S):
        return await ask()


def _answer(asking: Coroutine[Any, Any, frozenset[str]], loop: asyncio.AbstractEventLoop) -> frozenset[str] | None:
    """Return the answer, None when there is none in time."""
    try:
        future = asyncio.run_coroutine_threadsafe(asking, loop)
    except RuntimeError:  # the loop is closed
        asking.close()
        return None
    try:
        return future.result(ANSWER_S)
    except (WakegateError, TimeoutError, CancelledError):
        future.cancel()
        return None
