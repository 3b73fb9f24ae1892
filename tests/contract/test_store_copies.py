"""A store is copied whole into another database, and only one of the two is ever in use."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from support.contents import KEYS, contents, furnish
from support.desk import Desk
from support.raw import open_raw
from wakegate_schema import clock
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import (
    BackupUnusable,
    ClockBehind,
    CopyFailed,
    NotAllowed,
    StoreDenied,
    StoreFilling,
    StoreInUse,
    StoreIsBackup,
    StoreLocation,
    StoreMoved,
    StoreNotEmpty,
    StoreOutdated,
    migrate_store,
    open_store,
)
from wakegate_schema.store.copying import transfer
from wakegate_schema.store.copying.copying import Copied, copy, reopen
from wakegate_schema.store.examination import examine
from wakegate_schema.store.postgresql.backup import back_up_postgresql
from wakegate_schema.store.postgresql.restore import restore_into
from wakegate_schema.store.sqlite.backup import back_up
from wakegate_schema.store.sqlite.backup_mark import is_marked
from wakegate_schema.store.sqlite.restore import restore

BY_AN_EPOCH = {"epoch", "execution"}
"""The tables that a new epoch changes."""


def copied(source: str, target: str, step: Callable[[str], None] = lambda _: None) -> Copied | None:
    """Copy a store."""
    return copy(
        StoreLocation(source),
        StoreLocation(target),
        actor="operator:mika",
        at=clock.now(),
        step=step,
        progress=lambda _done, _total: None,
    )


class Stop(Exception):
    """Stands for a process that dies."""


def stopped_at(fatal: str) -> Callable[[str], None]:
    """Return what stops a command when that step comes."""

    def step(name: str) -> None:
        if name == fatal:
            raise Stop

    return step


def given_up(source: str, target: str) -> bool:
    """Give up a copy."""
    return reopen(StoreLocation(source), StoreLocation(target))


def steady(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """What is in a store and no epoch changes."""
    return {table: rows for table, rows in contents(url).items() if table not in BY_AN_EPOCH}


def faults(url: str) -> list[tuple[str, str]]:
    """What is wrong with a store."""
    found = examine(StoreLocation(url), step=lambda _: None).faults
    return sorted((fault.kind, fault.subject) for fault in found)


def next_notification(url: str) -> int:
    """The number that a store gives next."""
    with closing(open_raw(url)) as raw, raw.undone():
        raw.execute(
            "INSERT INTO notification (provider, instance_id, event_id, request_id, registration_id, state, created_at,"
            " received_at, keep_until, body) VALUES ('p', 'i', 'next', 'r', 'x', 'received', 1, 1, 9, CAST('' AS BLOB))"
        )
        ((number,),) = raw.rows("SELECT number FROM notification WHERE event_id = 'next'")
    return int(number)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The URL of a store in a file, with records of every kind."""
    url = f"sqlite:///{tmp_path}/wakegate.db"
    asyncio.run(migrate_store(url))
    furnish(url)
    return url


async def opened(url: str) -> str:
    """Return how a store answers who wants to work on it."""
    try:
        async with await open_store(url, mode="use") as store:
            return f"epoch {(await store.epoch()).number}"
    except (StoreMoved, StoreFilling) as error:
        return error.reason


async def test_every_table_is_copied_or_about_one_database_alone(file: str, postgres_url: str) -> None:
    await migrate_store(postgres_url)
    queries = {
        file: "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
        postgres_url: "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()",
    }
    assert set(transfer.TABLES) == set(KEYS)
    for url, query in queries.items():
        with closing(open_raw(url)) as raw:
            assert {name for (name,) in raw.rows(query)} == {*transfer.TABLES, *transfer.EQUAL, *transfer.LEFT}


