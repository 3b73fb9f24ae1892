"""Instances: read as they are now, and once for all who ask at the same time."""

import asyncio

from wakegate_schema.records import Identity, Instance
from wakegate_schema.store import Store


class Instances:
    """Reads instances from the store. Nobody is given what was read before he asked. One event loop's."""

    def __init__(self, store: Store) -> None:
        """Take the store."""
        self._store = store
        self._asked: dict[Identity, asyncio.Task[Instance]] = {}

    async def read(self, provider: str, instance_id: str) -> Instance:
        """Return an instance; whoever asks for it in the same turn of the loop gets the same reading.

        Raises what `Store.instance` does.
        """
        identity = provider, instance_id
        reading = self._asked.get(identity)
        if reading is None:
            reading = asyncio.get_running_loop().create_task(self._read(identity))
            self._asked[identity] = reading
        return await asyncio.shield(reading)  # the others want it still when one does not any more

    async def _read(self, identity: Identity) -> Instance:
        del self._asked[identity]  # it begins now: too late for who asks from here on
        return await self._store.instance(*identity)
