"""Stopping: what the signals ask for, and the sequence that keeps every promise."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import structlog

from wakegate_receiver.app import App
from wakegate_receiver.connections import Connections
from wakegate_receiver.listener import Listener
from wakegate_receiver.protocol import Server
from wakegate_schema.signals import spaced

TIDY_SHARE: Final = 0.2
"""The part of the stop's time that is kept for closing after requests were waited for."""
_TIDY_LEAST_S: Final = 0.02
"""aiohttp takes 0 for no limit at all."""

_EXIT_LEAST_S: Final = 1.0
_ENDING_S: Final = 5.0
"""How long the interpreter may take to end, after everything is closed."""

_log = structlog.get_logger()


class Stop:
    """What was asked for."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def ask(self) -> None:
        """Ask to stop; the second time, to stop without waiting for requests."""
        (self.hurried if self.asked.is_set() else self.asked).set()


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Give what SIGTERM and SIGINT ask for while the block runs."""
    stop = Stop()
    loop = asyncio.get_running_loop()
    asked = spaced(stop.ask)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def tidy_seconds(timeout: float) -> float:
    """Return how long one of the last steps of a stop may wait; aiohttp takes twice that."""
    return max(_TIDY_LEAST_S, timeout * TIDY_SHARE / 8)


def longest_stop(timeout: float) -> float:
    """Return after how many seconds the process of a receiver that was asked to stop has surely ended.

    Args:
        timeout: `shutdown_timeout`, seconds.
    """
    return max(timeout, _EXIT_LEAST_S) + _ENDING_S


@asynccontextmanager
async def leaving_in_time(stop: Stop, timeout: float) -> AsyncIterator[None]:
    """End this process when the block has not ended `timeout` seconds after a stop was asked for, or 1 s after hurry.

    Only something that hangs outside the event loop's reach (a disk that does not answer) comes to that, and no
    promise is broken by it: what was acknowledged is on record.
    """
    timers = [threading.Timer(seconds, _exit) for seconds in (max(timeout, _EXIT_LEAST_S), _EXIT_LEAST_S)]

    async def arm() -> None:
        for asked, timer in zip((stop.asked, stop.hurried), timers, strict=True):
            await asked.wait()
            timer.daemon = True
            timer.start()

    arming = asyncio.create_task(arm())
    try:
        yield
    finally:
        await end(arming)
        for timer in timers:
            timer.cancel()


def _exit() -> None:
    _log.error("the stop took too long; something outside hangs", action="stopped", reason="stop_timeout")
    os._exit(1)


async def drain(
    app: App, listener: Listener, server: Server, connections: Connections, timeout: float, stop: Stop
) -> None:
    """Stop accepting, finish what was promised, close. Takes at most `timeout` seconds.

    1. The listening socket closes, and every request that begins from now on is told 503.
    2. What is not a whole request yet is cut: nothing was promised to it, and its sender tries again.
    3. Whole requests are waited for, until four fifths of the time are gone or somebody hurries.
    4. Everything left is closed.
    """
    _log.info("stopping", action="stopping", busy=connections.busy)
    app.draining = True
    listener.close()
    await asyncio.sleep(0)
    connections.cut_waiting()
    await _first_of(timeout * (1 - TIDY_SHARE), connections.quiet(), stop.hurried.wait())
    left = connections.busy
    connections.cut_waiting()
    await server.shutdown(tidy_seconds(timeout))
    _log.info("stopped", action="stopped", unanswered=left)


async def end(task: "asyncio.Task[Any]") -> None:
    """Cancel a task and return once it has ended."""
    task.cancel()
    await asyncio.wait([task])


async def _first_of(timeout: float, *waits: Coroutine[Any, Any, object]) -> None:
    """Return once one of these is done, at the latest after `timeout` seconds."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        await end(task)
