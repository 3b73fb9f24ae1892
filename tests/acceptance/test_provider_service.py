"""The provider as a process of its own: start, stop, kill, and everything that must keep it from starting."""

import asyncio
import os
import signal
import socket
import sqlite3
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from support.processes import clean_environment
from support.provider import Caller, ReceivingEnd, provider, provider_settings
from wakegate_provider import ProviderStartError, decide, list_requests, serve, show_request
from wakegate_provider.store import open_store
from wakegate_schema.addresses import Address
from wakegate_schema.errors import WakegateError
from wakegate_schema.settings import Settings
from wakegate_schema.store.errors import StoreMissing, StoreOutdated


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = clean_environment()
    return kept | {
        "WAKEGATE_PROVIDER_LISTEN": "127.0.0.1:0",
        "WAKEGATE_PROVIDER_DATABASE": f"sqlite:///{folder}/provider.db",
        "WAKEGATE_LOG_FORMAT": "json",
        **more,
    }


async def start(folder: Path, **more: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "wakegate_provider",
        cwd=folder,
        env=environment(folder, **more),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def listening(process: asyncio.subprocess.Process) -> str:
    """Return the URL in the line that the process logs when it is ready."""
    assert process.stderr is not None
    async with asyncio.timeout(20):
        while line := (await process.stderr.readline()).decode():
            if '"action": "listening"' in line:
                return line.split('"url": "')[1].split('"')[0]
    raise AssertionError("the provider ended without listening")


@asynccontextmanager
async def process(folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, Caller]]:
    """Run the provider as a process, killed in the end if it still runs."""
    started = await start(folder)
    try:
        url = await listening(started)
        async with aiohttp.ClientSession() as session:
            yield started, Caller(url, (folder / "provisioner.token").read_text().strip(), session)
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def test_a_decision_recorded_before_a_kill_is_delivered_after_the_restart(tmp_path: Path) -> None:
    async with ReceivingEnd().serving() as end:
        async with process(tmp_path) as (running, caller):
            token = await caller.credential(end)
            request_id = await caller.request_id(token)
            end.statuses = [503] * 1000
            decided = decide(provider_settings(tmp_path), request_id, "approve", note="fine")
            await end.received(1)
            running.send_signal(signal.SIGKILL)
            await running.wait()
        refused = len(end.messages)
        end.statuses = []
        async with process(tmp_path) as (_, caller):
            await end.received(refused + 1)
            answered = await caller.call("GET", f"/v1/requests/{request_id}", token=token)
    assert answered.body == decided
    assert len({body for _, _, body in end.messages}) == 1


async def test_sigterm_answers_long_polls_and_ends_with_zero(tmp_path: Path) -> None:
    async with process(tmp_path) as (running, caller):
        token = await caller.credential()
        request_id = await caller.request_id(token)
        poll = asyncio.create_task(caller.call("GET", f"/v1/requests/{request_id}?wait=30s", token=token))
        await asyncio.sleep(0.2)
        began = time.monotonic()
        running.terminate()
        answered = await poll
        assert await running.wait() == 0
    assert (answered.status, answered.body["status"]) == (200, "pending")
    assert time.monotonic() - began < 5


async def test_a_stop_ends_within_ten_seconds_though_a_receiver_hangs(tmp_path: Path) -> None:
    async with ReceivingEnd().serving() as end, process(tmp_path) as (running, caller):
        token = await caller.credential(end)
        end.pause = 9.0
        decide(provider_settings(tmp_path), await caller.request_id(token), "deny")
        await asyncio.sleep(0.3)
        began = time.monotonic()
        running.terminate()
        assert await running.wait() == 0
        assert time.monotonic() - began < 10


async def test_files_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    async with provider(provider_settings(tmp_path)):
        for name in ("provider.db", "provider.db-wal", "provider.key", "provisioner.token"):
            assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


async def test_ready_is_told_the_base_url_with_the_real_port(tmp_path: Path) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()
    service = asyncio.create_task(serve(provider_settings(tmp_path), ready=told.put_nowait))
    url = await told.get()
    async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/requests") as response:
        assert response.status == 405
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        await service


async def refused(settings: Settings) -> str:
    """Return the one line with which the provider refuses to start."""
    with pytest.raises(WakegateError) as error:
        async with provider(settings):
            raise AssertionError("it started")
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.com"])
async def test_it_listens_on_loopback_only(tmp_path: Path, host: str) -> None:
    settings = provider_settings(tmp_path).model_copy(update={"provider_listen": Address(host, 0)})
    assert "loopback only" in await refused(settings)
    assert list(tmp_path.iterdir()) == []


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = Address(*taken.getsockname())
        message = await refused(provider_settings(tmp_path).model_copy(update={"provider_listen": address}))
    assert str(address) in message


async def test_a_malformed_policy_stops_the_start(tmp_path: Path) -> None:
    message = await refused(provider_settings(tmp_path, "[[rule]]\ntool = 1"))
    assert "policy.toml" in message
    assert not (tmp_path / "provider.db").exists()


