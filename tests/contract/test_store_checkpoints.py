"""The WAL is taken into the database beside the commits, and by a commit where the thread beside has left something."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.desk import Desk, new_id
from wakegate_schema.store import Store, open_store
from wakegate_schema.store.sqlite import checkpoints, wal
from wakegate_schema.store.sqlite.checkpoints import BESIDE_PAGES, ROWS
from wakegate_schema.store.sqlite.connection import connect, create
from wakegate_schema.store.sqlite.file import DatabaseFile

pytestmark = pytest.mark.file

PAGE = 4096
BODY = b"x" * 4000


async def record(store: Store, desk: Desk, count: int = ROWS) -> None:
    """Record so many notifications of a page each."""
    await asyncio.gather(*(store.record(desk.arrival(new_id(), body=BODY)) for _ in range(count)))


def beside() -> list[threading.Thread]:
    """The threads that take in."""
    return [each for each in threading.enumerate() if each.name == "wakegate-checkpoints"]


@contextmanager
def reading(database: Path) -> Iterator[None]:
    """Keep others from taking anything in: a reader that began with what there is now."""
    with closing(sqlite3.connect(database, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM notification").fetchall()
        yield


async def test_what_a_service_commits_comes_into_the_database_long_before_a_commit_would_take_it_in(
    store: Store, desk: Desk, database: str
) -> None:
    path = Path(database.removeprefix("sqlite:///"))
    before = path.stat().st_size
    while path.stat().st_size < before + ROWS * PAGE // 2:
        await record(store, desk)
        assert wal.size(path) < BESIDE_PAGES * PAGE
        await asyncio.sleep(0.01)
    assert len(beside()) == 1
    await store.close()
    assert beside() == []


async def test_a_harness_that_opens_the_store_has_no_such_thread(store: Store, desk: Desk, database: str) -> None:
    async with await open_store(database, mode="use") as other:
        await record(other, Desk(other, desk.provider, desk.instance_id, desk.registration_id))
        assert beside() == []


async def test_what_a_reader_held_up_is_taken_in_once_it_is_gone_and_the_log_begins_anew(
    store: Store, desk: Desk, database: str
) -> None:
    path = Path(database.removeprefix("sqlite:///"))
    with reading(path):
        while wal.size(path) < 2 * BESIDE_PAGES * PAGE:
            await record(store, desk)
    for _ in range(30):  # how soon depends on when the thread beside comes to it
        before = wal.size(path)
        for _ in range(4):
            await record(store, desk)  # 64 bodies, each on a page of its own, and the pages of the indexes
        if wal.size(path) <= before:
            return  # it is written from its beginning again
    pytest.fail("it grew on, whatever was committed")


def test_an_end_that_comes_during_a_long_checkpoint_is_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, inside, take_in = tmp_path / "a.db", threading.Event(), checkpoints._take_in

    def begun(file: DatabaseFile) -> int:
        inside.set()
        return take_in(file)

    monkeypatch.setattr(checkpoints, "_take_in", begun)
    create(path)
    with closing(connect(path, checkpoint_pages=100 * BESIDE_PAGES)) as writer:
        writer.execute("CREATE TABLE page (body)")
        writer.execute("BEGIN")
        writer.executemany("INSERT INTO page VALUES (zeroblob(?))", [(PAGE,)] * (BESIDE_PAGES + 1))
        writer.execute("COMMIT")
        taking = checkpoints.Checkpoints(path)
        taking.committed(ROWS)
        assert inside.wait(30)
        closer = threading.Thread(target=taking.close, daemon=True)
        closer.start()
        closer.join(30)
        assert not closer.is_alive()
        assert beside() == []
