"""The mark of a backup: in the file's header, where it is seen before SQLite opens the file, and in a table.

A backup copied into place beside the WAL of the store that was there would be changed by being opened.
"""

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from wakegate_schema.store.errors import StoreIsBackup

APPLICATION_ID = int.from_bytes(b"wgbk")
"""What SQLite's header says of whom a file is, in a backup; 0 in a store."""


def is_marked(path: Path) -> bool:
    """Return whether the file's header bears the mark. Raises OSError when it cannot be read.

    SQLite reads it: whoever opens and closes the file beside it loses all locks that this process has on it (POSIX),
    and the next process to leave takes itself for the last one and removes the WAL.
    """
    if not path.is_file() or not os.access(path, os.R_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as raw:
        try:
            found: int = raw.execute("PRAGMA application_id").fetchone()[0]
        except sqlite3.DatabaseError:
            return False  # no database at all
    return found == APPLICATION_ID


def refuse(path: Path, *, reading: bool) -> None:
    """Raise `StoreIsBackup` for a file that bears the mark, unless it is only to be read, and that is safe.

    Args:
        path: the database file; none is no backup.
        reading: nothing will be written. A backup has no WAL, so one beside it belongs to another store.
    """
    real = path.resolve()
    if not real.is_file() or not is_marked(real):
        return
    if not reading or real.with_name(real.name + "-wal").exists():
        raise of(path)


def of(path: Path) -> StoreIsBackup:
    """Return the refusal of a file."""
    return StoreIsBackup(
        f"{path} is a backup, and what has run since it was made is not in it: run `wakegate db restore {path}`, which"
        " sees to it that nothing runs twice"
    )