async def test_a_store_goes_from_database_to_database_and_is_the_same(
    file: str, postgres_url: str, empty_store_url: str, tmp_path: Path
) -> None:
    before, wrong, number = contents(file), faults(file), next_notification(file)
    assert all(before.values())
    assert number == max(row[0] for row in before["notification"]) + 2
    there, last = file, f"sqlite:///{tmp_path}/again.db"
    for epoch, url in enumerate((postgres_url, empty_store_url, last), 3):
        was = contents(there)
        done = copied(there, url)
        assert done is not None
        assert {table: content.rows for table, content in done.contents.items()} == {
            table: len(rows) for table, rows in was.items()
        }
        assert steady(url) == {table: rows for table, rows in before.items() if table not in BY_AN_EPOCH}
        now = contents(url)
        assert (now["epoch"][:-1], now["epoch"][-1][:3]) == (was["epoch"], (epoch, "copied", "operator:mika"))
        assert next_notification(url) == number + epoch - 3  # PostgreSQL does not take back one that was asked for
        assert faults(url) == wrong
        assert [await opened(each) for each in (there, url)] == ["store_moved", f"epoch {epoch}"]
        there = url


async def test_a_copy_forgets_nothing_and_starts_nothing(desk: Desk, database: str, postgres_url: str) -> None:
    waiting, done = await desk.waiting(), await desk.started()
    arrival = desk.arrival("r")
    await desk.store.record(arrival)
    await desk.store.close()
    assert copied(database, postgres_url) is not None
    async with await open_store(postgres_url, mode="use") as store:
        assert [found.event_id for _, found in await store.notifications()] == [arrival.event_id]
        assert [found.execution_id for _, found in await store.held_executions()] == [waiting.execution_id]
        at = clock.now() + clock.HOUR
        assert await store.lease_due("worker-2", 100, at, at + clock.MINUTE) == []
        await store.sweep(at)
        assert (await store.execution(done.execution_id)).state == "in_doubt"
        await store.release_held(waiting.execution_id, actor="operator:mika", note="found out", at=clock.now())
        assert len(await store.lease_due("worker-2", 100, at, at + clock.MINUTE)) == 1
    async with await open_store(database, mode="read") as closed:  # what is closed can be looked at
        assert len(await closed.executions()) == 2


async def test_the_same_copy_again_is_no_error_and_changes_nothing(file: str, postgres_url: str) -> None:
    assert copied(file, postgres_url) is not None
    before = contents(postgres_url)
    assert copied(file, postgres_url) is None
    with pytest.raises(NotAllowed, match="has ended"):
        given_up(file, postgres_url)
    with pytest.raises(StoreMoved):
        copied(file, f"{file}-2")
    assert contents(postgres_url) == before
    assert await opened(file) == "store_moved"


async def test_who_has_a_store_in_postgresql_open_is_shut_out_when_it_is_copied(
    empty_store_url: str, tmp_path: Path
) -> None:
    target = f"sqlite:///{tmp_path}/new.db"
    async with await open_store(empty_store_url, mode="use") as store:
        await store.probe()
        copied(empty_store_url, target)
        with pytest.raises(StoreMoved, match=r"new\.db"):
            await store.probe()
    with closing(open_raw(empty_store_url)) as raw:
        assert raw.rows("SELECT writes FROM probe") == [(1,)]


async def test_who_has_the_target_open_is_shut_out_until_it_is_whole(file: str, empty_store_url: str) -> None:
    async with await open_store(empty_store_url, mode="use") as store:
        refused: list[str] = []

        def step(name: str) -> None:
            if name == "write":
                refused.append(asyncio.run(opened(empty_store_url)))

        await asyncio.to_thread(copied, file, empty_store_url, step)
        assert refused == ["store_filling"]
        await store.probe()
        assert (await store.epoch()).reason == "copied"


async def test_a_copy_that_was_given_up_cannot_end(empty_store_url: str, tmp_path: Path) -> None:
    furnish(empty_store_url)
    before, target = contents(empty_store_url), f"sqlite:///{tmp_path}/new.db"

    with pytest.raises(Stop):
        copied(empty_store_url, target, stopped_at("write"))
    assert [await opened(url) for url in (empty_store_url, target)] == ["store_moved", "store_filling"]
    assert given_up(empty_store_url, target)
    assert [await opened(url) for url in (empty_store_url, target)] == ["epoch 2", "epoch 1"]
    with pytest.raises(NotAllowed, match="never begun"):
        given_up(empty_store_url, target)
    assert contents(empty_store_url) == before
    assert copied(empty_store_url, target) is not None


