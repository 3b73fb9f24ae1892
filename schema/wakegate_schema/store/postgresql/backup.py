"""Backups of a store in PostgreSQL: an SQLite file with everything in it, as it was at one moment."""

import sqlite3
from contextlib import closing
from pathlib import Path

from wakegate_schema.store import migrations, shut
from wakegate_schema.store.copying import filling, transfer
from wakegate_schema.store.dialects import POSTGRESQL, SQLITE
from wakegate_schema.store.errors import BackupUnusable
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.postgresql.snapshot import postgresql_snapshot
from wakegate_schema.store.progress import Progress
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite import backup_mark
from wakegate_schema.store.sqlite.backup import Backup, whole_file
from wakegate_schema.store.sqlite.transaction import SqliteTransaction
from wakegate_schema.store.transaction import Transaction


def back_up_postgresql(
    location: StoreLocation, file: Path, *, at: int, force: bool = False, progress: Progress
) -> Backup:
    """Write a store into a file, marked as a backup, and give it its name once it is whole and on disk.

    The store is read as it is when this begins; nobody who writes meanwhile is held up.

    Args:
        location: of the store.
        file: the backup's, readable for its owner alone.
        at: wall clock, µs.
        force: replace a file that is there.
        progress: told how many rows are written, of how many.

    Raises:
        BackupUnusable: no backup can be written there.
        CopyFailed: what was written is not what was read.
        StoreOutdated: the store has not the schema of this program.
        OSError: from the system. There is no file then.
    """
    with whole_file(file, force=force) as draft, postgresql_snapshot(location) as source:
        filling.require_current(source, POSTGRESQL, location.url)
        shut.refuse_unfinished(source, location.url)
        try:
            with closing(sqlite3.connect(draft, isolation_level=None)) as connection:
                connection.row_factory = sqlite3.Row
                connection.execute("PRAGMA synchronous = OFF")  # it is synced once, when it is whole
                connection.execute("PRAGMA foreign_keys = ON")
                _write(connection, source, at, progress)
                connection.execute(f"PRAGMA application_id = {backup_mark.APPLICATION_ID}")
        except sqlite3.Error as error:
            raise BackupUnusable(f"the backup could not be made: {error}; there is none") from error
    return Backup(file.absolute(), file.stat().st_size, 0, 0)


def _write(connection: sqlite3.Connection, source: Transaction, at: int, progress: Progress) -> None:
    connection.execute("BEGIN")
    target = SqliteTransaction(connection, load_store(SQLITE))
    migrations.apply(target, at, SQLITE)
    total = sum(transfer.survey(source, refuse_nul=False).values())
    transfer.transfer(source, target, total=total, progress=progress)
    target.change("backup_mark", {"at": at})
    connection.execute("COMMIT")
