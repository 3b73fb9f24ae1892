"""Threads: bounded room in which sync tools run, one daemon thread a run."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

from wakegate_schema.errors import WakegateError

_Result = TypeVar("_Result")


class NoThread(WakegateError):
    """No thread could be had; nothing was begun."""

    reason = "no_thread"


class Threads:
    """Counts the threads that run, hung ones included, and says when there are too many to begin another.

    Not an executor: that would queue a call whose permission is spent behind a thread that hangs, and wait for the
    hung thread when the process ends. A daemon thread is let go.
    """

    def __init__(self, limit: int) -> None:
        """Take how many threads there may be: hung ones beside those of the executions being worked on."""
        self._limit = limit
        self._running = 0

    @property
    def full(self) -> bool:
        """Whether not to start what needs a thread. Several that saw room at once may pass the limit together."""
        return self._running >= self._limit

    def run(self, work: Callable[[], _Result]) -> "asyncio.Future[_Result]":
        """Run `work`, which must not raise, in a thread of its own; the future gets what it returns.

        Raises:
            NoThread: the system gives none; `work` was not begun.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Result] = loop.create_future()
        context = contextvars.copy_context()

        def deliver(result: _Result) -> None:
            self._running -= 1
            if not future.done():
                future.set_result(result)

        def main() -> None:
            result = context.run(work)
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends, nobody listens
                loop.call_soon_threadsafe(deliver, result)

        try:
            threading.Thread(target=main, name="wakegate-tool", daemon=True).start()
        except RuntimeError as error:
            raise NoThread from error
        self._running += 1
        return future
