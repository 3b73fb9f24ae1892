"""Trouble with Redis: it loses what it has, is away, does not answer, or has no room."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from soak.decks import Deck
from soak.journal import Journal

if TYPE_CHECKING:
    from support.servers import RedisServer

NO_MEMORY = "1"
"""Bytes that Redis may use when it is to be full; whatever it has is too much."""


class QueueTrouble:
    """What is done to it, one thing at a time."""

    def __init__(self, redis: "RedisServer", journal: Journal, random: Random) -> None:
        """Take the server, the journal in which everything is noted, and what chooses."""
        self._redis = redis
        self._journal = journal
        self._random = random

    def decks(self) -> list[Deck]:
        """Return what may come over it."""
        return [
            {"Redis emptied": self._empty},
            {"Redis killed": lambda: self._away("redis_killed", self._redis.kill)},
            {
                "Redis restarted": lambda: self._away("redis_stopped", self._redis.stop),
                "Redis paused": self._pause,
                "Redis full": self._fill,
            },
        ]

    async def _away(self, event: str, end: Callable[[], None]) -> None:
        """Let it be away for a while, and come back empty."""
        await asyncio.to_thread(end)
        self._journal.note(event=event)
        await asyncio.sleep(self._random.choice((0.0, self._random.random() * 4)))
        await asyncio.to_thread(self._redis.start)

    async def _empty(self) -> None:
        for _ in range(self._random.choice((1, 5))):
            await asyncio.to_thread(self._redis.flush)
            self._journal.note(event="redis_emptied")
            await asyncio.sleep(self._random.random() * 0.5)

    async def _pause(self) -> None:
        self._redis.pause()
        self._journal.note(event="redis_paused")
        await asyncio.sleep(self._random.choice((0.5, 2.0, 5.0)))
        self._redis.resume()

    async def _fill(self) -> None:
        """Let it refuse whatever would add to what it has."""
        await asyncio.to_thread(self._redis.configure, maxmemory=NO_MEMORY)
        self._journal.note(event="redis_full")
        await asyncio.sleep(self._random.uniform(1, 4))
        await asyncio.to_thread(self._redis.configure, maxmemory="0")
