"""A backup is the store as it was at one moment, made while others write, whole or not there at all."""

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
from wakegate_schema import clock
from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import BackupUnusable, Store, open_store
from wakegate_schema.store.sqlite.backup import Backup, back_up
from wakegate_schema.store.sqlite.backup_mark import is_marked
from wakegate_schema.store.sqlite.file import wal_path

pytestmark = pytest.mark.file


def backed_up(database: str, file: Path, *, force: bool = False, told: list[int] | None = None) -> Backup:
    """Make a backup; `told` is filled with how many pages were copied."""
    copied = [] if told is None else told
    return back_up(
        sqlite_path(database), file, at=clock.now(), force=force, progress=lambda done, _: copied.append(done)
    )


def event_ids(file: Path) -> set[str]:
    """The notifications in a file."""
    with closing(sqlite3.connect(file)) as raw:
        return {row[0] for row in raw.execute("SELECT event_id FROM notification")}


async def test_a_backup_is_one_marked_file_for_its_owner(desk: Desk, database: str, tmp_path: Path) -> None:
    arrival = desk.arrival(new_id())
    await desk.store.record(arrival)
    file = tmp_path / "kept" / "backup.db"
    file.parent.mkdir()
    made = backed_up(database, file)
    assert [path.name for path in file.parent.iterdir()] == ["backup.db"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made.size == file.stat().st_size
    assert is_marked(file)
    assert not is_marked(sqlite_path(database))
    assert event_ids(file) == {arrival.event_id}
    with closing(sqlite3.connect(file)) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert raw.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


async def test_the_progress_is_told_to_its_end(desk: Desk, database: str, tmp_path: Path) -> None:
    await asyncio.gather(*(desk.store.record(desk.arrival(new_id(), body=b"x" * 4_000)) for _ in range(1_000)))
    told: list[tuple[int, int]] = []
    back_up(
        sqlite_path(database),
        tmp_path / "b.db",
        at=clock.now(),
        progress=lambda done, total: told.append((done, total)),
    )
    assert len(told) > 3
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1]


async def test_a_backup_replaces_nothing_without_force(desk: Desk, database: str, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    file.write_bytes(b"somebody's")
    with pytest.raises(BackupUnusable, match="--force"):
        backed_up(database, file)
    assert file.read_bytes() == b"somebody's"
    backed_up(database, file, force=True)
    assert is_marked(file)


OURS = ["", "-wal", "-shm", "-open", "-turn", "-restoring", "-replaced-20260101T000000Z"]
"""The ends of the names of the store's own files."""


@pytest.mark.parametrize("name", [*(f"wakegate.db{end}" for end in OURS), "link.db", "pipe", ".", "nowhere/b.db"])
async def test_a_backup_is_never_made_over_the_store_itself(
    desk: Desk, database: str, tmp_path: Path, name: str
) -> None:
    """Nor over its locks, the marker of a restore, a store that was kept, or what is no plain file."""
    (tmp_path / "link.db").symlink_to(sqlite_path(database))
    os.mkfifo(tmp_path / "pipe")
    names = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(BackupUnusable):
        backed_up(database, tmp_path / name, force=True)
    assert {path.name for path in tmp_path.iterdir()} == names
    await desk.store.probe()


async def test_a_full_disk_leaves_no_backup_and_no_remains(desk: Desk, database: str, tmp_path: Path) -> None:
    await asyncio.gather(*(desk.store.record(desk.arrival(new_id(), body=b"x" * 4_000)) for _ in range(500)))
    names = {path.name for path in tmp_path.iterdir()}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
        with pytest.raises(BackupUnusable, match="there is none"):
            backed_up(database, tmp_path / "backup.db")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path.name for path in tmp_path.iterdir()} == names


async def test_a_backup_under_load_is_one_moment_and_stops_no_acknowledgement(
    desk: Desk, store: Store, database: str, tmp_path: Path
) -> None:
    """What another process was told of before is in the backup, and it is told of more meanwhile."""
    for _ in range(20):
        await asyncio.gather(*(store.record(desk.arrival(new_id(), body=b"x" * 20_000)) for _ in range(100)))
    program = Path(__file__).with_name("acknowledger.py")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), database, desk.instance_id, desk.registration_id,
        stdout=subprocess.PIPE, env=environment,
    )  # fmt: skip
    acknowledged: list[str] = []

    async def listen() -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            if line.endswith(b"\n"):  # the last one may be cut off where its writer was killed
                acknowledged.append(line.split()[1].decode())

    listening = asyncio.ensure_future(listen())
    try:
        async with asyncio.timeout(30):
            while len(acknowledged) < 50:
                await asyncio.sleep(0.01)
        before = set(acknowledged)
        told: list[int] = []
        await asyncio.to_thread(backed_up, database, tmp_path / "backup.db", told=told)
        meanwhile = len(acknowledged) - len(before)
        async with asyncio.timeout(30):
            while len(acknowledged) < len(before) + meanwhile + 50:
                await asyncio.sleep(0.01)
    finally:
        process.kill()
        await process.wait()
        await listening
    found = event_ids(tmp_path / "backup.db")
    assert before <= found
    assert meanwhile > 0
    assert told == sorted(told), "no writer makes it begin again"
    assert not set(acknowledged[len(before) + meanwhile + 20 :]) & found, "what came later is not in it"
    await store.probe()
    with closing(sqlite3.connect(sqlite_path(database))) as raw:
        busy, _, _ = raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (busy, wal_path(sqlite_path(database)).stat().st_size) == (0, 0), "the WAL is taken in again"


async def test_a_backup_of_a_backup_is_a_copy(desk: Desk, database: str, tmp_path: Path) -> None:
    await desk.store.probe()
    backed_up(database, tmp_path / "one.db")
    with pytest.raises(BackupUnusable, match="copy the file"):
        backed_up(f"sqlite:///{tmp_path}/one.db", tmp_path / "two.db")


async def test_a_backup_of_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "wakegate.db").touch()
    with pytest.raises(BackupUnusable):
        backed_up(f"sqlite:///{tmp_path}/wakegate.db", tmp_path / "backup.db")
    assert not (tmp_path / "backup.db").exists()


async def test_a_backup_can_be_made_of_a_restored_store(database: str, tmp_path: Path) -> None:
    from wakegate_schema.store.sqlite.restore import restore

    async with await open_store(database, mode="service"):
        backed_up(database, tmp_path / "one.db")
    for number in (2, 3):
        done = restore(
            sqlite_path(database), tmp_path / "one.db", actor="operator:mika", at=clock.now(), step=lambda _: None
        )
        assert done.epoch.number == number
        async with await open_store(database, mode="use"):
            backed_up(database, tmp_path / "one.db", force=True)
