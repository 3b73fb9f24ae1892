"""Slots: how many executions are worked on at once."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    """Counts the executions being worked on. One event loop's; not for threads."""

    def __init__(self, size: int) -> None:
        """Take how many there may be."""
        self._size = size
        self._taken = 0
        self._changed = asyncio.Event()

    @property
    def free(self) -> int:
        """How many more executions may be leased now."""
        return max(0, self._size - self._taken)

    @property
    def changed(self) -> asyncio.Event:
        """Set whenever a slot is given back; the waiter clears it."""
        return self._changed

    def take(self) -> None:
        """Take a slot for an execution that was just leased."""
        self._taken += 1

    def give_back(self) -> None:
        """Give a slot back."""
        self._taken -= 1
        self._changed.set()

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Give the slot back while inside, and have it again afterwards.

        On the way out the count may pass the size for a moment: an execution whose decision has just come goes on at
        once, and nothing new is leased until there is room again.
        """
        self.give_back()
        try:
            yield
        finally:
            self.take()
