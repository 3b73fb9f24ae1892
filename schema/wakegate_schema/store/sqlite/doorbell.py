"""SQLite's doorbell: notices within 10 ms that anybody, in any process, has committed something.

`PRAGMA data_version` costs some microseconds and needs no socket, no permission and no message.
"""

import asyncio
import sqlite3
from pathlib import Path

from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.ownership import Ownership
from wakegate_schema.store.sqlite.file import DatabaseFile

POLL_S = 0.01


class SqliteDoorbell:
    """See `Doorbell`."""

    def __init__(self, path: Path) -> None:
        """Take the database file's path; it is opened by the first wait."""
        self._file = DatabaseFile(path, read_only=True, busy_ms=0)  # it looks again soon; the event loop never waits
        self._ownership = Ownership()
        self._seen: tuple[sqlite3.Connection | None, int] = (None, -1)
        self._number = 0
        self._looked_at = 0.0
        self._closed = False

    async def wait(self, since: int, timeout: float) -> int:
        """Return the latest change's number as soon as it is not `since`, at the latest after `timeout` seconds.

        Raises `StoreUnavailable` once closed, and in a fork.
        """
        self._ownership.check()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            if self._closed:
                raise StoreUnavailable("the store is closed", reason="closed")
            self._look(loop.time())
            remaining = deadline - loop.time()
            if self._number != since or remaining <= 0:
                return self._number
            await asyncio.sleep(min(POLL_S, remaining))

    def close(self) -> None:
        """Let go of the file; whoever still waits hears that it is closed. Repeats are no-ops."""
        self._ownership.check()
        self._closed = True
        self._file.close()

    def _look(self, now: float) -> None:
        if now - self._looked_at < POLL_S / 2:
            return
        self._looked_at = now
        seen = self._read()
        if seen != self._seen:
            self._seen = seen
            self._number += 1

    def _read(self) -> tuple[sqlite3.Connection | None, int]:
        """Return the connection and its data version: another connection's numbers say nothing about this one's."""
        try:
            connection = self._file.current()
            version: int = connection.execute("PRAGMA data_version").fetchone()[0]
        except (sqlite3.Error, OSError, StoreUnavailable):
            self._file.close()
            return None, -1
        return connection, version