async def test_a_process_that_still_copies_writes_nothing_after_it_was_given_up(
    empty_store_url: str, postgres_url: str
) -> None:
    furnish(empty_store_url)

    def give_up(name: str) -> None:
        if name == "write":
            assert given_up(empty_store_url, postgres_url)

    with pytest.raises((NotAllowed, StoreFilling), match="nothing was written"):
        copied(empty_store_url, postgres_url, give_up)
    assert [await opened(url) for url in (empty_store_url, postgres_url)] == ["epoch 2", "epoch 1"]


async def test_a_target_with_anything_in_it_is_refused(file: str, empty_store_url: str) -> None:
    async with await open_store(empty_store_url, mode="use") as store:
        await store.mark_clock("host", 1)
    with pytest.raises(StoreNotEmpty, match="Make a new, empty database"):
        copied(file, empty_store_url)
    assert await opened(file) == "epoch 2"


async def test_a_target_that_waits_for_another_store_is_refused(file: str, postgres_url: str, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    await migrate_store(other)
    with pytest.raises(Stop):
        copied(file, postgres_url, stopped_at("write"))
    with pytest.raises(StoreFilling, match="run the same command again"):
        copied(other, postgres_url)
    assert copied(file, postgres_url) is not None


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("INSERT INTO clock_mark VALUES ('ahead', 9000000000000000)", ClockBehind),
        ("UPDATE anomaly SET detail = 'a' || char(0) || 'b'", CopyFailed),
        ("DELETE FROM migration WHERE number = 5", StoreOutdated),
        ("INSERT INTO migration VALUES (9999, 'later', 1, 4)", StoreOutdated),
        ("INSERT INTO backup VALUES (1, 1)", StoreIsBackup),
    ],
)
async def test_what_cannot_be_copied_is_not_closed(
    file: str, postgres_url: str, change: str, error: type[Exception]
) -> None:
    with closing(sqlite3.connect(sqlite_path(file))) as raw, raw:
        raw.execute(change)
    with pytest.raises(error) as refused:
        copied(file, postgres_url)
    if error is CopyFailed:
        assert "table anomaly" in str(refused.value)
    with closing(open_raw(file)) as found:
        assert found.rows("SELECT * FROM moved") == []


async def test_a_file_that_somebody_has_open_is_not_copied(file: str, postgres_url: str) -> None:
    async with await open_store(file, mode="read"):
        with pytest.raises(StoreInUse):
            copied(file, postgres_url)
    with pytest.raises(NotAllowed, match="are one store"):
        copied(file, f"{file.replace('/wakegate.db', '/../')}{Path(file).parent.name}/wakegate.db")
    assert await opened(file) == "epoch 2"


async def test_a_row_that_is_lost_on_the_way_undoes_the_copy(
    file: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = "DELETE FROM wake WHERE wake_id IN (SELECT MIN(wake_id) FROM wake)"
    numbering = transfer._go_on_numbering

    def lose(source: Any, target: Any) -> None:
        numbering(source, target)
        target.run(wake)

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "_go_on_numbering", lose)
        with pytest.raises(CopyFailed, match="table wake"):
            copied(file, postgres_url)
    assert await opened(postgres_url) == "store_filling"
    with closing(open_raw(postgres_url)) as raw:
        assert raw.rows("SELECT COUNT(*) FROM execution") == [(0,)]
    assert given_up(file, postgres_url)
    assert await opened(file) == "epoch 2"


