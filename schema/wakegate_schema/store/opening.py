"""Opening a store by its URL."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Literal

from wakegate_schema import clock
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import backup_mark, interruption, migrations, placement
from wakegate_schema.store.doorbell import Doorbell
from wakegate_schema.store.engine import SqliteEngine
from wakegate_schema.store.errors import StoreMissing, StoreOutdated
from wakegate_schema.store.group_commit import GroupCommit
from wakegate_schema.store.presence import Presence
from wakegate_schema.store.queries import load
from wakegate_schema.store.reader import Reader
from wakegate_schema.store.sqlite import create, translate
from wakegate_schema.store.store import Store
from wakegate_schema.store.transaction import Transaction

Mode = Literal["service", "use", "read"]


async def open_store(url: str, *, mode: Mode) -> Store:
    """Open the store that a database URL names.

    Args:
        url: `sqlite:///relative.db` or `sqlite:////absolute.db`.
        mode: `service` makes and migrates the store; `use` and `read` only take one that is there and up to date.

    Raises:
        StoreMissing: there is none, and this mode makes none.
        StoreOutdated: its schema is not this program's.
        StoreMisplaced: it may not lie there.
        RestoreInterrupted: it is half replaced by another.
        StoreIsBackup: it is a backup, and this mode does not only read.
        StoreUnavailable: it cannot be opened now, or is being restored.
        ValueError: the URL has another form.
    """
    path = sqlite_path(url).absolute()
    queries = load("wakegate_schema", "sql/sqlite")
    try:
        presence = _entered(path, mode)
    except OSError as error:
        raise translate(error, path) from error
    reader = Reader(path, queries)
    try:
        if mode == "service":
            await asyncio.to_thread(_prepare, path, SqliteEngine(path, queries))
        migrations.check(await reader.read(_applied))
        if mode != "read":
            await reader.read(_refuse_backup, path)
    except BaseException as error:
        await reader.close()
        presence.close()
        if isinstance(error, OSError):
            raise translate(error, path) from error
        raise
    return Store(GroupCommit(SqliteEngine(path, queries)), reader, Doorbell(path), presence)


def _entered(path: Path, mode: Mode) -> Presence:
    """Say that the store is open here, once it is known that there is one, or may be."""
    if mode == "service":
        placement.check(path)
        if not path.exists():
            placement.check_creator(path)
    elif not path.is_file():
        interruption.refuse(path)
        raise StoreMissing(
            f"there is no store at {path}; start a service or run `wakegate db migrate` to make one there, or name"
            " another by WAKEGATE_DATABASE or --config"
        )
    backup_mark.refuse(path, reading=mode == "read")
    presence = Presence.shared(path, reading=mode == "read")
    try:
        interruption.refuse(path)
    except BaseException:
        presence.close()
        raise
    return presence


def _prepare(path: Path, engine: SqliteEngine) -> None:
    if not path.exists():
        create(path)
    try:
        migrations.migrate(engine, clock.now())
    finally:
        engine.close()


def _applied(transaction: Transaction) -> set[int]:
    try:
        return {row["number"] for row in transaction.all("migrations_applied")}
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            raise StoreOutdated("the file holds no wakegate store; run `wakegate db migrate`") from error
        raise


def _refuse_backup(transaction: Transaction, path: Path) -> None:
    if transaction.first("backup_made_at") is not None:
        raise backup_mark.of(path)
