"""The doctor and real trouble in stores: damage, age, room, calls that wait, and services that do not run."""

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest

from support.clinic import Diagnosis, at_desk, changed, diagnose, diagnosed, plant, planted, suspended
from support.console import Console
from support.desk import Desk, new_id
from support.disks import small_disk, with_mounts
from support.ports import free_port
from support.receivers import stalled
from support.rooms import on_disk
from wakegate_receiver.refusals_file import write_refusals
from wakegate_receiver.service import receiving
from wakegate_receiver.stopping import Stop
from wakegate_schema import clock, clock_mark
from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND
from wakegate_schema.records import Challenge
from wakegate_schema.settings import load_settings
from wakegate_schema.store import Store, open_store
from wakegate_schema.store.sqlite.connection import WAL_SIZE_LIMIT


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that the doctor has nothing to say of."""
    with on_disk() as folder:
        yield folder


def offline(console: Console) -> Diagnosis:
    """What the doctor says of the store alone."""
    return diagnosed(console, "--offline")


def database(console: Console) -> Path:
    """The store's file."""
    return console.directory / "wakegate.db"


def test_a_store_at_rest_is_whole_and_up_to_date(console: Console) -> None:
    planted(console)
    said = offline(console)
    for check in ("file", "schema", "integrity", "mode", "wal", "room", "epoch", "doubts", "stuck", "wakes", "groups"):
        assert said.one(f"store.{check}").verdict == "ok"
    assert said.one("store.anomalies").verdict == "ok"
    assert "there never was a sign of one" in said.of("store.worker", "warning")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DELETE FROM migration WHERE number = 3", "lacks migration 3"),
        ("INSERT INTO migration (number, name, applied_at) VALUES (99, 'later', 0)", "made by a newer wakegate"),
    ],
)
def test_a_schema_of_another_version_is_a_problem_and_nothing_else_is_read(
    console: Console, change: str, words: str
) -> None:
    planted(console)
    with closing(sqlite3.connect(database(console), isolation_level=None)) as connection:
        connection.execute(change)
    said = offline(console)
    assert words in said.of("store.schema", "problem")
    assert "store.doubts" not in said.found


def test_damage_is_a_problem(console: Console) -> None:
    planted(console)
    with database(console).open("r+b") as file:
        file.seek(5 * 4096)
        file.write(os.urandom(4096 * 20))
    said = offline(console)
    assert "damaged" in said.of("store.integrity", "problem")


def test_text_that_is_not_utf_8_is_damage(console: Console) -> None:
    planted(console)
    path = console.directory / "wakegate.db"
    data = path.read_bytes()
    assert b"tableanomalyanomaly" in data
    path.write_bytes(
        data.replace(b"tableanomalyanomaly", b"table\xff\xfeomalyanomaly").replace(
            b"TABLE anomaly (", b"TABLE (anomaly "
        )
    )
    said = diagnosed(console, "--offline")
    assert "not UTF-8" in said.of("store.file", "problem")
    assert "the check itself failed" not in said.ran.out


def test_a_pipe_in_the_place_of_a_lock_holds_nobody_up(console: Console) -> None:
    planted(console)
    lock = console.directory / "wakegate.db-open"
    lock.unlink(missing_ok=True)
    os.mkfifo(lock, 0o600)
    assert diagnosed(console, "--offline").one("store.file").verdict in ("ok", "warning")


def test_a_database_whose_link_leads_back_to_itself_is_refused(console: Console) -> None:
    (console.directory / "wakegate.db").symlink_to("wakegate.db")
    said = diagnosed(console, "--offline")
    assert (said.ran.code, "leads back to itself" in said.of("settings.load", "problem")) == (2, True)


def test_what_is_no_database_is_a_problem(console: Console) -> None:
    database(console).write_bytes(b"no database at all" * 500)
    assert offline(console).one("store.file").verdict == "problem"


def test_a_backup_in_the_stores_place_is_a_problem(console: Console) -> None:
    planted(console)
    assert console("db", "backup", "copy.db").code == 0
    database(console).unlink()
    (console.directory / "copy.db").rename(database(console))
    assert "is a backup" in offline(console).of("store.file", "problem")


@pytest.mark.parametrize("marker", ['{"aside": "x", "was_there": true}', "not json", "{}"])
def test_an_interrupted_restore_is_a_problem(console: Console, marker: str) -> None:
    planted(console)
    (console.directory / "wakegate.db-restoring").write_text(marker)
    assert offline(console).one("store.file").verdict == "problem"


def test_a_large_wal_is_warned_of(console: Console) -> None:
    planted(console)
    with closing(sqlite3.connect(database(console))) as connection:
        connection.execute("UPDATE probe SET writes = writes + 1")
        connection.commit()
        os.truncate(f"{database(console)}-wal", WAL_SIZE_LIMIT + 1)
        said = offline(console)
    assert "somebody keeps a transaction open" in said.of("store.wal", "warning")


