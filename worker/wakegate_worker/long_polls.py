"""Long polls: the bounded allowance of requests that the provider is asked to answer when they are decided."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

LONG_POLLS = 64
"""The most long polls of one worker at once (DESIGN, "Looking without being told")."""

_Result = TypeVar("_Result")


class LongPolls:
    """The soonest deadlines have the places; a later one makes room for a sooner one. One event loop's."""

    def __init__(self, size: int = LONG_POLLS) -> None:
        """Take how many polls there may be."""
        self._size = size
        self._deadlines: dict[asyncio.Event, int] = {}

    async def run(self, deadline_at: int, poll: Coroutine[Any, Any, _Result]) -> _Result | None:
        """Run one poll and return its answer, or None when it has no place, or lost it to another.

        Args:
            deadline_at: the request's deadline, µs since the Unix epoch: the sooner goes first.
            poll: what to run; closed or cancelled when there is no place for it.
        """
        displaced = self._enter(deadline_at)
        if displaced is None:
            poll.close()
            return None
        running = asyncio.ensure_future(poll)
        giving_up = asyncio.ensure_future(displaced.wait())
        try:
            await asyncio.wait({running, giving_up}, return_when=asyncio.FIRST_COMPLETED)
            return running.result() if running.done() else None
        finally:
            self._deadlines.pop(displaced, None)
            await _cancelled(running, giving_up)

    def _enter(self, deadline_at: int) -> asyncio.Event | None:
        if len(self._deadlines) >= self._size:
            last = max(self._deadlines, key=self._deadlines.__getitem__)
            if self._deadlines[last] <= deadline_at:
                return None
            del self._deadlines[last]
            last.set()
        displaced = asyncio.Event()
        self._deadlines[displaced] = deadline_at
        return displaced


async def _cancelled(*tasks: "asyncio.Future[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
