"""What is in force on the connections of a store in SQLite: durability and guards, whatever the defaults are."""

from collections.abc import Sequence

import pytest

from wakegate_schema.store import Store
from wakegate_schema.store.sqlite.checkpoints import BESIDE_PAGES
from wakegate_schema.store.sqlite.connection import BUSY_TIMEOUT_MS, CHECKPOINT_PAGES, WAL_SIZE_LIMIT
from wakegate_schema.store.transaction import Transaction

pytestmark = pytest.mark.file

FULL, MEMORY = 2, 2
ALL: dict[str, object] = {
    "busy_timeout": BUSY_TIMEOUT_MS,
    "cache_size": -2000,
    "foreign_keys": 1,
    "fullfsync": 0,
    "journal_mode": "wal",
    "journal_size_limit": WAL_SIZE_LIMIT,
    "locking_mode": "normal",
    "mmap_size": 0,
    "recursive_triggers": 1,
    "synchronous": FULL,
    "temp_store": MEMORY,
}


def in_force(tx: Transaction, names: Sequence[str]) -> dict[str, object]:
    """Ask the connection that a verb runs on."""
    shown = (tx._connection.execute(f"PRAGMA {name}").fetchone() for name in names)  # type: ignore[attr-defined]
    return {name: row[0] for name, row in zip(names, shown, strict=True)}


async def test_every_commit_is_synced_and_every_connection_has_its_guards(store: Store) -> None:
    names = [*ALL, "query_only", "wal_autocheckpoint"]
    written = await store._writer.do(lambda tx, items: [in_force(tx, names) for _ in items], None)
    assert written == ALL | {"query_only": 0, "wal_autocheckpoint": BESIDE_PAGES}
    assert await store._reader.read(in_force, names) == ALL | {"query_only": 1, "wal_autocheckpoint": CHECKPOINT_PAGES}