@with_mounts
async def test_a_full_disk_is_a_problem_and_one_in_memory_is_warned_of() -> None:
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as folder, small_disk(Path(folder, "disk"), 4096) as disk:
        console = await asyncio.to_thread(_alone, disk.path)
        assert "are free in" in console.of("store.room", "problem")
        assert "lies on tmpfs" in console.of("store.file", "warning")


def _alone(folder: Path) -> Diagnosis:
    """Make a store and ask the doctor, in processes of their own: a test that mounts has no fixtures."""
    from support.clinic import read
    from support.console import run

    assert run(folder, "db", "migrate").code == 0
    return read(run(folder, "doctor", "--json", "--offline"))


def test_calls_of_an_older_epoch_are_warned_of(console: Console) -> None:
    suspended(console, planted(console))
    changed(console, lambda store: store.raise_epoch("restored", "test", clock.now()))
    said = offline(console)
    assert "1 call of an older epoch" in said.of("store.epoch", "warning")
    assert "wakegate execution release" in said.of("store.epoch", "warning")


def test_calls_in_doubt_are_warned_of(console: Console) -> None:
    at_desk(console, planted(console), lambda desk: desk.in_doubt())
    assert "1 call is in doubt" in offline(console).of("store.doubts", "warning")


def test_overdue_work_without_a_worker_is_a_problem(console: Console) -> None:
    suspended(console, planted(console), at=clock.now() - HOUR)
    said = offline(console).of("store.worker", "problem")
    assert "work is overdue: looks at calls for 60 min" in said
    assert "wakegate worker" in said


def test_a_workers_sign_of_life_tells_a_busy_one_from_none(console: Console) -> None:
    found = planted(console)
    changed(console, lambda store: store.mark_clock("host", clock.now()))
    assert "at work on host a moment ago" in offline(console).of("store.worker", "ok")
    suspended(console, found, at=clock.now() - HOUR)
    assert "although somebody works" in offline(console).of("store.worker", "warning")


def test_a_call_that_cannot_go_on_is_told_with_its_reason_and_what_to_do(console: Console) -> None:
    async def stumble(desk: Desk) -> None:
        saved = await desk.save()
        lease = (await desk.lease(saved.execution_id)).lease
        await desk.store.release(lease, clock.now() + MINUTE, "connection_refused", clock.now())

    at_desk(console, planted(console), stumble)
    said = offline(console).of("store.stuck", "warning")
    assert "1 call cannot go on now: connection_refused → nothing listens at the provider's address" in said


def test_a_framework_that_no_living_worker_resumes_is_a_problem(console: Console) -> None:
    found = planted(console)

    async def adopt(desk: Desk) -> None:
        await desk.store.record(desk.arrival(new_id(), registration_id=found.registration.registration_id))
        at = clock.now() + 6 * SECOND
        await desk.store.adopt_unmatched(at)
        (adoption,) = await desk.store.lease_adoptions([], 1, at, at + MINUTE)
        await desk.store.adoption_learned(adoption.lease, "langgraph", "{}", at)

    at_desk(console, found, adopt)
    said = offline(console).of("store.resumers", "problem")
    assert "1 adopted request waits for langgraph" in said
    assert "WAKEGATE_RESUMERS" in said


def test_wakes_that_were_given_up_are_warned_of(console: Console) -> None:
    async def lose(desk: Desk) -> None:
        saved = await desk.save(wake="shop")
        await desk.store.abandon(saved.execution_id, "closed", "harness", clock.now())
        (wake,) = await desk.store.lease_wakes(1, clock.now(), clock.now() + MINUTE)
        await desk.store.wake_failed(wake.wake_id, None, "http_500")

    at_desk(console, planted(console), lose)
    assert "1 wake could not be delivered" in offline(console).of("store.wakes", "warning")


def test_a_group_that_only_wants_its_seal_is_warned_of(console: Console) -> None:
    async def forget(desk: Desk) -> None:
        saved = await desk.save(wake="shop", group="turn-1")
        await desk.store.abandon(saved.execution_id, "closed", "harness", clock.now())

    at_desk(console, planted(console), forget)
    assert "1 group of calls is resolved and not sealed" in offline(console).of("store.groups", "warning")


def test_an_anomaly_is_warned_of(console: Console) -> None:
    found = planted(console)

    async def contradict(store: Store) -> None:
        desk = Desk(store, found.instance.provider, found.instance.instance_id, found.registration.registration_id)
        arrival = desk.arrival(new_id())
        await store.record(arrival)
        await store.record(replace(arrival, body=b'{"other": 1}'))

    changed(console, contradict)
    assert "1 anomaly in the last day" in offline(console).of("store.anomalies", "warning")