async def test_a_backup_of_postgresql_is_restored_into_either_database(
    empty_store_url: str, postgres_url: str, tmp_path: Path
) -> None:
    furnish(empty_store_url)
    backup, here = tmp_path / "backup.db", tmp_path / "wakegate.db"
    before = contents(empty_store_url)
    made = back_up_postgresql(
        StoreLocation(empty_store_url), backup, at=clock.now(), progress=lambda _done, _total: None
    )
    assert is_marked(backup)
    assert (made.size, backup.stat().st_mode & 0o777) == (backup.stat().st_size, 0o600)
    assert await opened(empty_store_url) == "epoch 2"
    done = restore_into(
        StoreLocation(postgres_url), backup, actor="operator:mika", at=clock.now(), above=6, step=lambda _: None,
        progress=lambda _done, _total: None,
    )  # fmt: skip
    restore(here, backup, actor="operator:mika", at=clock.now(), step=lambda _: None)
    assert (done.epoch.number, done.epoch.reason, done.made_at is None) == (7, "restored", False)
    for url in (postgres_url, f"sqlite:///{here}"):
        assert steady(url) == {table: rows for table, rows in before.items() if table not in BY_AN_EPOCH}
        assert faults(url) == faults(empty_store_url)
    assert [await opened(url) for url in (postgres_url, f"sqlite:///{here}")] == ["epoch 7", "epoch 3"]
    with pytest.raises(StoreNotEmpty, match="WAKEGATE_DATABASE"):
        restore_into(
            StoreLocation(postgres_url), backup, actor="operator:mika", at=clock.now(), step=lambda _: None,
            progress=lambda _done, _total: None,
        )  # fmt: skip


async def test_a_restore_that_was_broken_off_leaves_a_store_that_is_shut_until_the_next(
    file: str, postgres_url: str, tmp_path: Path
) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    await migrate_store(other)

    def restored(url: str, step: Callable[[str], None]) -> None:
        restore_into(
            StoreLocation(postgres_url), sqlite_path(url), actor="operator:mika", at=clock.now(), step=step,
            progress=lambda _done, _total: None,
        )  # fmt: skip

    with pytest.raises(Stop):
        restored(other, stopped_at("write"))
    assert await opened(postgres_url) == "store_filling"
    with pytest.raises(NotAllowed):
        given_up(file, postgres_url)
    restored(file, stopped_at("never"))
    assert steady(postgres_url) == steady(file)


async def test_a_role_that_may_not_write_whole_rows_is_told_before_anything_is_closed(
    file: str, empty_store_url: str
) -> None:
    with closing(open_raw(empty_store_url)) as raw:
        raw.execute("DROP ROLE IF EXISTS wakegate_service")
        raw.execute("CREATE ROLE wakegate_service LOGIN")
        raw.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO wakegate_service")
        for grant, refusal in (("USAGE", "denied for schema"), ("CREATE", "must be owner")):
            raw.execute(f"GRANT {grant} ON SCHEMA public TO wakegate_service")
            with pytest.raises(StoreDenied, match=refusal):
                copied(file, empty_store_url.replace("postgres@", "wakegate_service@"))
        with pytest.raises(StoreDenied, match="CREATE on the database"):
            examine(StoreLocation(empty_store_url.replace("postgres@", "wakegate_service@")), step=lambda _: None)
        raw.execute("DROP OWNED BY wakegate_service")
        raw.execute("DROP ROLE wakegate_service")
    assert [await opened(url) for url in (file, empty_store_url)] == ["epoch 2", "epoch 1"]


async def test_a_closed_store_is_backed_up_and_restored_where_its_copy_is_lost(
    file: str, postgres_url: str, tmp_path: Path
) -> None:
    copied(file, postgres_url)
    backup, here = tmp_path / "backup.db", tmp_path / "again.db"
    back_up(sqlite_path(file), backup, at=clock.now(), progress=lambda _done, _total: None)
    restore(here, backup, actor="operator:mika", at=clock.now(), above=3, step=lambda _: None)
    assert await opened(f"sqlite:///{here}") == "epoch 4"


async def test_a_file_that_is_only_being_filled_is_not_restored(file: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(sqlite_path(file))) as raw, raw:
        raw.execute("INSERT INTO filling VALUES (1, 1, 'x', 'y', 1)")
    with pytest.raises(BackupUnusable, match="no whole store"):
        restore(tmp_path / "new.db", sqlite_path(file), actor="operator:mika", at=clock.now(), step=lambda _: None)
