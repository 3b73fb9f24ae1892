"""A backup takes the store's place whole or not at all, and nothing of before starts again by itself."""

import asyncio
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.desk import Desk, approved
from wakegate_schema import clock
from wakegate_schema.states import State
from wakegate_schema.store import (
    BackupUnusable,
    ClockBehind,
    RestoreInterrupted,
    StoreInUse,
    StoreIsBackup,
    StoreMisplaced,
    StoreMissing,
    StoreOutdated,
    StoreUnavailable,
    group_commit,
    migrations,
    open_store,
)
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.modes import Mode
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite.backup import back_up
from wakegate_schema.store.sqlite.presence import Presence
from wakegate_schema.store.sqlite.restore import Restored, restore
from wakegate_schema.store.sqlite.turn import TurnLock

pytestmark = pytest.mark.file

MODES: tuple[Mode, ...] = ("service", "use", "read")
FILES = ("", "-wal", "-shm")


@dataclass(frozen=True)
class Past:
    """A store, and a backup of it from before its call was started."""

    folder: Path
    backup: Path
    execution_id: str

    @property
    def database(self) -> Path:
        """The store's file."""
        return self.folder / "wakegate.db"


def url(path: Path) -> str:
    """The URL of a database file."""
    return f"sqlite:///{path}"


def restored(past: Past, file: Path | None = None, steps: list[str] | None = None) -> Restored:
    """Restore the backup, or another file."""
    note = (lambda _: None) if steps is None else steps.append
    return restore(past.database, file or past.backup, actor="operator:mika", at=clock.now(), step=note)


def backed_up(database: Path, file: Path, *, force: bool = False) -> None:
    """Make a backup."""
    back_up(database, file, at=clock.now(), force=force, progress=lambda *_: None)


@pytest.fixture
async def past(tmp_path: Path) -> Past:
    """A store as a killed process leaves it: what came after the backup is in its WAL alone."""
    live, folder = tmp_path / "live", tmp_path / "here"
    live.mkdir()
    folder.mkdir()
    backup = tmp_path / "backup.db"
    async with await open_store(url(live / "wakegate.db"), mode="service") as store:
        desk = await Desk(store).open()
        waiting = await desk.waiting()
        backed_up(live / "wakegate.db", backup)
        with closing(sqlite3.connect(live / "wakegate.db", isolation_level=None)) as reader:
            reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM execution").fetchall()  # so the WAL is not taken in
            now = clock.now()
            assert await store.start(waiting.lease, approved(), now, now + clock.MINUTE)
            for end in FILES:
                shutil.copyfile(live / f"wakegate.db{end}", folder / f"wakegate.db{end}")
    return Past(folder, backup, waiting.execution_id)


async def stands(past: Past, mode: Mode = "use") -> tuple[State, str | None, int]:
    """What the store says of the call: its state, its problem, and the epoch that the store is in."""
    async with await open_store(url(past.database), mode=mode) as store:
        found = await store.execution(past.execution_id)
        return found.state, found.problem, (await store.epoch()).number


OLD = (State.STARTED, None, 1)
NEW = (State.WAITING, "older_epoch", 2)


async def kept(aside: Path | None) -> State:
    """What the store that was replaced says of the call."""
    assert aside is not None
    with closing(sqlite3.connect(f"{aside.as_uri()}?mode=ro", uri=True)) as raw:
        return State(raw.execute("SELECT state FROM execution").fetchone()[0])


async def test_a_restore_holds_what_had_not_started_and_keeps_the_store_that_was_there(past: Past) -> None:
    done = restored(past)
    assert await stands(past) == NEW
    assert await kept(done.aside) is State.STARTED, "with what was in its WAL"
    assert done.aside is not None
    assert {path.name for path in past.folder.iterdir()} == {"wakegate.db", "wakegate.db-open", done.aside.name}


async def test_the_store_that_was_kept_can_be_restored_again(past: Past) -> None:
    done = restored(past)
    back = restored(past, done.aside)
    assert back.epoch.number == 3
    assert back.made_at is None
    assert (await stands(past))[0] is State.STARTED


async def test_the_same_backup_restored_twice_makes_two_epochs(past: Past) -> None:
    assert [restored(past).epoch.number for _ in range(3)] == [2, 3, 4]