def test_refusals_of_the_last_hour_are_told_with_their_likely_cause(console: Console) -> None:
    planted(console)
    now = clock.now()
    ages = {"timestamp_off": 0, "wrong_path": 0, "wrong_signature": 2 * HOUR}
    entries = [
        {"at": now - age, "status": 401, "reason": reason, "bytes": 9, "body_sha256": None, "remote": None,
         "registration_id": None, "instance_id": None}
        for reason, age in ages.items()
    ]  # fmt: skip
    write_refusals(console.directory / "refusals.jsonl", entries)
    said = offline(console)
    assert "1 delivery was refused in the last hour: timestamp_off → this host's clock" in said.of(
        "store.refusals", "warning"
    )
    assert "1 other request was refused" in said.of("store.refusals", "note")
    assert "wrong_signature" not in said.ran.out


def test_a_clock_that_went_back_is_a_problem(console: Console) -> None:
    planted(console)
    changed(console, lambda store: store.mark_clock(clock_mark.host_name(), clock.now() + HOUR))
    said = offline(console).of("clock.host", "problem")
    assert "behind what it has shown" in said
    assert "wakegate clock reset" in said


async def test_a_receiver_that_is_ready_is_fine_and_one_whose_store_hangs_is_a_problem(console: Console) -> None:
    await plant(console)
    console.set("WAKEGATE_LISTEN", f"127.0.0.1:{free_port()}")
    settings = load_settings()
    async with receiving(settings, Stop()):
        assert (await diagnose(console, "--offline")).one("store.receiver").verdict == "ok"
        with stalled(settings):
            said = await diagnose(console, "--offline")
    assert "not ready: store_timeout" in said.of("store.receiver", "problem")


async def test_what_listens_at_the_control_address_and_is_no_receiver_is_a_problem(console: Console) -> None:
    await plant(console)
    async with silent(console.directory / "wakegate.sock"):
        said = await diagnose(console, "--offline")
    assert "does not answer as a receiver" in said.of("store.receiver", "problem")


@asynccontextmanager
async def silent(path: Path) -> AsyncIterator[None]:
    """Answer every connection with nothing that means anything."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(answer, path):
        yield


@pytest.mark.parametrize(
    ("left", "verdict", "words"),
    [
        (None, "note", "when its credential ends is not known"),
        (-HOUR, "problem", "ended 60 min ago"),
        (3 * DAY, "warning", "ends in 3 days"),
        (30 * DAY, "ok", "is good for 30 days"),
    ],
)
def test_a_credential_is_judged_by_its_end(console: Console, left: int | None, verdict: str, words: str) -> None:
    planted(console, credential_expires_at=None if left is None else clock.now() + left + SECOND)
    assert words in offline(console).of("instances.credentials", verdict)


def test_no_instance_yet_is_noted(console: Console) -> None:
    changed(console, lambda store: store.probe())
    assert "there is no instance yet" in offline(console).of("instances.credentials", "note")


def test_a_parked_instance_is_a_problem(console: Console) -> None:
    found = planted(console).instance
    sealed = found.sealed_credential or b""
    changed(console, lambda store: store.park_instance(found.provider, found.instance_id, "credential_refused", sealed))
    assert "desk is parked (credential_refused)" in offline(console).of("instances.parked", "problem")


def test_an_instance_without_a_live_registration_is_a_problem(console: Console) -> None:
    found = planted(console)
    changed(console, lambda store: store.retire_registration(found.registration.registration_id, clock.now()))
    assert "desk has no live registration" in offline(console).of("instances.registrations", "problem")


@pytest.mark.parametrize(("left", "verdict", "words"), [(-MINUTE, "warning", "in time"), (HOUR, "note", "waits for")])
def test_a_registration_that_nobody_has_verified_is_told(console: Console, left: int, verdict: str, words: str) -> None:
    found = planted(console).registration
    expected = replace(
        found, registration_id=new_id(), name="late", state="expected", expected_until=clock.now() + left
    )
    changed(console, lambda store: store.add_registration(expected))
    assert words in offline(console).of("instances.registrations", verdict)


def test_an_unfinished_rotation_is_warned_of_and_an_overlap_noted(console: Console) -> None:
    found = planted(console)
    new = replace(found.registration, registration_id=new_id(), instance_id=found.instance.instance_id, replacing=True)
    changed(console, lambda store: store.add_registration(new))
    assert "a rotation is not finished" in offline(console).of("instances.rotation", "warning")

    async def finish(store: Store) -> None:
        await store.bind(Challenge(new.registration_id, found.instance.instance_id, clock.now()))
        await store.put_in_force(new.registration_id, clock.now() + 10 * MINUTE)

    changed(console, finish)
    assert "still taken for 10 min" in offline(console).of("instances.rotation", "note")


async def test_a_store_in_use_is_read_beside_its_services(console: Console) -> None:
    await plant(console)
    async with await open_store(console.database, mode="service") as store:
        await store.probe()
        said = await diagnose(console, "--offline")
    assert "journal mode WAL;" in said.of("store.mode", "ok")
    assert said.one("store.integrity").verdict == "ok"
