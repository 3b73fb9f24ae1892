"""The store: every verb by which the parties read and change what is on record.

Each verb is one transaction, or part of one: whatever waits is committed together (group commit), and a verb
returns only after its commit is on disk. A verb raises `StoreUnavailable` when its commit could not be made or
its answer was lost; then nothing is promised, and the caller reads again before it acts.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Self

from wakegate_schema import clock
from wakegate_schema.queue import QueueState, Ringer
from wakegate_schema.store.doorbell import Doorbell
from wakegate_schema.store.group_commit import GroupCommit
from wakegate_schema.store.parts.adoptions import Adoptions
from wakegate_schema.store.parts.attempts import Attempts
from wakegate_schema.store.parts.consumption import Consumption
from wakegate_schema.store.parts.executions import Executions
from wakegate_schema.store.parts.leases import Leases
from wakegate_schema.store.parts.notifications import Notifications
from wakegate_schema.store.parts.registry import Registry
from wakegate_schema.store.parts.times import Times
from wakegate_schema.store.parts.told import ToldLog
from wakegate_schema.store.parts.upkeep import Upkeep
from wakegate_schema.store.parts.wakes import Wakes
from wakegate_schema.store.parts.workers import Workers
from wakegate_schema.store.reader import Reader


class Store(
    Registry,
    Notifications,
    Executions,
    Leases,
    Attempts,
    Consumption,
    Adoptions,
    Times,
    Wakes,
    Workers,
    ToldLog,
    Upkeep,
):
    """One process's way into the store. Open it with `open_store`, close it with `close` or `async with`."""

    def __init__(
        self,
        writer: GroupCommit,
        reader: Reader,
        doorbell: Doorbell,
        *,
        file: Path | None = None,
        leave: Callable[[], None] | None = None,
    ) -> None:
        """Take the parts that `open_store` made.

        Args:
            writer: commits.
            reader: reads.
            doorbell: hears of commits.
            file: SQLite's.
            leave: called once nothing of this store can be written any more.
        """
        self._writer = writer
        self._reader = reader
        self._doorbell = doorbell
        self._file = file
        self._leave = leave

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
        await self._ringer.close()  # it may still ask which pools live
        await self._reader.close()
        if written and self._leave is not None:  # a writer that hangs may still write, until the process ends
            self._leave()

    def rings(self, ringer: Ringer) -> None:
        """Take the ringer that hints to workers from now on; `close` ends it."""
        self._ringer = ringer
        ringer.follow(lambda: self.living_pools(clock.now()))

    def ring(self) -> None:
        """Hint to the workers of every living pool that something may be due. Returns at once, raises nothing."""
        self._ringer.ring()

    def queue_state(self) -> QueueState | None:
        """Return what was counted of hints; None where the store itself is the queue."""
        return self._ringer.state()

    async def changed(self, since: int, timeout: float) -> int:
        """Wait until anybody has committed something since change number `since`, at most `timeout` seconds.

        Returns the number of the latest change noticed; hand it in next time, so that nothing is missed between
        two calls, however many wait. Begin with -1, which returns at once.
        """
        return await self._doorbell.wait(since, timeout)
