"""The doorbell: notices within 10 ms that anybody, in any process, has committed something.

`PRAGMA data_version` costs some microseconds and needs no socket, no permission and no message.
"""

import asyncio
import sqlite3
from contextlib import suppress
from pathlib import Path

from wakegate_schema.store.sqlite import connect

POLL_S = 0.01


class Doorbell:
    """Counts the changes it noticed; used in one event loop."""

    def __init__(self, path: Path) -> None:
        """Take the database file's path; it is opened by the first wait."""
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._version = -1
        self._number = 0
        self._looked_at = 0.0

    async def wait(self, since: int, timeout: float) -> int:
        """Return the latest change's number as soon as it is not `since`, at the latest after `timeout` seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            self._look(loop.time())
            remaining = deadline - loop.time()
            if self._number != since or remaining <= 0:
                return self._number
            await asyncio.sleep(min(POLL_S, remaining))

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = None

    def _look(self, now: float) -> None:
        if now - self._looked_at < POLL_S / 2:
            return
        self._looked_at = now
        try:
            if self._connection is None:
                self._connection = connect(self._path, read_only=True)
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            self.close()
            version = -1
        if version != self._version:
            self._version = version
            self._number += 1
