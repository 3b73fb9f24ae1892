"""Opening a store by its URL."""

import asyncio
import importlib.util

from wakegate_schema.queue import EmbeddedRinger, open_ringer
from wakegate_schema.store.errors import StoreError
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.modes import Mode
from wakegate_schema.store.sqlite.opening import migrate_sqlite, open_sqlite
from wakegate_schema.store.store import Store


async def open_store(where: StoreLocation | str, *, mode: Mode) -> Store:
    """Open a store.

    Args:
        where: its location; of an SQLite file the URL is enough: `sqlite:///relative.db`, `sqlite:////absolute.db`.
        mode: `service` makes and migrates an SQLite file; `use` and `read` only take a store that is there and up to
            date. In PostgreSQL only `migrate_store` makes and migrates.

    Raises:
        StoreMissing: there is none, and this mode makes none.
        StoreOutdated: its schema is not this program's.
        StoreMisplaced: it may not lie there.
        RestoreInterrupted: it is half replaced by another.
        StoreIsBackup: it is a backup, and this mode does not only read.
        StoreMoved: it was copied elsewhere, and this mode does not only read.
        StoreUnavailable: it cannot be opened now, or is being restored.
        StoreError: its URL needs an extra that is not installed.
        QueueError: its queue needs an extra that is not installed.
        SecretFileError: the queue's password cannot be read.
        ValueError: the URL has another form.
    """
    location = StoreLocation(where) if isinstance(where, str) else where
    ringer = EmbeddedRinger() if mode == "read" else open_ringer(location.queue)
    store = await _open(location, mode)
    store.rings(ringer)
    return store


async def migrate_store(where: StoreLocation | str, *, force: bool = False) -> list[str]:
    """Make a store, or bring it up to date; return the names of the migrations applied.

    With `force` also while workers live that could not work on it any more. Raises as `open_store`, and
    `WorkersTooOld`.
    """
    location = StoreLocation(where) if isinstance(where, str) else where
    if not location.is_postgresql:
        return await asyncio.to_thread(migrate_sqlite, location, force=force)
    require_extra()
    from wakegate_schema.store.postgresql.opening import migrate_postgresql

    return await migrate_postgresql(location, force=force)


async def _open(location: StoreLocation, mode: Mode) -> Store:
    if not location.is_postgresql:
        return await open_sqlite(location, mode=mode)
    require_extra()
    from wakegate_schema.store.postgresql.opening import open_postgresql

    return await open_postgresql(location, mode=mode)


def require_extra() -> None:
    """Raise `StoreError` unless what PostgreSQL needs is installed."""
    if importlib.util.find_spec("psycopg") is None:
        raise StoreError(
            "a postgresql:// store needs the extra `postgres`: pip install 'wakegate[postgres]'", reason="extra_missing"
        )
