"""A store's site, for its maintenance in whichever database: a snapshot to read, an engine to write, and to be alone.

It works past the doors that keep everybody else from a store that is closed, or not whole yet.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wakegate_schema import clock
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import migrations
from wakegate_schema.store.dialects import POSTGRESQL, SQLITE, Dialect
from wakegate_schema.store.engine import Engine
from wakegate_schema.store.errors import StoreMissing
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.opening import require_extra
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite import backup_mark, interruption, placement
from wakegate_schema.store.sqlite.connection import create
from wakegate_schema.store.sqlite.engine import SqliteEngine
from wakegate_schema.store.sqlite.presence import Presence
from wakegate_schema.store.sqlite.snapshot import sqlite_snapshot
from wakegate_schema.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Site:
    """A store under maintenance."""

    location: StoreLocation

    @property
    def dialect(self) -> Dialect:
        """Its database's."""
        return POSTGRESQL if self.location.is_postgresql else SQLITE

    @property
    def path(self) -> Path:
        """SQLite's file."""
        return sqlite_path(self.location.url).absolute()

    @property
    def file(self) -> Path | None:
        """SQLite's file, past every link; None for a store in PostgreSQL."""
        return None if self.location.is_postgresql else self.path.resolve()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep everybody else from opening an SQLite file. In PostgreSQL whoever writes is told when the store is shut.

        Raises:
            StoreInUse: somebody has it open.
            StoreMisplaced, StoreIsBackup, RestoreInterrupted: nothing may work on it.
        """
        if self.location.is_postgresql:
            yield
            return
        placement.check(self.path)
        if not self.path.exists():
            placement.check_creator(self.path)
        backup_mark.refuse(self.path, reading=False)
        presence = Presence.alone(self.path)
        try:
            interruption.refuse(self.path)
            yield
        finally:
            presence.close()

    def require(self) -> None:
        """Raise `StoreMissing` when there is no file."""
        if not self.location.is_postgresql and not self.path.is_file():
            raise StoreMissing(f"there is no store at {self.path}; nothing was changed")

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """Open it for writing, and let go at the end."""
        engine = self._engine()
        try:
            yield engine
        finally:
            engine.close()

    def migrate(self, engine: Engine) -> None:
        """Make it, or bring it up to date, as `migrate_store` does while nobody is alone with it."""
        if not self.location.is_postgresql and not self.path.exists():
            create(self.path)
        migrations.migrate(engine, clock.now(), self.dialect)

    @contextmanager
    def snapshot(self) -> Iterator[Transaction]:
        """Read it as it is at one moment. Raises `StoreUnavailable` when it cannot be read."""
        if not self.location.is_postgresql:
            with sqlite_snapshot(self.path) as tx:
                yield tx
            return
        require_extra()
        from wakegate_schema.store.postgresql.snapshot import postgresql_snapshot

        with postgresql_snapshot(self.location) as tx:
            yield tx

    def _engine(self) -> Engine:
        if not self.location.is_postgresql:
            return SqliteEngine(self.path, load_store(SQLITE))
        require_extra()
        from wakegate_schema.store.postgresql.engine import PostgresEngine

        return PostgresEngine(self.location, load_store(POSTGRESQL), maintaining=True)
