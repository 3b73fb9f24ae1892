"""Opening a store in PostgreSQL."""

import asyncio

from psycopg.errors import UndefinedTable

from wakegate_schema import clock
from wakegate_schema.store import migrations, shut
from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.errors import StoreMissing
from wakegate_schema.store.group_commit import GroupCommit
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.modes import Mode
from wakegate_schema.store.postgresql.doorbell import PostgresDoorbell
from wakegate_schema.store.postgresql.engine import PostgresEngine
from wakegate_schema.store.postgresql.fitness import refuse_unfit
from wakegate_schema.store.postgresql.session import PostgresSession
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.reader import Reader
from wakegate_schema.store.store import Store
from wakegate_schema.store.transaction import Transaction
from wakegate_schema.store.verbs import notifications

_BESIDE = frozenset({notifications.record})
"""The verbs whose batches run beside each other: receivers do not wait for one another."""


async def open_postgresql(location: StoreLocation, *, mode: Mode) -> Store:
    """Open the store in a database. See `open_store`; only `migrate_postgresql` makes one."""
    queries = load_store(POSTGRESQL)
    reader = Reader(PostgresSession(location, queries))
    try:
        await reader.read(_check, location)
        if mode != "read":
            await reader.read(shut.refuse_moved, location.url)
    except BaseException:
        await reader.close()
        raise
    writer = GroupCommit(PostgresEngine(location, queries), beside=_BESIDE)
    return Store(writer, reader, PostgresDoorbell(reader))


async def migrate_postgresql(location: StoreLocation, *, force: bool = False) -> list[str]:
    """Make the tables, or bring them up to date. See `migrate_store`."""
    engine = PostgresEngine(location, load_store(POSTGRESQL), maintaining=True)
    try:
        return await asyncio.to_thread(migrations.migrate, engine, clock.now(), POSTGRESQL, force=force)
    finally:
        engine.close()


def _check(transaction: Transaction, location: StoreLocation) -> None:
    refuse_unfit(transaction, location)
    try:
        migrations.check(transaction, POSTGRESQL)
    except UndefinedTable as error:
        raise StoreMissing(
            f"there is no store in the database at {location.url}; run `wakegate db migrate` to make one there, or"
            " name another by WAKEGATE_DATABASE or --config"
        ) from error
    shut.refuse_unfinished(transaction, location.url)
