"""Opening a store in SQLite."""

import asyncio
import sqlite3
from pathlib import Path

from wakegate_schema import clock
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import migrations, shut
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.errors import StoreMissing, StoreOutdated
from wakegate_schema.store.group_commit import GroupCommit
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.modes import Mode
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.reader import Reader
from wakegate_schema.store.sqlite import backup_mark, interruption, placement
from wakegate_schema.store.sqlite.connection import create, translate
from wakegate_schema.store.sqlite.doorbell import SqliteDoorbell
from wakegate_schema.store.sqlite.engine import SqliteEngine
from wakegate_schema.store.sqlite.presence import Presence
from wakegate_schema.store.sqlite.session import SqliteSession
from wakegate_schema.store.store import Store
from wakegate_schema.store.transaction import Transaction


async def open_sqlite(location: StoreLocation, *, mode: Mode) -> Store:
    """Open the store in a file. See `open_store`."""
    path = sqlite_path(location.url).absolute()
    queries = load_store(SQLITE)
    try:
        presence = _entered(path, mode)
    except OSError as error:
        raise translate(error, path) from error
    reader = Reader(SqliteSession(path, queries))
    try:
        if mode == "service":
            await asyncio.to_thread(_prepare, path, SqliteEngine(path, queries))
        await reader.read(_check, path)
        if mode != "read":
            await reader.read(_refuse_closed, path)
    except BaseException as error:
        await reader.close()
        presence.close()
        if isinstance(error, OSError):
            raise translate(error, path) from error
        raise
    writer = GroupCommit(SqliteEngine(path, queries, beside=mode == "service"))
    return Store(writer, reader, SqliteDoorbell(path), file=path, leave=presence.close)


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


def migrate_sqlite(location: StoreLocation, *, force: bool = False) -> list[str]:
    """Make the file, or bring it up to date. See `migrate_store`."""
    path = sqlite_path(location.url).absolute()
    try:
        presence = _entered(path, "service")
    except OSError as error:
        raise translate(error, path) from error
    try:
        return _prepare(path, SqliteEngine(path, load_store(SQLITE)), force=force)
    finally:
        presence.close()


def _prepare(path: Path, engine: SqliteEngine, *, force: bool = False) -> list[str]:
    if not path.exists():
        create(path)
    try:
        return migrations.migrate(engine, clock.now(), force=force)
    finally:
        engine.close()


def _check(transaction: Transaction, path: Path) -> None:
    try:
        migrations.check(transaction)
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            raise StoreOutdated("the file holds no wakegate store; run `wakegate db migrate`") from error
        raise
    shut.refuse_unfinished(transaction, str(path))


def _refuse_closed(transaction: Transaction, path: Path) -> None:
    """Raise for a store that nothing may be written to: a backup, or one that was copied elsewhere."""
    if transaction.first("backup_made_at") is not None:
        raise backup_mark.of(path)
    shut.refuse_moved(transaction, str(path))
