"""Restoring: another file takes the store's place, in a new epoch, so that nothing starts again by itself.

The new file is built and checked beside the store, in a folder of its own, before anything is touched. Then the
store's files are moved aside and the new one gets its name, under a marker that nobody opens the store beside: a crash
at any step leaves the old store, the new one, or one that is refused until the restore is run again.
"""

import os
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from wakegate_schema import timestamps
from wakegate_schema.drafts import sync_file
from wakegate_schema.records import Epoch
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.errors import StoreInUse
from wakegate_schema.store.progress import Step
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite import backup_mark, interruption, placement
from wakegate_schema.store.sqlite.connection import is_busy, translate
from wakegate_schema.store.sqlite.engine import SqliteEngine
from wakegate_schema.store.sqlite.incoming import take_in
from wakegate_schema.store.sqlite.interruption import SIDE_FILES, Moving
from wakegate_schema.store.sqlite.presence import Presence
from wakegate_schema.store.sqlite.transaction import SqliteTransaction
from wakegate_schema.store.verbs import epochs

RESTORED = "restored"
"""The reason of an epoch that a restore began."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore came to."""

    epoch: Epoch
    """The new one."""
    made_at: int | None
    """When the backup was made, µs; None for a store's file that is no backup."""
    aside: Path | None
    """Where the store is kept that was there before."""


def restore(database: Path, file: Path, *, actor: str, at: int, above: int = 0, step: Step) -> Restored:
    """Put a backup, or another store's file, in the place of the store.

    Args:
        database: where the store's file lies, or is to lie.
        file: what to restore; it is only read.
        actor: who does it.
        at: wall clock, µs: when the new epoch begins.
        above: its number is higher than this, and than any that file or store has had.
        step: told of every step.

    Raises:
        StoreInUse: somebody has the store open; nothing was changed.
        BackupUnusable: the file is damaged, or no store; nothing was changed.
        ClockBehind: this host's clock is behind the time of the file or of the store; nothing was changed.
        StoreOutdated: a newer program has made the file; nothing was changed.
        StoreMisplaced: a store may not lie there, or root would make it another user's.
        StoreUnavailable, OSError: reading or writing failed.
    """
    database = database.absolute().resolve()
    placement.check(database)
    if not database.exists():
        placement.check_creator(database)  # a file that is there hands its owner on
    presence = Presence.alone(database)
    work = _Restore(database, file.resolve(), actor, at, above, step)
    try:
        return work.run()
    except sqlite3.Error as error:
        raise translate(error, database) from error
    finally:
        work.tidy()
        presence.close()


class _Restore:
    """One restore, while nobody else has the store."""

    def __init__(self, database: Path, file: Path, actor: str, at: int, above: int, step: Step) -> None:
        self._database = database
        self._file = file
        self._actor = actor
        self._at = at
        self._above = above
        self._step = step
        self._queries = load_store(SQLITE)
        self._work = database.with_name(database.name + "-restore")
        self._new = self._work / "new.db"

    def run(self) -> Restored:
        """Take every step, in this order."""
        self._resume()
        made_at = take_in(self._file, self._new, at=self._at, step=self._step)
        highest = max(self._settle_old(), self._above)
        epoch = self._raise_epoch(highest)
        self._finish_new()
        aside = self._swap()
        self._step("tidy")
        return Restored(epoch, made_at, aside)

    def tidy(self) -> None:
        """Remove what was only for the work; what an interrupted one has left is removed by the next."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self._work)

    def _resume(self) -> None:
        """Undo what an interrupted restore has left."""
        self._step("resume")
        moving = interruption.interrupted(self._database)
        if moving is not None:
            moving.undo()
        self.tidy()

    def _settle_old(self) -> int:
        """Take the old store's WAL into its file, so that one file has it all; return its epoch, 0 if unknown.

        A clock behind what that store has seen would have the new epoch begin before calls that have run.

        One that SQLite cannot open is left as it is, and so is a backup that was copied here: a WAL beside that
        is another store's.
        """
        self._step("settle")
        if not self._database.exists() or backup_mark.is_marked(self._database):
            return 0
        uri = f"{self._database.as_uri()}?mode=rw"
        try:
            with closing(sqlite3.connect(uri, uri=True, isolation_level=None, timeout=1)) as old:
                old.row_factory = sqlite3.Row
                ((mode,),) = old.execute("PRAGMA journal_mode = DELETE").fetchall()
                if mode != "delete":
                    raise _in_use(self._database)
                transaction = SqliteTransaction(old, self._queries)
                for mark in transaction.all("clock_marks"):
                    epochs.check_clock(mark["highest_at"], self._at, f"the store at {self._database} was used")
                return epochs.present(transaction).number
        except sqlite3.DatabaseError as error:
            if is_busy(error):
                raise _in_use(self._database) from error
            return 0

    def _raise_epoch(self, highest: int) -> Epoch:
        """Begin an epoch that neither store has had, and take the mark away, in one commit."""
        self._step("raise")
        engine = SqliteEngine(self._new, self._queries)
        try:
            with engine.transaction() as transaction:
                epoch = epochs.begin_above(transaction, (RESTORED, self._actor, self._at), highest)
                transaction.change("backup_unmark")
                return epoch
        finally:
            engine.close()

    def _finish_new(self) -> None:
        """Leave one whole file, on disk, for those whose the old one was."""
        self._step("finish")
        with closing(sqlite3.connect(self._new, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
        if self._database.exists():
            old, new = self._database.stat(), self._new.stat()
            if new.st_gid != old.st_gid or (os.geteuid() == 0 and new.st_uid != old.st_uid):
                os.chown(self._new, old.st_uid if os.geteuid() == 0 else -1, old.st_gid)
            self._new.chmod(old.st_mode & 0o777)
        sync_file(self._new)

    def _swap(self) -> Path | None:
        """Move the old store aside and give the new one its name."""
        aside = _free_name(self._database, self._at)
        moving = Moving(self._database, aside, was_there=self._database.exists())
        self._step("mark")
        moving.begin(self._work)
        try:
            self._step("move")
            for name in moving.move():
                self._step(f"moved {name[len(self._database.name) :] or 'database'}")
            self._step("name")
            self._new.rename(self._database)
        except BaseException:
            moving.undo()
            raise
        self._step("unmark")
        moving.end()
        return aside if aside.exists() else None


def _free_name(database: Path, at: int) -> Path:
    """Return a dated name that nothing in the folder has."""
    moment = timestamps.render(at)[:19].replace("-", "").replace(":", "")
    name, number = f"{database.name}-replaced-{moment}Z", 1
    taken = {path.name for path in database.parent.iterdir()}
    while any(f"{name}{end}" in taken for end in ("", *SIDE_FILES)):
        number += 1
        name = f"{database.name}-replaced-{moment}Z-{number}"
    return database.with_name(name)


def _in_use(database: Path) -> StoreInUse:
    return StoreInUse(
        f"the store at {database} is open in another program, a sqlite3 shell perhaps; close it, then run this again"
    )
