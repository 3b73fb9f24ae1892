"""Both ends of a queue: a ringer and a listener on one pool, and what comes through."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from wakegate_schema.queue import QueueLocation, QueueState, Ringer, open_ringer
from wakegate_schema.queue.redis_address import parse
from wakegate_worker.hints.listener import Listener

PATIENCE_S = 30.0


@dataclass
class Line:
    """A ringer, and one who listens."""

    ringer: Ringer
    listener: Listener
    hints: int = 0
    """How many came."""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    on_hint: Callable[[], None] | None = None
    """Called for a hint instead of counting it."""

    def told(self) -> None:
        """Count a hint."""
        self.hints += 1
        self.came.set()

    async def ring(self, patience_s: float = PATIENCE_S) -> float:
        """Ring once, and return after how many seconds a hint came."""
        self.came.clear()
        began = time.monotonic()
        self.ringer.ring()
        await asyncio.wait_for(self.came.wait(), patience_s)
        return time.monotonic() - began

    async def ring_until_heard(self) -> None:
        """Ring now and then until a hint comes."""
        self.came.clear()
        async with asyncio.timeout(PATIENCE_S):
            while not self.came.is_set():
                self.ringer.ring()
                await asyncio.sleep(0.05)

    @property
    def state(self) -> QueueState:
        """What the ringer counts."""
        found = self.ringer.state()
        assert found is not None
        return found


@asynccontextmanager
async def line(url: str, password_file: Path | None = None, pool: str = "default") -> AsyncIterator[Line]:
    """Open both ends of a pool's queue for the length of the block."""
    where = QueueLocation(url, password_file, pool)
    ringer = open_ringer(where)
    listener = Listener(parse(url), where.password(), pool)
    opened = Line(ringer, listener)
    listener.start(lambda: (opened.on_hint or opened.told)())
    listener.ask(True)
    try:
        yield opened
    finally:
        await listener.close()
        await ringer.close()
