"""Ringing through RQ: one thread puts hints into the pools' queues, and nobody waits for it or for Redis."""

import asyncio
import os
import threading
from typing import Final

from redis.exceptions import RedisError

from wakegate_schema.loggers import logger
from wakegate_schema.queue.job import Hints
from wakegate_schema.queue.pools import Pools
from wakegate_schema.queue.redis_address import RedisAddress
from wakegate_schema.queue.redis_client import ADVICE, connect, interrupt, reason_of
from wakegate_schema.queue.ringer import Living, QueueState
from wakegate_schema.queue.trouble import Trouble

GAP_S: Final = (0.005, 0.02)
"""Seconds between two hints, at least: at first, and after some in a row. What is rung meanwhile is one hint, and a
burst of any length costs 50 a second."""
ANSWER_S: Final = 1.0
"""How long Redis may take for an answer, in seconds."""
PAUSE_S: Final = (0.1, 5.0)
"""The first and the longest pause before a hint is tried again after Redis failed, in seconds."""
CLOSE_S: Final = 1.0
"""How long a close waits for what was rung, in seconds."""

_log = logger("wakegate_schema")


class RqRinger:
    """Rings through RQ. What it holds is one flag, however much is rung while Redis is away."""

    def __init__(self, address: RedisAddress, password: str | None, pool: str) -> None:
        """Take where Redis is, and the pool to ring while it is not known which live. The first ring starts it."""
        self._client = connect(address, password, answer_s=ANSWER_S)
        self._pools = Pools(pool)
        self._hints: dict[str, Hints] = {}
        self._condition = threading.Condition()
        self._rung = False
        self._closing = False
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._trouble = Trouble()
        self._sent = self._merged = 0

    def ring(self) -> None:
        """See `Ringer`."""
        if self._process != os.getpid():  # a fork has neither the thread nor a store to ring for
            return
        with self._condition:
            if self._closing or (self._rung and self._thread is not None):
                return  # what is rung already wakes nobody again
            self._rung = True
            if self._thread is None:
                self._begin()
            self._condition.notify()

    def follow(self, living: Living) -> None:
        """See `Ringer`."""
        self._pools.follow(living, asyncio.get_running_loop())

    def state(self) -> QueueState:
        """See `Ringer`."""
        return QueueState(self._sent, self._merged, self._trouble.counts(), self._trouble.reason is None)

    async def close(self) -> None:
        """See `Ringer`."""
        with self._condition:
            self._closing = True
            thread = self._thread
            self._condition.notify()
        if thread is not None:
            await asyncio.to_thread(thread.join, CLOSE_S)
            interrupt(self._client)

    def _begin(self) -> None:
        thread = threading.Thread(target=self._run, name="wakegate-ringer", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread to be had: the next ring tries again, and the sweep finds what was due
            self._trouble.met("no_thread")
        else:
            self._thread = thread

    def _run(self) -> None:
        pause, gap = PAUSE_S[0], GAP_S[0]
        while self._wait():
            if self._send():
                pause = PAUSE_S[0]
                self._rest(gap)
                gap = min(2 * gap, GAP_S[1]) if self._rung else GAP_S[0]
            else:
                with self._condition:
                    self._rung = not self._closing  # it is tried again, unless there is no time left for it
                self._rest(pause)
                pause = min(2 * pause, PAUSE_S[1])
        self._client.close()

    def _wait(self) -> bool:
        """Wait for a ring; False at the end."""
        with self._condition:
            self._condition.wait_for(lambda: self._rung or self._closing)
            rung, self._rung = self._rung, False
            return rung

    def _rest(self, seconds: float) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._closing, seconds)

    def _send(self) -> bool:
        """Send each living pool a hint; whether that worked."""
        try:
            for pool in sorted(self._pools.living()):
                if pool not in self._hints:
                    self._hints[pool] = Hints(self._client, pool)
                if self._hints[pool].send():
                    self._sent += 1
                else:
                    self._merged += 1
        except (RedisError, OSError) as error:
            self._failed(error)
            return False
        except Exception as error:  # noqa: BLE001 - it is logged, and tried again
            if self._trouble.met("unforeseen"):
                _log.exception("unforeseen error", action="ring", error=type(error).__name__)
            return False
        if failures := self._trouble.over():
            _log.info("hints go out again", action="ring", failures=failures)
        return True

    def _failed(self, error: Exception) -> None:
        reason = reason_of(error)
        if not self._closing and self._trouble.met(reason):
            _log.warning(
                "hints do not go out; the workers' sweep finds what is due",
                action="ring",
                reason=reason,
                error=type(error).__name__,
                hint=ADVICE[reason],
            )
        self._client.connection_pool.disconnect()  # the next try asks anew where Redis is
