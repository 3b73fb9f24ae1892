"""The store as a file: who makes it, who refuses it, and what happens when it goes away."""

import asyncio
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from support.desk import Desk, new_id
from wakegate_schema import clock
from wakegate_schema.store import StoreMisplaced, StoreMissing, StoreOutdated, StoreUnavailable, open_store
from wakegate_schema.store.opening import Mode, sqlite_path
from wakegate_schema.store.placement import filesystem


@pytest.mark.parametrize("mode", ["use", "read"])
async def test_only_a_service_makes_a_store(database: str, mode: Mode) -> None:
    with pytest.raises(StoreMissing, match="no store at"):
        await open_store(database, mode=mode)
    assert not sqlite_path(database).exists()


async def test_the_file_is_for_owner_and_group(database: str) -> None:
    old = os.umask(0o077)
    try:
        await (await open_store(database, mode="service")).close()
    finally:
        os.umask(old)
    assert stat.S_IMODE(sqlite_path(database).stat().st_mode) == 0o660


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreMisplaced, match="nowhere"):
        await open_store(f"sqlite:///{tmp_path}/nowhere/wakegate.db", mode="service")


async def test_a_store_of_a_newer_program_is_refused(database: str) -> None:
    await (await open_store(database, mode="service")).close()
    with closing(sqlite3.connect(sqlite_path(database))) as raw, raw:
        raw.execute("INSERT INTO migration VALUES (9999, 'future', 0)")
    for mode in ("service", "use", "read"):
        with pytest.raises(StoreOutdated, match="newer wakegate"):
            await open_store(database, mode=mode)


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be looked at" * 100])
async def test_a_file_that_is_no_store_is_refused(database: str, content: bytes) -> None:
    sqlite_path(database).write_bytes(content)
    with pytest.raises((StoreOutdated, StoreUnavailable)):
        await open_store(database, mode="use")


async def test_services_that_start_together_make_one_store(database: str) -> None:
    stores = await asyncio.gather(*(open_store(database, mode="service") for _ in range(8)))
    for opened in stores:
        await opened.probe()
        await opened.close()


async def test_a_vanished_file_acknowledges_nothing_and_its_return_heals(desk: Desk, database: str) -> None:
    path = sqlite_path(database)
    aside = path.with_name("aside.db")
    await desk.store.record(desk.arrival(new_id()))
    path.rename(aside)
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await desk.store.record(desk.arrival(new_id()))
    aside.rename(path)
    assert (await desk.store.record(desk.arrival(new_id()))).kind == "saved"


async def test_a_writer_that_takes_no_turns_is_waited_for(desk: Desk, database: str) -> None:
    with closing(sqlite3.connect(sqlite_path(database), isolation_level=None)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        recording = asyncio.ensure_future(desk.store.record(desk.arrival(new_id())))
        done, _ = await asyncio.wait([recording], timeout=0.3)
        assert not done
        raw.execute("COMMIT")
        assert (await recording).kind == "saved"


async def test_a_change_is_noticed_by_everybody_and_missed_by_nobody(desk: Desk, database: str) -> None:
    async with await open_store(database, mode="use") as other:
        seen = await other.changed(-1, 0)
        await desk.store.probe()
        first, second = await asyncio.gather(other.changed(seen, 5), other.changed(seen, 5))
        assert first == second != seen
        assert await other.changed(first, 0.05) == first


async def test_a_closed_store_says_so(database: str) -> None:
    opened = await open_store(database, mode="service")
    await opened.close()
    await opened.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await opened.probe()
    with pytest.raises(StoreUnavailable, match="closed"):
        await opened.registrations()


async def test_what_waits_is_committed_before_the_store_closes(database: str) -> None:
    opened = await open_store(database, mode="service")
    desk = await Desk(opened).open()
    arrivals = [asyncio.ensure_future(opened.record(desk.arrival(new_id()))) for _ in range(100)]
    await asyncio.sleep(0)
    await opened.close()
    assert {(await arrival).kind for arrival in arrivals} == {"saved"}


async def test_too_much_waiting_is_refused_at_once(desk: Desk) -> None:
    at = clock.now()
    answers = await asyncio.gather(*(desk.store.mark_clock("host", at) for _ in range(12_000)), return_exceptions=True)
    refused = [a for a in answers if isinstance(a, StoreUnavailable)]
    assert 0 < len(refused) < 12_000
    assert {r.reason for r in refused} == {"overloaded"}


def test_the_filesystem_of_a_folder_is_that_of_its_nearest_mount() -> None:
    mounts = (
        "22 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "30 22 0:40 / /srv/my\\040data rw shared:1 - nfs4 host:/x rw\n"
        "31 30 0:41 / /srv/my\\040data/local rw - xfs /dev/vdb rw\n"
    )
    assert filesystem(Path("/srv/my data/deep"), mounts) == "nfs4"
    assert filesystem(Path("/srv/my data/local/deep"), mounts) == "xfs"
    assert filesystem(Path("/srv/my database"), mounts) == "ext4"
    assert filesystem(Path("/srv"), "") == ""
