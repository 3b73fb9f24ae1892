"""A migration that shuts out the release before waits until none of its workers lives, unless it is forced."""

from pathlib import Path

import pytest

from wakegate_schema import clock
from wakegate_schema.records import RegisteredWorker
from wakegate_schema.store import WorkersTooOld, migrate_store, migrations, open_store
from wakegate_schema.store.dialects import SQLITE, Dialect
from wakegate_schema.store.migrations import Migration

NEXT = 99


@pytest.fixture(params=["sqlite", "postgresql"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of this release, on which a worker of this release lives."""
    is_sqlite = request.param == "sqlite"
    name: str = f"sqlite:///{tmp_path}/wakegate.db" if is_sqlite else request.getfixturevalue("postgres_url")
    await migrate_store(name)
    await show(name, migration=migrations.latest())
    return name


async def show(url: str, *, migration: int, ago: int = 0) -> None:
    """Register a worker that knows this migration and was last seen so many µs ago."""
    at = clock.now() - ago
    async with await open_store(url, mode="use") as store:
        worker = RegisteredWorker("w", "host-1", "default", "0.2.0", migration, 60, at, at)
        await store.remove_worker("w")
        await store.show_worker(worker, at)


def later(monkeypatch: pytest.MonkeyPatch, *, oldest: int) -> None:
    """Let there be a later migration, which programs that know `oldest` can work with."""
    known = migrations.available
    made = Migration(NEXT, "later", ("UPDATE probe SET writes = 0",), oldest)

    def available(dialect: Dialect = SQLITE) -> dict[int, Migration]:
        return known(dialect) | {NEXT: made}

    monkeypatch.setattr(migrations, "available", available)


async def test_it_waits_for_the_workers_that_it_would_shut_out(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch, oldest=NEXT)
    with pytest.raises(WorkersTooOld, match=r"a worker on host-1 runs wakegate 0\.2\.0.*--force"):
        await migrate_store(url)
    assert await migrate_store(url, force=True) == ["later"]


async def test_a_silent_worker_and_one_that_knows_it_do_not_hold_it_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await show(url, migration=migrations.latest(), ago=clock.MINUTE)
    later(monkeypatch, oldest=NEXT)
    assert await migrate_store(url) == ["later"]
    await show(url, migration=NEXT)
    assert await migrate_store(url) == []


async def test_a_migration_that_lets_them_work_on_does_not_wait(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch, oldest=migrations.latest())
    assert await migrate_store(url) == ["later"]
