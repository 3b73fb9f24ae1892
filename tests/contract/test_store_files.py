"""The store as a file: who makes it, who refuses it, and what happens when it goes away."""

import asyncio
import os
import resource
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from support.desk import Desk, new_id
from support.processes import without_override
from support.raw import open_raw
from support.turns import turn
from wakegate_schema import clock
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import (
    StoreMisplaced,
    StoreMissing,
    StoreOutdated,
    StoreUnavailable,
    StoreVanished,
    group_commit,
    open_store,
)
from wakegate_schema.store.modes import Mode
from wakegate_schema.store.sqlite import placement
from wakegate_schema.store.sqlite.connection import connect
from wakegate_schema.store.sqlite.placement import filesystem


@pytest.mark.parametrize("mode", ["use", "read"])
@pytest.mark.file
async def test_only_a_service_makes_a_store(database: str, mode: Mode) -> None:
    with pytest.raises(StoreMissing, match="no store at"):
        await open_store(database, mode=mode)
    assert not sqlite_path(database).exists()


@pytest.mark.file
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
    with closing(open_raw(database)) as raw:
        raw.execute("INSERT INTO migration (number, name, applied_at) VALUES (9999, 'future', 0)")
    for mode in ("service", "use", "read"):
        with pytest.raises(StoreOutdated, match="newer wakegate"):
            await open_store(database, mode=mode)


@pytest.mark.parametrize("content", [b"", b"no database at all, but long enough to be looked at" * 100])
@pytest.mark.file
async def test_a_file_that_is_no_store_is_refused(database: str, content: bytes) -> None:
    sqlite_path(database).write_bytes(content)
    with pytest.raises((StoreOutdated, StoreUnavailable)):
        await open_store(database, mode="use")


async def test_services_that_start_together_make_one_store(database: str) -> None:
    stores = await asyncio.gather(*(open_store(database, mode="service") for _ in range(8)))
    for opened in stores:
        await opened.probe()
        await opened.close()


@pytest.mark.file
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


@pytest.mark.file
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


async def test_too_much_waiting_is_refused_at_once(desk: Desk, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "MAX_WAITING", 500)
    at = clock.now()
    with turn(database):
        calls = [asyncio.ensure_future(desk.store.mark_clock("host", at)) for _ in range(600 + group_commit.MAX_BATCH)]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*calls, return_exceptions=True)
    refused = [a for a in answers if isinstance(a, StoreUnavailable)]
    assert 0 < len(refused) < len(calls)
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


@pytest.mark.file
async def test_nothing_is_acknowledged_into_a_wal_that_was_removed(desk: Desk, database: str) -> None:
    path = sqlite_path(database)
    acknowledged = [desk.arrival(new_id()) for _ in range(3)]
    for arrival in acknowledged:
        await desk.store.record(arrival)
    await desk.store.changed(-1, 0)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    for _ in range(3):
        with pytest.raises(StoreVanished, match="stop every process"):
            await desk.store.record(desk.arrival(new_id()))
    await desk.store.close()
    async with await open_store(database, mode="read") as store:
        found = {n.event_id for _, n in await store.notifications()}
    assert {arrival.event_id for arrival in acknowledged} <= found, "the last to close saves what the WAL held"


@pytest.mark.file
async def test_a_replaced_file_is_the_one_that_is_read_written_and_listened_to(
    desk: Desk, database: str, tmp_path: Path
) -> None:
    other, path = tmp_path / "other.db", sqlite_path(database)
    async with await open_store(f"sqlite:///{other}", mode="service") as second:
        replacing = await Desk(second, name="replacing").open()
    here = Desk(desk.store, instance_id=replacing.instance_id, registration_id=replacing.registration_id)
    await desk.store.record(desk.arrival(new_id()))
    number = await desk.store.changed(-1, 0)
    assert len(await desk.store.notifications()) == 1
    other.rename(path)
    with pytest.raises(StoreUnavailable):
        await desk.store.probe()
    for use in (desk.store.probe, desk.store.instances):
        with pytest.raises(StoreVanished, match="still the old one's"):
            await use()
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink()
    assert [i.name for i in await desk.store.instances()] == ["replacing"]
    heard = await desk.store.changed(number, 5)
    assert heard != number
    assert (await desk.store.record(here.arrival(new_id()))).kind == "saved"
    assert await desk.store.changed(heard, 5) != heard


@pytest.mark.file
async def test_a_full_disk_refuses_and_room_heals(desk: Desk, database: str) -> None:
    path = sqlite_path(database)
    acknowledged = set()

    async def fill() -> None:
        for _ in range(100):
            arrival = desk.arrival(new_id(), body=b"x" * 4_000)
            await desk.store.record(arrival)
            acknowledged.add(arrival.event_id)

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    wal = path.with_name(path.name + "-wal").stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (wal + 100_000, hard))
        with pytest.raises(StoreUnavailable):
            await fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert acknowledged
    assert (await desk.store.record(desk.arrival(new_id()))).kind == "saved"
    assert acknowledged <= {n.event_id for _, n in await desk.store.notifications()}