async def test_a_malformed_policy_ends_the_process_with_two_and_one_line(tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text("[[rule]]\ntool = 1")
    process = await start(tmp_path, WAKEGATE_PROVIDER_POLICY_FILE=str(tmp_path / "policy.toml"))
    _, stderr = await process.communicate()
    assert process.returncode == 2
    assert len(stderr.decode().strip().splitlines()) == 1
    assert b"policy.toml" in stderr


async def test_a_token_that_others_may_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "provisioner.token").write_text("planted-provisioner-token\n")
    (tmp_path / "provisioner.token").chmod(0o644)
    message = await refused(provider_settings(tmp_path))
    assert "provisioner.token" in message
    assert "planted" not in message


async def test_a_named_token_file_must_exist(tmp_path: Path) -> None:
    settings = provider_settings(tmp_path).model_copy(
        update={"provider_provisioner_token_file": tmp_path / "given.token"}
    )
    assert "given.token" in await refused(settings)
    assert not (tmp_path / "given.token").exists()


async def test_a_lost_key_stops_the_start_and_no_new_one_is_made(tmp_path: Path) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        await caller.credential()
    (tmp_path / "provider.key").unlink()
    assert "provider.key" in await refused(settings)
    assert not (tmp_path / "provider.key").exists()


async def test_another_key_stops_the_start(tmp_path: Path) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        await caller.credential()
    other = tmp_path / "other"
    other.mkdir()
    async with provider(provider_settings(other)):
        (other / "provider.key").replace(tmp_path / "provider.key")
    assert "provider.key" in await refused(settings)


async def test_a_second_provider_on_the_same_store_is_refused(tmp_path: Path) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings):
        assert "another provider is running" in await refused(settings)


async def test_another_program_s_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "provider.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    assert "no provider store" in await refused(provider_settings(tmp_path))
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "provider.db").write_text("not a database, but long enough to look like something" * 20)
    assert "provider.db" in await refused(provider_settings(tmp_path))


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    assert str(folder) in await refused(
        provider_settings(tmp_path).model_copy(update={"provider_database": f"sqlite:///{folder}/provider.db"})
    )


def test_a_review_without_a_provider_says_so_and_makes_nothing(tmp_path: Path) -> None:
    settings = provider_settings(tmp_path)
    with pytest.raises(StoreMissing, match="start the provider first"):
        decide(settings, "7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71", "approve")
    with pytest.raises(StoreMissing):
        list(list_requests(settings))
    assert list(tmp_path.iterdir()) == []


async def test_a_reviewer_sees_the_arguments_and_the_reasoning(tmp_path: Path) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        token = await caller.credential()
        request_id = await caller.request_id(token, agent_reasoning="charged twice")
        shown = show_request(settings, request_id)
    assert (shown["arguments"], shown["agent_reasoning"]) == ({"amount": 4900}, "charged twice")


@pytest.mark.parametrize(
    ("request_id", "options", "reason"),
    [
        ("7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71", {}, "not_found"),
        ("nonsense", {}, "not_found"),
        ("7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71", {"note": "x" * 2001}, "malformed_note"),
        ("7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71", {"note": "\udcff"}, "malformed_note"),
        ("7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71", {"expires_in": "1m"}, "unexpected_expiry"),
    ],
)
async def test_a_mistaken_review_is_refused_with_a_reason(
    tmp_path: Path, request_id: str, options: dict[str, str], reason: str
) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings):
        with pytest.raises(WakegateError) as error:
            decide(settings, request_id, "deny", **options)
    assert error.value.reason == reason


async def test_an_expiry_that_is_no_duration_is_refused(tmp_path: Path) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        request_id = await caller.request_id(await caller.credential())
        with pytest.raises(WakegateError) as error:
            decide(settings, request_id, "approve", expires_in="soon")
        assert error.value.reason == "bad_duration"
        assert show_request(settings, request_id)["status"] == "pending"


async def test_the_database_itself_keeps_an_outcome(tmp_path: Path) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        request_id = await caller.request_id(await caller.credential())
        decide(settings, request_id, "deny")
    connection = sqlite3.connect(settings.provider_database_path)
    for statement in (
        "UPDATE requests SET status = 'approved', expires_at = decided_at + 1",
        "UPDATE requests SET note = 'other'",
        "DELETE FROM requests",
    ):
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(statement)
    connection.close()


async def test_a_locked_store_is_a_503_and_the_next_try_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakegate_schema.store.sqlite.connection.BUSY_TIMEOUT_MS", 100)
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        token = await caller.credential()
        other = open_store(settings.provider_database_path, create=False)
        with other.transaction():
            answered = await caller.submit(token, key="k")
        other.close()
        assert (answered.status, answered.code) == (503, "store_unavailable")
        assert int(answered.headers["Retry-After"]) <= 5
        assert (await caller.submit(token, key="k")).status == 201


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "provider.db"
    open_store(path, create=True).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreOutdated):
        open_store(path, create=True)


def test_a_start_error_is_an_error_of_wakegate() -> None:
    assert issubclass(ProviderStartError, WakegateError)
