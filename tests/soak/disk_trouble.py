"""Trouble with the small disk that an SQLite store lies on: it is filled to the last byte, and freed again."""

import asyncio
from pathlib import Path
from random import Random

from soak.decks import Deck
from soak.disk import SmallDisk
from soak.journal import Journal


class DiskTrouble:
    """What is done to the disk."""

    def __init__(self, disk: SmallDisk, database: Path, journal: Journal, random: Random) -> None:
        """Take the disk, the store's file on it, the journal, and what chooses."""
        self._disk = disk
        self._database = database
        self._journal = journal
        self._random = random

    def decks(self) -> list[Deck]:
        """Return what may come over it."""
        return [
            {"disk full, fresh log": lambda: self._fill(fresh_log=True)},
            {"disk full": lambda: self._fill(fresh_log=False)},
        ]

    async def _fill(self, *, fresh_log: bool) -> None:
        self._journal.note(event="disk_filling")
        taken = await asyncio.to_thread(self._disk.fill, self._database, fresh_log=fresh_log)
        self._journal.note(event="disk_full", taken=taken, log=log_bytes(self._database))
        await asyncio.sleep(self._random.uniform(1.0, 4.0))
        self._disk.free()
        self._journal.note(event="disk_free", log=log_bytes(self._database))


def log_bytes(database: Path) -> int:
    """Return how large the write-ahead log of an SQLite file is."""
    log = database.with_name(f"{database.name}-wal")
    return log.stat().st_size if log.exists() else 0
