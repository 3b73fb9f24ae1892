"""Reading once: what is read from the store for all who ask at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Found = TypeVar("_Found")


class ReadingOnce(Generic[_Key, _Found]):
    """Reads by a key. Nobody is given what was read before he asked. One event loop's."""

    def __init__(self, read: Callable[[_Key], Awaitable[_Found]]) -> None:
        """Take what reads."""
        self._read_one = read
        self._asked: dict[_Key, asyncio.Task[_Found]] = {}

    async def read(self, key: _Key) -> _Found:
        """Return what there is; whoever asks for it in the same turn of the loop gets the same reading.

        Raises what reading does.
        """
        reading = self._asked.get(key)
        if reading is None:
            reading = asyncio.get_running_loop().create_task(self._read(key))
            self._asked[key] = reading
        return await asyncio.shield(reading)  # the others want it still when one does not any more

    async def _read(self, key: _Key) -> _Found:
        del self._asked[key]  # it begins now: too late for who asks from here on
        return await self._read_one(key)