@pytest.mark.file
async def test_the_wal_is_taken_in_again_once_a_long_reader_ends(desk: Desk, database: str) -> None:
    path = sqlite_path(database)
    wal = path.with_name(path.name + "-wal")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT COUNT(*) FROM notification").fetchall()
        for _ in range(40):
            await asyncio.gather(*(desk.store.record(desk.arrival(new_id(), body=b"x" * 4_000)) for _ in range(50)))
        grown = wal.stat().st_size
    for _ in range(20):
        await asyncio.gather(*(desk.store.record(desk.arrival(new_id(), body=b"x" * 4_000)) for _ in range(50)))
    assert grown > 8_000_000
    assert wal.stat().st_size < grown + 2_000_000, "used again from its beginning"


async def test_a_store_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    for mode in ("service", "use"):
        with pytest.raises(StoreUnavailable, match="cannot be used"):
            await open_store(f"sqlite:///{tmp_path}/{'x' * 300}.db", mode=mode)


@pytest.mark.parametrize("mode", ["use", "read"])
@pytest.mark.file
async def test_looking_at_a_foreign_database_leaves_it_as_it_is(database: str, mode: Mode) -> None:
    with closing(sqlite3.connect(sqlite_path(database))) as raw, raw:
        raw.execute("CREATE TABLE theirs (a)")
    before = sqlite_path(database).read_bytes()
    with pytest.raises(StoreOutdated):
        await open_store(database, mode=mode)
    assert sqlite_path(database).read_bytes() == before


async def test_a_relative_path_stays_the_same_file_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    async with await open_store("sqlite:///wakegate.db", mode="service") as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        await store.probe()
        assert await store.registrations() == []


async def test_who_waits_for_a_change_hears_that_the_store_is_closed(database: str) -> None:
    opened = await open_store(database, mode="service")
    waiting = asyncio.ensure_future(opened.changed(await opened.changed(-1, 0), 30))
    await asyncio.sleep(0)
    await opened.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await waiting


@pytest.mark.parametrize(
    "kind", ["nfs4", "cifs", "virtiofs", "9p", "fakeowner", "vboxsf", "fuse.grpcfuse", "fuse.sshfs"]
)
async def test_a_folder_that_is_not_on_a_local_disk_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"22 1 254:0 / / rw - ext4 /dev/vda rw\n30 22 0:40 / {folder} rw - {kind} there rw\n")
    monkeypatch.setattr(placement, "_MOUNTS", mounts)
    with pytest.raises(StoreMisplaced, match=kind):
        await open_store(f"sqlite:///{folder}/wakegate.db", mode="service")
    assert list(folder.iterdir()) == []
    await (await open_store(f"sqlite:///{tmp_path}/wakegate.db", mode="service")).close()


def test_every_commit_waits_until_the_disk_has_it(tmp_path: Path) -> None:
    path = tmp_path / "some.db"
    path.touch()
    with closing(connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2


READS_THEN_WRITES = """
import sqlite3, sys
from pathlib import Path
from wakegate_schema.store.sqlite.file import DatabaseFile

def write():
    try:
        other = DatabaseFile(path)
        other.connection().execute("CREATE TABLE IF NOT EXISTS scribble (x)")
        return "written"
    except sqlite3.OperationalError as error:
        return error
    finally:
        other.close()

path = Path(sys.argv[1])
reader = DatabaseFile(path, read_only=True)
reader.current().execute("SELECT COUNT(*) FROM notification").fetchall()
print(write(), flush=True)
input()
reader.current().execute("SELECT COUNT(*) FROM notification").fetchall()
print(write(), flush=True)
"""


@pytest.mark.file
async def test_a_reader_from_when_a_file_could_only_be_read_keeps_nobody_from_writing_it(
    desk: Desk, database: str
) -> None:
    """SQLite shares the WAL's index, opened as the first of a process found it, among all connections of a process."""
    path = sqlite_path(database)
    await desk.store.record(desk.arrival(new_id()))  # who holds the files open, as a second service
    files = [
        each for each in path.parent.iterdir() if each.name in {f"{path.name}{end}" for end in ("", "-wal", "-shm")}
    ]
    for each in files:
        each.chmod(0o440)
    with subprocess.Popen(
        [*without_override(), sys.executable, "-c", READS_THEN_WRITES, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert "readonly" in process.stdout.readline()
        for each in files:
            each.chmod(0o660)
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "written\n"
