"""The store: every verb by which the parties read and change what is on record.

Each verb is one transaction, or part of one: whatever waits is committed together (group commit), and a verb
returns only after its commit is on disk. A verb raises `StoreUnavailable` when its commit could not be made or
its answer was lost; then nothing is promised, and the caller reads again before it acts.
"""

from typing import Self

from wakegate_schema.store.doorbell import Doorbell
from wakegate_schema.store.group_commit import GroupCommit
from wakegate_schema.store.parts.attempts import Attempts
from wakegate_schema.store.parts.executions import Executions
from wakegate_schema.store.parts.leases import Leases
from wakegate_schema.store.parts.notifications import Notifications
from wakegate_schema.store.parts.registry import Registry
from wakegate_schema.store.parts.times import Times
from wakegate_schema.store.parts.told import ToldLog
from wakegate_schema.store.parts.upkeep import Upkeep
from wakegate_schema.store.parts.wakes import Wakes
from wakegate_schema.store.presence import Presence
from wakegate_schema.store.reader import Reader


class Store(
    Registry,
    Notifications,
    Executions,
    Leases,
    Attempts,
    Times,
    Wakes,
    ToldLog,
    Upkeep,
):
    """One process's way into the store. Open it with `open_store`, close it with `close` or `async with`."""

    def __init__(self, writer: GroupCommit, reader: Reader, doorbell: Doorbell, presence: Presence) -> None:
        """Take the parts that `open_store` made."""
        self._writer = writer
        self._reader = reader
        self._doorbell = doorbell
        self._presence = presence

    async def __aenter__(self) -> Self:
        """Return the store itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Commit what waits and let go of the database."""
        self._doorbell.close()
        written = await self._writer.close()
        await self._reader.close()
        if written:  # else the writer, which hangs, may still write, until the process ends
            self._presence.close()

    async def changed(self, since: int, timeout: float) -> int:
        """Wait until anybody has committed something since change number `since`, at most `timeout` seconds.

        Returns the number of the latest change noticed; hand it in next time, so that nothing is missed between
        two calls, however many wait. Begin with -1, which returns at once.
        """
        return await self._doorbell.wait(since, timeout)
