"""The WAL: how large it is, and taking it in once nobody reads any more what kept it from being taken in.

A thread beside the writer takes it in (`checkpoints`), and a commit what that has left. A reader that keeps a
transaction open holds that up, and the WAL grows with every commit meanwhile: a forgotten sqlite3 shell, a paused
copy. Once it is gone the next commit goes on; where none comes, `take_in` does.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from wakegate_schema.loggers import logger
from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.sqlite.connection import BUSY_TIMEOUT_MS, WAL_SIZE_LIMIT
from wakegate_schema.store.sqlite.file import wal_path
from wakegate_schema.store.transaction import Transaction

LOOK_EVERY_S: Final = 2.0
"""Seconds between two looks at the WAL."""
WARN_EVERY_S: Final = 300.0
"""Seconds between two warnings that it is too large, at least."""

_log = logger("wakegate_schema")


def size(database: Path) -> int:
    """Return how many bytes the WAL of a database has now; 0 when there is none. Raises OSError."""
    try:
        return wal_path(database).stat().st_size
    except FileNotFoundError:
        return 0


def take_in(transaction: Transaction, database: Path) -> int:
    """Bring the WAL's content into the database and empty it, as far as that goes now, if it is too large.

    Waits for nobody: what a reader still needs stays. Returns its bytes after that. Raises sqlite3.Error, OSError.
    """
    if size(database) > WAL_SIZE_LIMIT:
        transaction.run("PRAGMA busy_timeout = 0")
        try:
            transaction.run("PRAGMA wal_checkpoint(PASSIVE)")  # beside the writers, who wait for none of it
            transaction.run("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            transaction.run(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    return size(database)


def measure(_: Transaction, database: Path) -> int:
    """Return `size`, as a reading verb."""
    return size(database)


class WalWatch:
    """One service's eye on the WAL: takes it in, and warns while it stays too large."""

    def __init__(self, take_in: Callable[[], Awaitable[int]], monotonic: Callable[[], float] = time.monotonic) -> None:
        """Take `Store.take_in_wal`, and a clock that never goes back (s)."""
        self._take_in = take_in
        self._monotonic = monotonic
        self._warned_at: float | None = None

    async def watch(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Look once. A store that cannot be used is told of by those who need it."""
        try:
            found = await self._take_in()
        except StoreUnavailable as error:
            _log.debug("the WAL cannot be looked at", action="wal", reason=error.reason)
            return
        if found <= WAL_SIZE_LIMIT:
            if self._warned_at is not None:
                _log.info("the WAL is small again", action="wal", bytes=found)
            self._warned_at = None
        elif self._warned_at is None or self._monotonic() - self._warned_at >= WARN_EVERY_S:
            self._warned_at = self._monotonic()
            _log.warning(
                "the WAL grows: somebody keeps a transaction open; close sqlite3 shells and copies that are paused",
                action="wal",
                reason="wal_too_large",
                bytes=found,
                limit=WAL_SIZE_LIMIT,
            )
