"""Submissions: those of one key at the same time are one, and only so many challenge a receiver at once."""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from wakegate_provider.problems import Problem

MAX_AT_ONCE = 16
"""How many of one kind may run at the same time."""

R = TypeVar("R")


class Submissions(Generic[R]):
    """What is being done of one kind; whoever submitted it may go, and it goes on."""

    def __init__(self, conflict: Callable[[], Problem]) -> None:
        """Take what is said of a key that comes with other fields."""
        self._conflict = conflict
        self._running: dict[Hashable, tuple[object, asyncio.Task[R]]] = {}

    async def once(self, key: Hashable, fields: object, work: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """Do the work, or wait for that of the same key which is being done.

        Args:
            key: what names the submission.
            fields: what was submitted.
            work: does it.

        Raises:
            Problem: 409 for a key with other fields, 429 `too_many_creations`, and whatever the work raises.
        """
        if key in self._running:
            submitted, task = self._running[key]
            if submitted != fields:
                raise self._conflict()
        else:
            if len(self._running) >= MAX_AT_ONCE:
                raise Problem(429, "too_many_creations", "Too many receivers are being challenged.", retry_after=2)
            task = asyncio.create_task(work())
            self._running[key] = (fields, task)
            task.add_done_callback(lambda _: self._running.pop(key))
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Break off what is running; nothing of it is committed."""
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
