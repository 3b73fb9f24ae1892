"""The ledger says what a program must know to work on a store."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from support.raw import open_raw
from wakegate_schema.store import StoreOutdated, migrations, open_store
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.opening import migrate_store
from wakegate_schema.store.queries import load_store

LEDGER = "SELECT number, oldest FROM migration ORDER BY number"


def before(path: Path, last: int) -> None:
    """Make a store as the release left it whose last migration is given."""
    with closing(open_raw(f"sqlite:///{path}")) as raw:
        raw.execute(load_store(SQLITE)["migration_ledger"])
        for migration in list(migrations.available(SQLITE).values())[:last]:
            for statement in migration.statements:
                raw.execute(statement)
            raw.execute(f"INSERT INTO migration VALUES ({migration.number}, '{migration.name}', 5)")


async def test_what_was_applied_before_the_ledger_said_it_asks_for_itself(tmp_path: Path) -> None:
    for last in (1, 2, 3):
        path = tmp_path / f"{last}.db"
        before(path, last)
        await (await open_store(f"sqlite:///{path}", mode="service")).close()
        with closing(sqlite3.connect(path)) as raw:
            assert raw.execute(LEDGER).fetchall()[:4] == [(1, 1), (2, 2), (3, 3), (4, 4)]


async def test_a_new_store_says_what_each_migration_asks_for(tmp_path: Path, postgres_url: str) -> None:
    for url, first in ((f"sqlite:///{tmp_path}/new.db", 1), (postgres_url, 4)):
        await migrate_store(url)
        with closing(open_raw(url)) as raw:
            assert raw.rows(LEDGER)[: 5 - first] == [(number, number) for number in range(first, 5)]


async def test_a_row_that_does_not_say_so_asks_for_everything(tmp_path: Path, postgres_url: str) -> None:
    for url in (f"sqlite:///{tmp_path}/new.db", postgres_url):
        await migrate_store(url)
        with closing(open_raw(url)) as raw:
            raw.execute("INSERT INTO migration (number, name, applied_at) VALUES (999, 'later', 5)")
        with pytest.raises(StoreOutdated, match="migration 999"):
            await open_store(url, mode="use")
