"""Visits: requests that last. Each ends when the receiver stops, its harness loses access, or its peer leaves."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from wakegate_receiver.control.identity import Visitor
from wakegate_schema.errors import WakegateError

LOOK_S: Final = 1.0
"""How often it is looked whether every visitor is still who they were."""


class Visit:
    """One request that lasts."""

    def __init__(self, visitor: Visitor, again: Callable[[], Visitor]) -> None:
        """Take who asks, and what tells who asks now."""
        self._visitor = visitor
        self._again = again
        self._ended = asyncio.Event()

    def over(self) -> bool:
        """Say whether it is to end."""
        return self._ended.is_set()

    def end(self) -> None:
        """Ask it to end. Repeats are no-ops."""
        self._ended.set()

    def look(self) -> None:
        """Ask it to end when its visitor is not who they were: then what they may see is another thing."""
        try:
            same = self._again() == self._visitor
        except WakegateError:
            same = False
        if not same:
            self.end()

    async def until(self, *tasks: "asyncio.Task[Any]", timeout: float | None = None) -> None:
        """Return once one of the tasks is done, the visit is to end, or the seconds are over."""
        ending = asyncio.get_running_loop().create_task(self._ended.wait())
        try:
            await asyncio.wait({ending, *tasks}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()


class Visits:
    """Every request that lasts."""

    def __init__(self, most: int) -> None:
        """Take how many there should be at most, over all harnesses, so that connections are left for the others."""
        self._most = most
        self._open: set[Visit] = set()
        self._draining = False

    @property
    def room(self) -> bool:
        """Whether another one may begin."""
        return len(self._open) < self._most

    @contextmanager
    def open(self, visitor: Visitor, again: Callable[[], Visitor]) -> Iterator[Visit]:
        """Give a visit for the length of the block."""
        visit = Visit(visitor, again)
        if self._draining:
            visit.end()
        self._open.add(visit)
        try:
            yield visit
        finally:
            self._open.discard(visit)

    def drain(self) -> None:
        """End all of them, and those to come."""
        self._draining = True
        for visit in self._open:
            visit.end()

    async def watch(self) -> None:
        """Look after all of them until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            for visit in self._open:
                visit.look()
