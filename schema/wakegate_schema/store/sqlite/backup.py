"""Backups: one file that holds the store as it was at one moment, made while others write."""

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from wakegate_schema.drafts import sync_directory, sync_file
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.errors import BackupUnusable
from wakegate_schema.store.progress import Progress
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite import backup_mark, wal
from wakegate_schema.store.sqlite.connection import connect
from wakegate_schema.store.sqlite.interruption import SIDE_FILES
from wakegate_schema.store.sqlite.transaction import SqliteTransaction

STEP_PAGES = 256
"""Pages copied between two looks at the progress: a mebibyte."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was made."""

    file: Path
    size: int
    """Bytes."""
    wal_before: int
    wal_after: int
    """Bytes of the store's WAL; nothing of it can be taken into the file while a backup is made."""


def back_up(database: Path, file: Path, *, at: int, force: bool = False, progress: Progress) -> Backup:
    """Write a consistent copy of a store, marked as a backup, and give it its name once it is whole and on disk.

    The store is read as it is when this begins; who writes meanwhile is not held up, but the WAL grows.

    Args:
        database: a store's file, which the caller has open as a `Store`.
        file: the backup's, readable for its owner alone.
        at: wall clock, µs.
        force: replace a file that is there.
        progress: told how far it is.

    Raises:
        BackupUnusable: no backup can be written there, or what was written is damaged.
        OSError: the same, from the system. There is no file then.
    """
    _check_database(database, file)
    with whole_file(file, force=force) as draft:
        before = wal.size(database)
        try:
            _copy(database, draft, at, progress)
        except sqlite3.Error as error:
            raise BackupUnusable(f"the backup could not be made: {error}; there is none") from error
        after = wal.size(database)
    return Backup(file.absolute(), file.stat().st_size, before, after)


@contextmanager
def whole_file(file: Path, *, force: bool) -> Iterator[Path]:
    """Give a file its name once it is whole and on disk: what is written, under another name, in the block.

    Raises:
        BackupUnusable: it cannot lie there.
        OSError: the same, from the system. There is no file then, and none of what was written.
    """
    file = file.absolute()
    _check_name(file, force)
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".partial", dir=file.parent)
    os.close(descriptor)
    draft = Path(name)
    try:
        yield draft
        sync_file(draft)
        _name(draft, file, force)
        sync_directory(file.parent)
    finally:
        for end in ("", *SIDE_FILES):
            draft.with_name(draft.name + end).unlink(missing_ok=True)


def _check_database(database: Path, file: Path) -> None:
    if backup_mark.is_marked(database):
        raise BackupUnusable(f"{database} is a backup itself; copy the file")
    if file.absolute().parent.is_dir() and _is_of_the_store(file.absolute(), database):
        raise _no_place(file.absolute())


def _check_name(file: Path, force: bool) -> None:
    if not file.parent.is_dir():
        raise BackupUnusable(f"the folder {file.parent} does not exist; make it first")
    if file.exists() and not file.is_file():
        raise _no_place(file)
    if not force:
        _check_free(file)


def _no_place(file: Path) -> BackupUnusable:
    return BackupUnusable(f"{file} is no plain file, or bears a name of the store's own files; name another")


def _is_of_the_store(file: Path, database: Path) -> bool:
    """Return whether this is the store's file, or a name that one beside it has or may get: a lock, a marker."""
    here = file.resolve()
    return any(
        here.parent == path.parent.resolve() and (here.name == path.name or here.name.startswith(f"{path.name}-"))
        for path in (database, database.resolve())
    )


def _check_free(file: Path) -> None:
    if os.path.lexists(file):
        raise BackupUnusable(f"{file} is there already; name another, or give --force to replace it")


def _copy(database: Path, draft: Path, at: int, progress: Progress) -> None:
    queries = load_store(SQLITE)
    with closing(sqlite3.connect(draft, isolation_level=None)) as target:
        target.execute("PRAGMA synchronous = OFF")  # it is synced once, when it is whole
        with closing(connect(database, read_only=True)) as source:
            source.execute("BEGIN")  # one snapshot: no writer makes it begin again
            SqliteTransaction(source, queries).first("epoch_present")
            source.backup(target, pages=STEP_PAGES, progress=lambda _, left, total: progress(total - left, total))
        target.execute("PRAGMA journal_mode = DELETE")  # one file, which can be read where nothing can be written
        target.execute(f"PRAGMA application_id = {backup_mark.APPLICATION_ID}")
        SqliteTransaction(target, queries).change("backup_mark", {"at": at})
        ((verdict,), *_) = target.execute("PRAGMA quick_check").fetchall()
    if verdict != "ok" or not backup_mark.is_marked(draft):
        raise BackupUnusable(f"the backup is damaged, so it was not kept ({verdict}); run `wakegate db check`")


def _name(draft: Path, file: Path, force: bool) -> None:
    """Give the file its name, in one step; without force not over another that came meanwhile."""
    if not force:
        try:
            os.link(draft, file)
        except FileExistsError:
            _check_free(file)
            raise
        except OSError:  # a filesystem without hard links
            _check_free(file)
        else:
            return
    draft.replace(file)
