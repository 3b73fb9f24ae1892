"""SQLite: how its files are made and opened, and what its errors mean here."""

import errno
import sqlite3
from pathlib import Path

from wakegate_schema.errors import WakegateError
from wakegate_schema.store.errors import InvariantViolated, NotADatabase, StoreUnavailable, UnstorableValue
from wakegate_schema.store.sqlite import backup_mark
from wakegate_schema.store.sqlite.making import make_file

FILE_MODE = 0o660
"""Receiver and worker are two users of one group; SQLite's own default would lock the second one out."""
BUSY_TIMEOUT_MS = 5_000
"""How long to wait for a writer that does not take turns (an operator's sqlite3 shell)."""
WAL_SIZE_LIMIT = 64 * 1024 * 1024
PREPARED = 256
"""Statements kept prepared; a worker has over a hundred, since a batch's has a form for each of a few sizes."""
CHECKPOINT_PAGES = 1000
"""Pages in the WAL from which on a commit takes them in, where nothing else is said: SQLite's own."""

_NOT_STORABLE = (sqlite3.DataError, sqlite3.InterfaceError, sqlite3.ProgrammingError, OverflowError, UnicodeError)
"""What the driver raises for a value, before the database has seen it: lone surrogates, integers beyond 64 bits."""


def connect(
    path: Path, *, read_only: bool = False, busy_ms: int | None = None, checkpoint_pages: int | None = None
) -> sqlite3.Connection:
    """Open an existing database file with the settings every connection needs, and have it read once.

    Args:
        path: of the file.
        read_only: for a connection that only reads.
        busy_ms: how long to wait for somebody's lock, `BUSY_TIMEOUT_MS` if None.
        checkpoint_pages: from how many in the WAL on a commit takes them in, `CHECKPOINT_PAGES` if None.

    Raises sqlite3.Error or OSError when that does not work now, `StoreIsBackup` for a backup that is not only to be
    read. One that only reads never makes a file WAL.
    """
    backup_mark.refuse(path, reading=read_only)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False,
        timeout=(BUSY_TIMEOUT_MS if busy_ms is None else busy_ms) / 1000, cached_statements=PREPARED,
    )  # fmt: skip
    try:
        connection.row_factory = sqlite3.Row
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA recursive_triggers = ON")  # or REPLACE walks around append-only
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_SIZE_LIMIT}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {checkpoint_pages or CHECKPOINT_PAGES}")
        connection.execute("PRAGMA schema_version").fetchall()  # reads, and so opens the WAL and its index
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def create(path: Path) -> None:
    """Make an empty database file, readable and writable by owner and group. An existing one is left alone."""
    make_file(path, FILE_MODE)


def translate(error: Exception, path: Path) -> Exception:
    """Turn a driver's error about the store at `path` into ours; leave anything else as it is."""
    if isinstance(error, WakegateError):
        return error
    if isinstance(error, sqlite3.IntegrityError):
        return InvariantViolated(f"the database refused a change: {error}")
    if isinstance(error, UnicodeDecodeError):  # only what was written as UTF-8 is ever read
        return StoreUnavailable(
            f"the store at {path} cannot be used: it holds text that is not UTF-8{_NEXT['store_corrupt']}",
            reason="store_corrupt",
        )
    if isinstance(error, _NOT_STORABLE):
        return UnstorableValue(f"the database cannot hold a value of this call ({type(error).__name__})")
    if isinstance(error, sqlite3.Error | OSError):
        message = f"the store at {path} cannot be used: {error}"
        if _code(error) == sqlite3.SQLITE_NOTADB:
            return NotADatabase(f"{message}; move it away, or name another file by WAKEGATE_DATABASE")
        word = _word(error)
        return StoreUnavailable(message + _NEXT.get(word, ""), reason=word)
    return error


_NEXT = {
    "disk_full": "; make room",
    "store_corrupt": "; stop the services, keep the file, and run `wakegate db restore FILE` with a backup",
    "store_read_only": "; this user must be able to write the file and its folder, even for a command that only reads",
}
"""What to do next, where it is always the same."""


_OS_WORDS = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EROFS: "store_read_only",
    errno.EACCES: "store_read_only",
    errno.EPERM: "store_read_only",
}


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether somebody else's lock stood in the way."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(error: Exception) -> int:
    """Return SQLite's primary result code, 0 where there is none."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def _word(error: Exception) -> str:
    if isinstance(error, OSError):
        return _OS_WORDS.get(error.errno or 0, "store_unavailable")
    return {
        sqlite3.SQLITE_BUSY: "store_busy",
        sqlite3.SQLITE_LOCKED: "store_busy",
        sqlite3.SQLITE_FULL: "disk_full",
        sqlite3.SQLITE_READONLY: "store_read_only",
        sqlite3.SQLITE_CORRUPT: "store_corrupt",
    }.get(_code(error), "store_unavailable")
