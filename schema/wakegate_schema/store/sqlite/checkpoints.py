"""Checkpoints beside the writer: a thread takes the WAL into the database while commits go on.

A checkpoint writes pages all over the file and syncs it, which takes longer than a commit. SQLite makes it part of one
commit in many; here it is part of none, as a rule. Under load the thread never comes to the WAL's end, where it could
begin anew: the commit that finds it at `BESIDE_PAGES` does the little that is left (docs/decisions/0021).
"""

import sqlite3
import threading
from pathlib import Path
from typing import Final

from wakegate_schema.loggers import logger
from wakegate_schema.store.errors import StoreError
from wakegate_schema.store.sqlite.file import DatabaseFile

ROWS: Final = 64
"""Rows changed since the last look after which there is enough to do: with random ids a row is two or three pages."""
BESIDE_PAGES: Final = 2000
"""Pages in the WAL from which on a commit takes in what the thread has left: 8 MB."""

_log = logger("wakegate_schema")


class Checkpoints:
    """One thread with a connection of its own, begun by the first commit that calls for it. For one writer's thread."""

    def __init__(self, path: Path) -> None:
        """Take the database file's path."""
        self._path = path
        self._due = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._seen = 0
        self._stands_back = False
        """Whether the next commit is to pass without a call: only one can take in at a time, and the one after it shall
        find that it can."""

    def committed(self, changes: int) -> None:
        """Say that a commit was made. Waits for nothing.

        Args:
            changes: rows that its connection has changed since it was opened.
        """
        if self._stands_back:
            self._stands_back = False
            return
        if 0 <= changes - self._seen < ROWS:
            return
        self._seen = changes
        if self._thread is None:
            self._begin()
        self._due.set()

    def close(self) -> None:
        """End the thread and let go of the file. The next commit may begin anew."""
        if self._thread is not None:
            self._closed.set()
            self._due.set()
            self._thread.join()
        self._thread = None
        self._closed.clear()
        self._due.clear()

    def _begin(self) -> None:
        thread = threading.Thread(target=self._run, name="wakegate-checkpoints", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            _log.debug("no thread for checkpoints; commits make them", action="wal", error=str(error))
            return
        self._thread = thread

    def _run(self) -> None:
        file = DatabaseFile(self._path, read_only=True, busy_ms=0)
        try:
            # `close` sets the end before the call: whatever call is cleared here, the end is seen.
            while not self._closed.is_set():
                self._due.wait()
                self._due.clear()
                if self._closed.is_set():
                    break
                if _take_in(file) >= BESIDE_PAGES:
                    self._stands_back = True
                    self._due.clear()
        finally:
            file.close()


def _take_in(file: DatabaseFile) -> int:
    """Take in what can be without waiting for anybody; return how many pages the WAL has, read or not.

    Trouble with the file is told of by whoever commits; there it decides something.
    """
    try:
        _, pages, _ = file.current().execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except (sqlite3.Error, OSError, StoreError) as error:
        _log.debug("the WAL cannot be taken in", action="wal", error=type(error).__name__)
        return 0
    return int(pages)