@pytest.mark.parametrize("mode", MODES)
async def test_nothing_is_restored_while_anybody_has_the_store_open(past: Past, mode: Mode) -> None:
    async with await open_store(url(past.database), mode=mode):
        with pytest.raises(
            StoreInUse, match=rf"in use( by process [\d, ]*\b{os.getpid()}\b[\d, ]*)?; stop the services"
        ):
            restored(past)
    assert await stands(past) == OLD
    restored(past)


async def test_a_store_whose_writer_hangs_is_still_in_use(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed or not: what hangs may write yet."""
    monkeypatch.setattr(group_commit, "PATIENCE_S", 0.3)
    store = await open_store(url(past.database), mode="use")
    with TurnLock(past.database, mode=0o660):
        probing = asyncio.ensure_future(store.probe())
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreInUse):
            restored(past)
        with pytest.raises(StoreUnavailable):
            await probing
    await store.close()
    restored(past)


async def test_nothing_is_restored_while_a_shell_has_the_file_open(past: Past) -> None:
    with closing(sqlite3.connect(past.database)) as shell:
        shell.execute("SELECT COUNT(*) FROM execution").fetchall()
        with pytest.raises(StoreInUse, match="another program"):
            restored(past)
    assert await stands(past) == OLD


@pytest.mark.parametrize("mode", MODES)
async def test_nobody_opens_a_store_that_is_being_restored(past: Past, mode: Mode) -> None:
    presence = Presence.alone(past.database)
    try:
        with pytest.raises(StoreUnavailable, match="is being restored"):
            await open_store(url(past.database), mode=mode)
    finally:
        presence.close()
    assert await stands(past) == OLD


def test_a_fork_does_not_keep_the_presence_of_its_dead_parent(past: Past) -> None:
    program = (
        "import os, sys, time, pathlib; from wakegate_schema.store.sqlite.presence import Presence\n"
        "here = Presence.shared(pathlib.Path(sys.argv[1]), reading=False)\n"
        "child = os.fork()\n"
        "if child == 0: time.sleep(60)\n"
        "print(child, flush=True); os._exit(0)"
    )
    with (past.folder.parent / "output").open("w+") as output:
        subprocess.run([sys.executable, "-c", program, str(past.database)], check=True, stdout=output, timeout=20)
        output.seek(0)
        child = int(output.read())
    try:
        os.kill(child, 0)
        Presence.alone(past.database).close()
    finally:
        os.kill(child, signal.SIGKILL)


async def test_the_mode_and_the_group_of_the_store_are_kept(past: Past) -> None:
    past.database.chmod(0o640)
    group = past.database.stat().st_gid
    restored(past)
    found = past.database.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_gid) == (0o640, group)


async def test_a_store_is_restored_where_there_was_none(past: Past) -> None:
    for end in FILES:
        (past.folder / f"wakegate.db{end}").unlink()
    done = restored(past)
    assert done.aside is None
    assert await stands(past) == NEW
    assert stat.S_IMODE(past.database.stat().st_mode) == 0o660


def test_root_makes_no_store_in_the_folder_of_another(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    for end in FILES:
        (past.folder / f"wakegate.db{end}").unlink()
    if os.geteuid() == 0:
        os.chown(past.folder, 12345, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(StoreMisplaced, match="run as that user"):
        restored(past)


async def test_what_root_restores_belongs_to_whom_the_store_belonged(past: Past) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    for path in (past.folder, past.database):
        os.chown(path, 12345, 54321)
    past.database.chmod(0o660)
    restored(past)
    found = past.database.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 54321, 0o660)
    beside = {path: path.stat() for path in past.folder.glob("wakegate.db*")}
    assert {path.name for path, found in beside.items() if found.st_uid != 12345} == set()


STATEMENTS = {
    "newer": "INSERT INTO migration (number, name, applied_at) VALUES (9999, 'future', 0)",
    "orphans": "DELETE FROM instance",
    "from the future": "UPDATE backup SET made_at = made_at + 3600000000",
}


def spoilt(backup: Path, file: Path, how: str) -> None:
    """Make of a backup a file that must not be restored."""
    shutil.copyfile(backup, file)
    if how == "damaged":
        with file.open("r+b") as raw:
            raw.seek(3 * 4096)
            raw.write(os.urandom(12 * 4096))
    elif how == "truncated":
        os.truncate(file, 5 * 4096)
    elif how == "no database":
        file.write_bytes(os.urandom(10_000))
    elif how == "another's":
        file.unlink()
        changed(file, "CREATE TABLE migration_plans (a)")
    elif how == "another's, with a table of ours":
        file.unlink()
        changed(file, "CREATE TABLE migration AS SELECT 1 AS number, '' AS name, 0 AS applied_at")
    else:
        changed(file, STATEMENTS[how])


def changed(file: Path, statement: str) -> None:
    """Change a file past the store."""
    with closing(sqlite3.connect(file)) as raw, raw:
        raw.execute(statement)


@pytest.mark.parametrize(
    "how",
    [
        *("damaged", "truncated", "no database", "another's", "another's, with a table of ours"),
        *("newer", "orphans", "from the future"),
    ],
)
async def test_what_is_no_sound_backup_changes_nothing(past: Past, tmp_path: Path, how: str) -> None:
    file = tmp_path / "spoilt.db"
    spoilt(past.backup, file, how)
    with pytest.raises((BackupUnusable, ClockBehind, StoreOutdated)):
        restored(past, file)
    assert await stands(past) == OLD
    assert not any("-restor" in path.name or "-replaced" in path.name for path in past.folder.iterdir())


async def test_a_clock_behind_the_store_that_is_there_restores_nothing(past: Past) -> None:
    """The new epoch would begin before calls that have run, and their keys would start them again."""
    async with await open_store(url(past.database), mode="use") as store:
        await store.mark_clock("this-host", clock.now() + clock.HOUR)
    with pytest.raises(ClockBehind, match=r"the store at .* was used"):
        restored(past)
    assert await stands(past) == OLD


async def test_a_store_of_an_older_program_is_brought_up_to_date(past: Past, tmp_path: Path) -> None:
    file = tmp_path / "first.db"
    with closing(sqlite3.connect(file)) as raw, raw:
        raw.execute(load_store(SQLITE)["migration_ledger"])
        for statement in migrations.available()[1].statements:
            raw.execute(statement)
        raw.execute("INSERT INTO migration VALUES (1, 'main_job', 0)")
    assert restored(past, file).epoch.number == 2
    async with await open_store(url(past.database), mode="use") as store:
        assert await store.instances() == []


async def test_a_file_is_restored_with_the_wal_beside_it(past: Past, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    for end in FILES:
        shutil.copyfile(past.folder / f"wakegate.db{end}", tmp_path / f"copy.db{end}")
    restored(past, copy)
    assert (await stands(past))[0] is State.STARTED
    assert (tmp_path / "copy.db-wal").stat().st_size > 0, "it was only read"


# A backup in the place of a store


@pytest.mark.parametrize("mode", ["service", "use"])
async def test_nothing_works_on_a_backup(past: Past, mode: Mode) -> None:
    content = past.backup.read_bytes()
    with pytest.raises(StoreIsBackup, match="wakegate db restore"):
        await open_store(url(past.backup), mode=mode)
    assert past.backup.read_bytes() == content
    assert [path.name for path in past.backup.parent.glob("backup.db*")] == ["backup.db"]


async def test_a_backup_can_be_looked_at(past: Past) -> None:
    content = past.backup.read_bytes()
    async with await open_store(url(past.backup), mode="read") as store:
        assert (await store.execution(past.execution_id)).state is State.WAITING
        with pytest.raises(StoreIsBackup):
            await store.probe()
    assert past.backup.read_bytes() == content


@pytest.mark.parametrize("mode", MODES)
async def test_a_backup_copied_over_the_store_beside_its_wal_is_left_as_it_is(past: Past, mode: Mode) -> None:
    shutil.copyfile(past.backup, past.database)
    with pytest.raises(StoreIsBackup):
        await open_store(url(past.database), mode=mode)
    assert past.database.read_bytes() == past.backup.read_bytes()
    restored(past, past.database)
    assert await stands(past) == NEW


async def test_the_mark_in_the_table_is_seen_too(past: Past) -> None:
    restored(past)
    changed(past.database, "INSERT INTO backup VALUES (1, 0)")
    with pytest.raises(StoreIsBackup):
        await stands(past)


async def test_a_running_service_writes_nothing_into_a_backup_that_took_its_file(past: Past) -> None:
    async with await open_store(url(past.database), mode="service") as store:
        await store.probe()
        shutil.copyfile(past.backup, past.folder / "new")
        (past.folder / "new").rename(past.database)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await store.probe()
    assert past.database.read_bytes() == past.backup.read_bytes()


# Killed at every step


def killed(backup: Path, deaths: list[tuple[Path, str]]) -> int:
    """Kill a restore in each folder at its step; return how many have died of it."""
    program = Path(__file__).with_name("restoring.py")
    done = subprocess.run(
        [sys.executable, str(program), str(backup), *(f"{folder}={step}" for folder, step in deaths)],
        check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return int(done.stdout.split()[1])


def as_before(past: Past, old: str) -> None:
    """Make of the store what a restore may find."""
    if old == "corrupt":
        past.database.write_bytes(b"no database any more" * 500)
    elif old == "only its WAL":
        past.database.unlink()


@pytest.mark.parametrize("old", ["whole", "corrupt", "only its WAL"])
async def test_a_restore_killed_at_any_step_leaves_the_old_store_the_new_one_or_a_refusal(
    past: Past, tmp_path: Path, old: str
) -> None:
    as_before(past, old)
    before = {end: (past.folder / f"wakegate.db{end}") for end in FILES}
    content = {end: path.read_bytes() for end, path in before.items() if path.exists()}
    folders = shutil.copytree(past.folder, tmp_path / "rehearsal")
    steps: list[str] = []
    restored(Past(folders, past.backup, past.execution_id), steps=steps)
    deaths = []
    for number, step in enumerate(steps):
        deaths.append((shutil.copytree(past.folder, tmp_path / f"death-{number}"), step))
    assert killed(past.backup, deaths) == len(steps) > 8
    refused = 0
    for folder, step in deaths:
        dead = Past(folder, past.backup, past.execution_id)
        refused += await one_store(dead, old, content, step)
        restored(dead)
        assert_held(await stands(dead), step)
        asides = [path for path in folder.iterdir() if "-replaced-" in path.name]
        assert old != "whole" or any([await kept(aside) is State.STARTED for aside in asides]), step
        assert not any("-restor" in path.name for path in folder.iterdir()), step
    assert refused >= 1


async def one_store(dead: Past, old: str, content: dict[str, bytes], step: str) -> bool:
    """Check what lies there is the old store, the new one, or refused by everybody; return whether it is refused."""
    names = {path.name for path in dead.folder.iterdir()}
    try:
        async with await open_store(url(dead.database), mode="use"):
            pass
    except RestoreInterrupted:
        for mode in MODES:
            with pytest.raises(RestoreInterrupted, match="wakegate db restore"):
                await open_store(url(dead.database), mode=mode)
        assert {path.name for path in dead.folder.iterdir()} == names, "nobody made anything"
        return True
    except (StoreMissing, StoreUnavailable, StoreOutdated):
        assert old != "whole", step
        for end, was in content.items():
            if end != "-shm":
                assert (dead.folder / f"wakegate.db{end}").read_bytes() == was, step
        return False
    found = await stands(dead)
    if old != "whole" or found != OLD:
        assert_held(found, step)
    return False


def assert_held(found: tuple[State, str | None, int], step: str) -> None:
    """Check that it is the backup, restored; each time that it was makes an epoch."""
    assert found[:2] == NEW[:2], step
    assert found[2] >= NEW[2], step


async def test_a_restore_killed_twice_is_finished_by_the_third(past: Past, tmp_path: Path) -> None:
    steps: list[str] = []
    restored(Past(shutil.copytree(past.folder, tmp_path / "rehearsal"), past.backup, past.execution_id), steps=steps)
    last = steps[steps.index("mark") :]
    pairs = [(first, second) for first in last for second in ("resume", "name", "unmark")]
    folders = [shutil.copytree(past.folder, tmp_path / f"death-{number}") for number in range(len(pairs))]
    for deaths in zip(*pairs, strict=True):
        assert killed(past.backup, list(zip(folders, deaths, strict=True))) == len(pairs)
    for folder in folders:
        dead = Past(folder, past.backup, past.execution_id)
        await one_store(dead, "whole", {}, folder.name)
        restored(dead)
        assert_held(await stands(dead), folder.name)


def test_a_restore_that_fails_midway_puts_everything_back(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(step: str) -> None:
        if step == "name":
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="gone"):
        restore(past.database, past.backup, actor="operator:mika", at=clock.now(), step=fail)
    assert asyncio.run(stands(past)) == OLD
