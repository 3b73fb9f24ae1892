"""A file that is to be restored: copied, checked and brought up to date, before anything else is touched."""

import sqlite3
from contextlib import closing
from pathlib import Path

from wakegate_schema import clock
from wakegate_schema.store import migrations
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.errors import BackupUnusable
from wakegate_schema.store.progress import Step
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite import backup_mark
from wakegate_schema.store.sqlite.connection import create
from wakegate_schema.store.sqlite.engine import SqliteEngine
from wakegate_schema.store.sqlite.interruption import SIDE_FILES
from wakegate_schema.store.sqlite.transaction import SqliteTransaction
from wakegate_schema.store.verbs import epochs


def take_in(file: Path, new: Path, *, at: int, step: Step) -> int | None:
    """Copy and check a file, bring the copy up to date; return when it was made as a backup (µs), None if it was not.

    Args:
        file: a backup, or a store's file; it is only read.
        new: where the copy is made, in a folder that is there.
        at: wall clock, µs.
        step: told `copy`, `check`, `migrate`.

    Raises:
        BackupUnusable: the file is damaged, or no store.
        ClockBehind: this host's clock is behind the time of the file.
        StoreOutdated: a newer program has made the file.
    """
    step("copy")
    if not file.is_file():
        raise BackupUnusable(f"there is no file {file}; nothing was changed")
    new.parent.mkdir(mode=0o700, exist_ok=True)
    create(new)
    try:
        _copy(file, new)
        step("check")
        made_at = _check(file, new, at)
    except sqlite3.DatabaseError as error:
        raise BackupUnusable(f"{file} cannot be restored: {error}; nothing was changed") from error
    step("migrate")
    engine = SqliteEngine(new, load_store(SQLITE))
    try:
        migrations.migrate(engine, clock.now())
        with engine.transaction() as transaction:
            if transaction.first("filling") is not None:
                raise BackupUnusable(f"a copy into {file} has not ended, so it is no whole store; nothing was changed")
            transaction.change("moved_unmark")  # in a new epoch, what ran where it was copied to is held like all else
    finally:
        engine.close()
    return made_at


def _copy(file: Path, new: Path) -> None:
    with closing(sqlite3.connect(new, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous = OFF")  # it is synced before it gets its name
        with closing(sqlite3.connect(_uri(file), uri=True, isolation_level=None)) as source:
            source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
        target.execute("PRAGMA application_id = 0")


def _check(file: Path, new: Path, at: int) -> int | None:
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        transaction = SqliteTransaction(connection, load_store(SQLITE))
        ((verdict,), *_) = connection.execute("PRAGMA integrity_check").fetchall()
        if verdict != "ok" or connection.execute("PRAGMA foreign_key_check").fetchall():
            raise BackupUnusable(f"{file} is damaged ({verdict}); nothing was changed; take another backup")
        tables = {row["name"] for row in transaction.all("examine_schema")}
        if not tables >= {"migration", "execution"}:
            raise BackupUnusable(f"{file} is no wakegate store; nothing was changed")
        migrations.refuse_newer(transaction)
        mark = transaction.first("backup_made_at") if "backup" in tables else None
    made_at = None if mark is None else mark["made_at"]
    epochs.check_clock(made_at or 0, at, f"{file} was made")
    return made_at


def _uri(file: Path) -> str:
    """Return how to open what is to be restored, so that it is only read and nothing is left beside it.

    A backup is whole in itself; so is a store's file without a WAL. A WAL that lies beside is a part of it.
    """
    whole = backup_mark.is_marked(file) or not any(
        file.with_name(file.name + end).exists() for end in SIDE_FILES if end != "-shm"
    )
    return f"{file.as_uri()}?mode=ro{'&immutable=1' if whole else ''}"
