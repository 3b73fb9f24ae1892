"""SQLite's doorbell: notices that anybody, in any process, has committed something.

`PRAGMA data_version` costs some microseconds and needs no socket, no permission and no message. When it is worth
asking, the kernel says: it tells of writes to the WAL. Where it does not, the question is asked every 10 ms.
"""

import asyncio
import sqlite3
from pathlib import Path

from wakegate_schema.store.doorbell import Doorbell
from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.sqlite.file import DatabaseFile, wal_path
from wakegate_schema.store.sqlite.write_watch import WriteWatch

POLL_S = 0.01
"""Seconds between two looks where the kernel does not tell of writes."""
TOLD_POLL_S = 0.1
"""The same where it does: for what it leaves out."""
GAP_S = POLL_S / 2
"""Seconds between two changes that are told of, at least: a burst of commits is few of them."""
COMMITTING_S = 0.05
"""How long after a write its commit is waited for, in seconds: a disk has to keep it in between."""
COMMITTING_POLL_S = (0.0005, 0.002)
"""Seconds between two looks meanwhile: at first, and at last."""


class SqliteDoorbell(Doorbell):
    """See `Doorbell`."""

    def __init__(self, path: Path) -> None:
        """Take the database file's path; it is opened by the first wait."""
        super().__init__()
        self._path = path
        self._file = DatabaseFile(path, read_only=True, busy_ms=0)  # it looks again soon; the event loop never waits
        self._seen: tuple[sqlite3.Connection | None, int] = (None, -1)
        self._changed_at = self._written_at = float("-inf")
        self._writes: WriteWatch | None = None
        self._told = True
        """Whether the latest change was preceded by the kernel's word."""

    def close(self) -> None:
        """Let go of the file too."""
        super().close()
        self._forget()

    async def _look_first(self) -> None:
        now = asyncio.get_running_loop().time()
        if now >= self._changed_at + GAP_S:
            self._look(now)

    async def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        await self._pause(loop.time())
        if not self._closed:
            self._look(loop.time())

    async def _pause(self, now: float) -> None:
        """Wait until it is worth looking."""
        if (gap := self._changed_at + GAP_S - now) > 0:
            await asyncio.sleep(gap)
        elif now < self._written_at + COMMITTING_S:
            await asyncio.sleep(min(COMMITTING_POLL_S[1], max(COMMITTING_POLL_S[0], (now - self._written_at) / 4)))
        elif self._writes is None:
            await asyncio.sleep(POLL_S)
        else:
            await self._writes.wait(TOLD_POLL_S if self._told else POLL_S)

    def _look(self, now: float) -> None:
        """Take the kernel's word, then look: what is written after that is told of again."""
        told = self._writes is not None and self._writes.written()
        seen = self._read()
        expected = told or now < self._written_at + COMMITTING_S
        if told:
            self._written_at = now
        if seen != self._seen:
            self._told = expected or seen[0] is not self._seen[0]
            self._seen = seen
            self._number += 1
            self._changed_at = now
            if not told:
                self._written_at = float("-inf")

    def _read(self) -> tuple[sqlite3.Connection | None, int]:
        """Return the connection and its data version: another connection's numbers say nothing about this one's."""
        try:
            connection = self._file.current()
            if connection is not self._seen[0]:
                self._watch_writes()
            version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        except (sqlite3.Error, OSError, StoreUnavailable):
            self._forget()
            return None, -1
        return connection, version

    def _watch_writes(self) -> None:
        """Watch the WAL of the connection that was just opened: it lies there for as long as that is open."""
        self._unwatch()
        try:
            self._writes = WriteWatch(wal_path(self._path))
        except (OSError, AttributeError):  # another system, or a limit that is reached
            self._writes = None

    def _forget(self) -> None:
        self._unwatch()
        self._file.close()

    def _unwatch(self) -> None:
        if self._writes is not None:
            self._writes.close()
        self._writes = None
