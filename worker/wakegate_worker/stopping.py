"""Stopping: what a stop may break off, and what it waits for."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Interrupted(Exception):
    """The stop broke off what was being waited for; nothing came of it."""


class Stop:
    """A stop, asked for once or, to stop at once, twice. One event loop's."""

    def __init__(self) -> None:
        """Nothing is asked for yet."""
        self._requested = asyncio.Event()
        self._forced = asyncio.Event()
        self._interruptible: set[asyncio.Task[Any]] = set()
        self._interrupted: set[asyncio.Task[Any]] = set()

    @property
    def requested(self) -> bool:
        """Whether to begin nothing new."""
        return self._requested.is_set()

    @property
    def forced(self) -> asyncio.Event:
        """Set when nothing at all is to be waited for any more."""
        return self._forced

    def request(self) -> None:
        """Ask for the stop: what is interruptible ends now. Asked again: everything does."""
        if self.requested:
            self._forced.set()
        self._requested.set()
        for task in self._interruptible - self._interrupted - {_current_task()}:
            self._interrupted.add(task)
            task.cancel()

    async def wait(self) -> None:
        """Wait for the first request."""
        await self._requested.wait()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a stop break off what is awaited inside.

        Raises:
            Interrupted: it did, or was asked for before.
        """
        task = asyncio.current_task()
        if self.requested or task is None:
            raise Interrupted
        self._interruptible.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._interrupted or task.uncancel() > 0:
                raise
            raise Interrupted from None
        finally:
            self._interruptible.discard(task)
            self._interrupted.discard(task)

    async def pause(self, seconds: float, *events: asyncio.Event) -> None:
        """Wait until the time is over, one of the events is set (and is cleared now) or a stop is asked for."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._requested, *events)]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*waits, return_exceptions=True)
        for event in events:
            event.clear()


def _current_task() -> asyncio.Task[Any] | None:
    """Return the task that asks for the stop, if one does and not a signal: it is not waiting for anything."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
