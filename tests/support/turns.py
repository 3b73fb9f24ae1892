"""The turn to write, held past the store."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite.turn import TurnLock


@contextmanager
def turn(database: str) -> Iterator[None]:
    """Hold the turn of a store as one of its writers does."""
    if database.startswith("sqlite:"):
        with TurnLock(sqlite_path(database), mode=0o660):
            yield
        return
    from wakegate_schema.store.postgresql.engine import PostgresEngine

    with closing(PostgresEngine(StoreLocation(database), load_store(POSTGRESQL))) as engine, engine.transaction():
        yield
