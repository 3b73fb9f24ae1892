"""Restoring into PostgreSQL: a file's content is written into an empty database, in a new epoch.

The file is copied, checked and brought up to date in a temporary folder first. A store that is in use is never written
over: a new database is made, and WAKEGATE_DATABASE names that.
"""

import tempfile
from pathlib import Path

from wakegate_schema.store.copying import filling, transfer
from wakegate_schema.store.copying.filling import Origin
from wakegate_schema.store.copying.site import Site
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.progress import Progress, Step
from wakegate_schema.store.sqlite.incoming import take_in
from wakegate_schema.store.sqlite.restore import RESTORED, Restored
from wakegate_schema.store.sqlite.snapshot import sqlite_snapshot


def restore_into(
    target: StoreLocation, file: Path, *, actor: str, at: int, above: int = 0, step: Step, progress: Progress
) -> Restored:
    """Put a backup, or another store's file, into an empty database, whose tables are made if they are not there.

    Args:
        target: the database.
        file: what to restore; it is only read.
        actor: who does it.
        at: wall clock, µs: when the new epoch begins.
        above: its number is higher than this, and than any that the file has had.
        step: told of every step.
        progress: told how many rows are written, of how many.

    Raises:
        StoreNotEmpty: something is in the database; nothing was changed.
        StoreFilling: a store is being copied there; nothing was changed.
        BackupUnusable, ClockBehind, StoreOutdated: as `restore` in SQLite; nothing was changed.
        CopyFailed: the database cannot hold what is in the file, or does not; the database is empty and shut.
        StoreUnavailable, OSError: reading or writing failed; the same.
    """
    there = Site(target)
    with tempfile.TemporaryDirectory(prefix="wakegate-restore-") as folder, there.engine() as engine:
        new = Path(folder) / "new.db"
        made_at = take_in(file.resolve(), new, at=at, step=step)
        with sqlite_snapshot(new) as tx:
            filling.refuse_future(tx, at, str(file))
            origin = Origin(str(file), filling.identity(tx), bound=False)
            total = sum(transfer.survey(tx, refuse_nul=True).values())
            there.migrate(engine)
            step("mark")
            filling.mark(engine, there.dialect, target.url, origin)
            step("write")
            begin = (RESTORED, actor, at)
            done = filling.fill(engine, tx, target.url, origin, begin, above=above, total=total, progress=progress)
    return Restored(done.epoch, made_at, None)
