"""The listener: a thread beside the event loop in which the RQ worker waits for hints."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from redis.exceptions import RedisError, ResponseError

from wakegate_schema import ids
from wakegate_schema.queue.job import hint_id
from wakegate_schema.queue.redis_address import RedisAddress
from wakegate_schema.queue.redis_client import ADVICE, connect, interrupt, reason_of
from wakegate_schema.queue.trouble import Trouble
from wakegate_worker.hints.rq_worker import ANNOUNCE_S, PoolWorker
from wakegate_worker.log import log
from wakegate_worker.repeats import is_told

BLOCK_S: Final = 2
"""How long Redis lets one question for a hint wait, in seconds."""
ANSWER_S: Final = BLOCK_S + 3.0
"""How long its answer may take: what is silent for longer is connected anew."""
PAUSE_S: Final = (0.1, 5.0)
"""The first and the longest pause after Redis failed, in seconds."""
FOREIGN_PAUSE_S: Final = 0.01
"""The pause after something that is no hint: a flood of that shall not take this process's time."""
CLOSE_S: Final = 2.0
"""How long a close waits for the thread, in seconds."""


class Listener:
    """Waits for the hints of one pool while it is asked to, and tells the event loop of each."""

    def __init__(self, address: RedisAddress, password: str | None, pool: str) -> None:
        """Take where Redis is, and the pool's name. Nothing is connected before `start`."""
        self._pool = pool
        self._client = connect(address, password, answer_s=ANSWER_S)
        self._asked = threading.Event()
        self._ending = threading.Event()
        self._trouble = Trouble()
        self._announced_at = float("-inf")
        self._foreign = 0
        self._thread: threading.Thread | None = None
        self._tell: Callable[[], None] = lambda: None

    def start(self, told: Callable[[], None]) -> None:
        """Begin; `told` is called in this event loop for each hint."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            try:
                loop.call_soon_threadsafe(told)
            except RuntimeError:  # the loop is closed: nobody is there to look
                self._ending.set()

        self._tell = tell
        self._thread = threading.Thread(target=self._run, name="wakegate-hints", daemon=True)
        self._thread.start()

    def ask(self, wanted: bool) -> None:
        """Say whether this worker would work on what a hint says: else hints stay in the queue, for others."""
        if wanted:
            self._asked.set()
        else:
            self._asked.clear()

    async def close(self) -> None:
        """End. What was waiting for Redis is broken off."""
        self._ending.set()
        self._asked.set()
        if self._thread is not None:
            interrupt(self._client)
            await asyncio.to_thread(self._thread.join, CLOSE_S)

    def _run(self) -> None:
        worker = PoolWorker(self._client, self._pool, f"wakegate-{ids.new()}")
        pause = PAUSE_S[0]
        while not self._ending.is_set():
            try:
                self._listen(worker)
                pause = PAUSE_S[0]
            except (RedisError, OSError) as error:
                self._failed(error)
            except Exception as error:
                log.exception("unforeseen error", action="hint", error=type(error).__name__)
            else:
                continue
            self._announced_at = float("-inf")
            self._client.connection_pool.disconnect()  # the next try asks anew where Redis is
            self._ending.wait(pause)
            pause = min(2 * pause, PAUSE_S[1])
        with suppress(RedisError, OSError):
            if self._trouble.reason is None:
                worker.register_death()  # type: ignore[no-untyped-call]
        self._client.close()

    def _listen(self, worker: PoolWorker) -> None:
        """Wait once for a hint, if one is wanted."""
        if time.monotonic() >= self._announced_at + ANNOUNCE_S:
            self._announce(worker)
        if not self._asked.wait(ANNOUNCE_S) or self._ending.is_set():
            return
        try:
            taken = worker.take(BLOCK_S)
        except RedisError:
            self._tell()  # it may have been taken; looking once too often does no harm
            raise
        if taken:
            self._tell()
        if failures := self._trouble.over():
            log.info("hints come in again", action="hint", failures=failures)
        if taken is False:
            self._dropped()

    def _announce(self, worker: PoolWorker) -> None:
        """Show a sign of life. A Redis that takes none, because it is full perhaps, still hands out hints."""
        try:
            worker.announce()
        except ResponseError as error:
            log.debug("no sign of life could be left", action="hint", reason=reason_of(error))
        self._announced_at = time.monotonic()

    def _dropped(self) -> None:
        self._foreign += 1
        if is_told(self._foreign):
            log.warning(
                "something in the queue is no hint and was dropped; another program uses it",
                action="hint",
                reason="foreign_job",
                queue=hint_id(self._pool),
                count=self._foreign,
            )
        self._ending.wait(FOREIGN_PAUSE_S)

    def _failed(self, error: Exception) -> None:
        reason = reason_of(error)
        if not self._ending.is_set() and self._trouble.met(reason):
            log.warning(
                "hints do not come in; the sweep finds what is due",
                action="hint",
                reason=reason,
                error=type(error).__name__,
                hint=ADVICE[reason],
            )
