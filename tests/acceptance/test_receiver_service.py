"""The receiver as a process: started, asked how it is, stopped, killed; and what keeps it from starting."""

import asyncio
import contextlib
import json
import resource
import signal
import socket
import sqlite3
import ssl
import stat
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from support import warm
from support.certificates import certificate
from support.deliveries import Delivery
from support.processes import clean_environment
from support.receivers import Client, Registered, Running, receiver_in, request_bytes, settings_in, stalled, until
from wakegate_receiver.binding import CannotListen, bind
from wakegate_receiver.connections import Connections
from wakegate_receiver.listener import Listener
from wakegate_receiver.service import receiving
from wakegate_receiver.stopping import Stop
from wakegate_receiver.tls import TlsFilesUnusable
from wakegate_schema.addresses import Address
from wakegate_schema.errors import WakegateError
from wakegate_schema.keys import ensure_key
from wakegate_schema.secret_files import SecretFileError
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store, open_store

FAULTS = {
    "the body is read": ("wakegate_receiver.messages", "read", "after", 0),
    "its signature is proved": ("wakegate_receiver.notifications", "acknowledge", "before", 0),
    "its transaction begins": ("wakegate_schema.store.verbs.notifications", "record", "before", 0),
    "its row is written": ("wakegate_schema.store.verbs.notifications", "record", "after", 0),
    "its row is committed": ("wakegate_receiver.webhooks", "_said", "before", 1),
    "its answer is made": ("wakegate_receiver.webhooks", "_said", "after", 1),
}
"""Where a receiver dies: at a function of its own, before or after it, and how many rows there are then."""
PROGRAM = Path(__file__).parents[1] / "support" / "frail_receiver.py"


@dataclass
class Process:
    """A receiver in a process of its own, on uvloop."""

    process: asyncio.subprocess.Process
    url: str
    settings: Settings

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    async def ended(self, timeout: float = 15) -> int:
        async with asyncio.timeout(timeout):
            return await self.process.wait()


async def start(folder: Path, limit: int = 0, **more: str) -> asyncio.subprocess.Process:
    kept = clean_environment()
    environment = {
        "WAKEGATE_DATABASE": f"sqlite:///{folder}/wakegate.db",
        "WAKEGATE_LISTEN": "127.0.0.1:0",
        "WAKEGATE_CONTROL": f"{folder}/control.sock",
    }
    return await warm.start(
        "script", str(PROGRAM), str(limit), cwd=folder, env=kept | environment | more, stdout=PIPE, stderr=PIPE
    )


@asynccontextmanager
async def running_process(folder: Path, limit: int = 0, **more: str) -> AsyncIterator[Process]:
    """Run a receiver as a process, killed in the end if it still runs; `limit` is that on its open files."""
    process = await start(folder, limit, **more)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(20):
            url = (await process.stdout.readline()).decode().strip()
        assert url, (await process.communicate())[1].decode()
        yield Process(process, url, settings_in(folder))
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


async def register_in(folder: Path) -> Registered:
    """Register with a receiver's store from outside."""
    settings = settings_in(folder)
    async with await open_store(settings.database, mode="service") as store:
        return await registrar(settings, store).register()


def registrar(settings: Settings, store: Store) -> Running:
    return Running(None, settings, store, Stop())  # type: ignore[arg-type]


async def event_ids(settings: Settings) -> list[str]:
    async with await open_store(settings.database, mode="read") as store:
        return [found.event_id for _, found in await store.notifications(limit=10_000)]


# Killed


async def test_every_204_has_a_row_after_sigkill(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    sent: list[Delivery] = []
    acknowledged: list[str] = []

    async def pour(address: tuple[str, int]) -> None:
        with contextlib.suppress(OSError, EOFError):
            async with Client(address) as client:
                while True:
                    delivery = desk.sender.notification()
                    sent.append(delivery)
                    if (await client.post(delivery)).status == 204:
                        acknowledged.append(delivery.headers["webhook-id"])

    async with running_process(tmp_path) as receiver:
        pouring = [asyncio.create_task(pour(receiver.address)) for _ in range(16)]
        await until(lambda: len(acknowledged) > 200, timeout=20)
        receiver.signal(signal.SIGKILL)
        await receiver.ended()
        await asyncio.gather(*pouring)
    assert set(acknowledged) <= set(await event_ids(receiver.settings))
    async with running_process(tmp_path) as receiver:
        for delivery in sent:
            async with Client(receiver.address) as client:
                assert (await client.post(delivery)).status == 204
        receiver.signal()
        assert await receiver.ended() == 0
    found = await event_ids(receiver.settings)
    assert sorted(found) == sorted({delivery.headers["webhook-id"] for delivery in sent})


@pytest.mark.parametrize("name", FAULTS)
async def test_a_receiver_that_dies_at_any_step_has_acknowledged_nothing_and_lost_nothing(
    tmp_path: Path, name: str
) -> None:
    module, function, when, rows = FAULTS[name]
    desk = await register_in(tmp_path)
    delivery = desk.sender.notification()
    async with running_process(tmp_path, WAKEGATE_TEST_FAULT=f"{module}:{function}:{when}") as receiver:
        async with Client(receiver.address) as client:
            await client.send(request_bytes(delivery))
            assert await client.ends() == b""
        assert await receiver.ended() == -signal.SIGKILL
    assert len(await event_ids(receiver.settings)) == rows
    async with receiver_in(tmp_path) as running:
        assert (await running.post(delivery)).status == 204
    assert await event_ids(receiver.settings) == [delivery.headers["webhook-id"]]


# Stopped


async def test_a_stop_answers_what_is_whole_and_cuts_what_is_not(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    whole = [desk.sender.notification() for _ in range(50)]
    async with running_process(tmp_path) as receiver, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Client(receiver.address)) for _ in range(70)]
        assert (await clients[0].post(desk.sender.notification())).status == 204
        with stalled(receiver.settings):
            for client, delivery in zip(clients, whole, strict=False):
                await client.send(request_bytes(delivery))
            for number, client in enumerate(clients[50:60]):
                await client.send(request_bytes(desk.sender.notification())[: 40 * number])
            await asyncio.sleep(0.5)
            receiver.signal()
            await asyncio.sleep(0.3)
            with pytest.raises(OSError):
                await asyncio.open_connection(*receiver.address)
        answers = await asyncio.gather(*(client.reply() for client in clients[:50]))
        assert {reply.status for reply in answers} == {204}
        assert [await client.ends() for client in clients[50:]] == [b""] * 20
        assert await receiver.ended() == 0
    assert set(await event_ids(receiver.settings)) >= {delivery.headers["webhook-id"] for delivery in whole}
    assert not (tmp_path / "control.sock").exists()


async def test_a_request_that_begins_while_stopping_is_told_to_come_back(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    async with running_process(tmp_path) as receiver, Client(receiver.address) as client:
        assert (await client.post(desk.sender.notification())).status == 204
        with stalled(receiver.settings):
            await client.send(request_bytes(desk.sender.notification()) + request_bytes(desk.sender.notification()))
            await asyncio.sleep(0.3)
            receiver.signal()
            await asyncio.sleep(0.2)
        assert (await client.reply()).status == 204
        reply = await client.reply()
        assert (reply.status, reply.reason) == (503, "draining")
        assert 1 <= int(reply.headers["retry-after"]) <= 5
        assert await client.ends() == b""
        assert await receiver.ended() == 0


async def test_a_stop_does_not_wait_longer_than_it_may(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    async with (
        running_process(tmp_path, WAKEGATE_SHUTDOWN_TIMEOUT="1.5") as receiver,
        Client(receiver.address) as client,
    ):
        assert (await client.post(desk.sender.notification())).status == 204
        with stalled(receiver.settings):
            await client.send(request_bytes(desk.sender.notification()))
            await asyncio.sleep(0.3)
            began = time.monotonic()
            receiver.signal()
            await receiver.ended()
            assert 1 < time.monotonic() - began < 2.5
        assert b"204" not in await client.ends()


async def test_a_second_signal_does_not_wait_for_requests(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    async with running_process(tmp_path) as receiver, Client(receiver.address) as client:
        assert (await client.post(desk.sender.notification())).status == 204
        with stalled(receiver.settings):
            await client.send(request_bytes(desk.sender.notification()))
            await asyncio.sleep(0.3)
            receiver.signal()
            await asyncio.sleep(0.6)
            receiver.signal(signal.SIGINT)
            assert b"204" not in await client.ends(timeout=3)
        assert await receiver.ended(timeout=5) == 0


async def test_a_second_signal_ends_it_although_the_store_hangs(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    async with running_process(tmp_path) as receiver, Client(receiver.address) as client:
        assert (await client.post(desk.sender.notification())).status == 204
        with stalled(receiver.settings):
            await client.send(request_bytes(desk.sender.notification()))
            await asyncio.sleep(0.3)
            receiver.signal()
            await asyncio.sleep(1.1)
            receiver.signal()
            assert await receiver.ended(timeout=4) == 1


async def test_an_idle_receiver_stops_at_once(tmp_path: Path) -> None:
    async with running_process(tmp_path) as receiver, Client(receiver.address):
        began = time.monotonic()
        receiver.signal(signal.SIGINT)
        assert await receiver.ended() == 0
        assert time.monotonic() - began < 2


# The control socket


async def ask(path: Path, what: str) -> tuple[int, dict[str, object]]:
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as session,
        session.get(f"http://receiver{what}") as answer,
    ):
        body = await answer.json()
        body.pop("wal_bytes", None)
        body.pop("in_doubt", None)
        return answer.status, body


async def test_it_says_that_it_lives_and_is_ready(tmp_path: Path) -> None:
    async with receiver_in(tmp_path):
        control = tmp_path / "control.sock"
        assert await ask(control, "/healthz") == (200, {"alive": True})
        assert await ask(control, "/readyz") == (200, {"ready": True})
        assert stat.S_IMODE(control.stat().st_mode) == 0o660


async def test_it_is_not_ready_when_the_store_cannot_be_written(tmp_path: Path) -> None:
    async with receiver_in(tmp_path) as running:
        await running.store.probe()
        database = running.settings.database_path
        hidden = database.rename(database.with_name("hidden.db"))
        status, body = await ask(tmp_path / "control.sock", "/readyz")
        assert (status, body["ready"]) == (503, False)
        assert (await ask(tmp_path / "control.sock", "/healthz"))[0] == 200
        hidden.rename(database)
        assert (await ask(tmp_path / "control.sock", "/readyz"))[0] == 200


async def test_it_is_not_ready_when_the_store_does_not_answer(tmp_path: Path) -> None:
    async with receiver_in(tmp_path) as running:
        with stalled(running.settings):
            expected = (503, {"ready": False, "reason": "store_timeout"})
            assert await ask(tmp_path / "control.sock", "/readyz") == expected


async def test_it_is_not_ready_when_the_store_is_damaged(tmp_path: Path) -> None:
    async with receiver_in(tmp_path) as running:
        desk = await running.register()
        assert (await running.post(desk.sender.notification())).status == 204
        database = running.settings.database_path
        with contextlib.closing(sqlite3.connect(database)) as raw:
            raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with database.open("r+b") as file:
            file.seek(4096)
            file.write(b"damaged " * (database.stat().st_size // 8 - 512))
        expected = (503, {"ready": False, "reason": "store_corrupt"})
        assert await ask(tmp_path / "control.sock", "/readyz") == expected
        assert (await running.post(desk.sender.notification())).status == 503


async def test_it_is_not_ready_while_it_stops(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    async with running_process(tmp_path) as receiver, Client(receiver.address) as client:
        assert (await client.post(desk.sender.notification())).status == 204
        with stalled(receiver.settings):
            await client.send(request_bytes(desk.sender.notification()))
            await asyncio.sleep(0.3)
            receiver.signal()
            await asyncio.sleep(0.2)
            expected = (503, {"ready": False, "reason": "draining"})
            assert await ask(tmp_path / "control.sock", "/readyz") == expected


async def test_a_second_receiver_does_not_take_the_control_socket(tmp_path: Path) -> None:
    async with receiver_in(tmp_path):
        with pytest.raises(CannotListen) as refused:
            async with receiving(settings_in(tmp_path), Stop()):
                raise AssertionError("both run")
        assert refused.value.reason == "control_taken"
        assert (await ask(tmp_path / "control.sock", "/healthz"))[0] == 200


async def test_the_socket_of_a_killed_receiver_is_replaced(tmp_path: Path) -> None:
    async with running_process(tmp_path) as receiver:
        receiver.signal(signal.SIGKILL)
        await receiver.ended()
    assert (tmp_path / "control.sock").is_socket()
    async with receiver_in(tmp_path):
        assert (await ask(tmp_path / "control.sock", "/healthz"))[0] == 200


async def test_the_control_listener_can_be_a_loopback_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with (
        receiver_in(tmp_path, control=f"127.0.0.1:{port}"),
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/readyz") as answer,
    ):
        assert answer.status == 200


async def test_the_public_listener_serves_no_control(tmp_path: Path) -> None:
    async with receiver_in(tmp_path) as running, Client(running.address) as client:
        await client.send(b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await client.reply()).status == 404


# Under pressure


async def test_a_low_limit_on_open_files_bounds_the_connections(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    async with running_process(tmp_path, limit=100) as receiver, contextlib.AsyncExitStack() as stack:
        for _ in range(150):
            await stack.enter_async_context(Client(receiver.address))
        for _ in range(5):
            async with Client(receiver.address) as client:
                assert (await client.post(desk.sender.notification())).status == 204
        receiver.signal()
        _, errors = await receiver.process.communicate()
    assert '"limit_connections"' in errors.decode()


async def test_a_disk_that_is_full_is_503_until_it_is_not(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    async with running_process(tmp_path) as receiver, Client(receiver.address) as client:
        assert (await client.post(desk.sender.notification())).status == 204
        limits = resource.prlimit(receiver.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(receiver.process.pid, resource.RLIMIT_FSIZE, (1, limits[1]))
        delivery = desk.sender.notification()
        for _ in range(3):
            assert (await client.post(delivery)).status == 503
        resource.prlimit(receiver.process.pid, resource.RLIMIT_FSIZE, limits)
        assert (await client.post(delivery)).status == 204
    assert delivery.headers["webhook-id"] in await event_ids(receiver.settings)


async def test_malformed_http_leaves_nothing_of_itself_in_the_log(tmp_path: Path) -> None:
    async with running_process(tmp_path) as receiver:
        for data in (
            b"\x00\x01CANARY\r\n\r\n",
            b"POST /CANARY HTTP/1.1\r\nhost: a\r\ncontent-length: CANARY\r\n\r\n",
            b"POST /aap/events HTTP/1.1\r\nhost: a\r\nx: " + b"CANARY" * 2000 + b"\r\n\r\n",
        ):
            for _ in range(20):
                async with Client(receiver.address) as client:
                    await client.send(data)
                    assert (await client.reply()).status == 400
                    assert await client.ends() == b""
        receiver.signal()
        _, errors = await receiver.process.communicate()
    assert b"CANARY" not in errors
    assert b"raceback" not in errors
    assert len(errors.splitlines()) < 20


# What keeps it from starting


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield taken.getsockname()[1]


async def cannot_start(folder: Path, **changes: object) -> WakegateError:
    with pytest.raises(WakegateError) as refused:
        async with receiving(settings_in(folder, **changes), Stop()):
            raise AssertionError("it runs")
    return refused.value


async def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with taken_port() as port:
        error = await cannot_start(tmp_path, listen=f"127.0.0.1:{port}")
    assert error.reason == "address_in_use"
    assert "WAKEGATE_LISTEN" in str(error)
    assert str(port) in str(error)
    assert not (tmp_path / "wakegate.db").exists()
    assert not (tmp_path / "control.sock").exists()


async def test_one_port_for_webhooks_and_control_is_named(tmp_path: Path) -> None:
    with taken_port() as port:
        pass
    error = await cannot_start(tmp_path, listen=f"127.0.0.1:{port}", control=f"127.0.0.1:{port}")
    assert error.reason == "address_in_use"
    assert str(port) in str(error)


async def test_a_port_that_is_taken_after_it_was_bound_is_named(tmp_path: Path) -> None:
    listening = bind(Address("127.0.0.1", 0))
    address = Address(*listening.getsockname())
    book = Connections(10, lambda *_: None)
    with bind(address) as other:
        other.listen()
        listener = Listener(
            listening, lambda _: asyncio.Protocol(), book, lambda *_: None, tls=None, handshake_timeout=1
        )
        with pytest.raises(CannotListen) as refused:
            listener.start()
        assert refused.value.reason == "address_in_use"
        assert not listener.accepting
    listening.close()


async def test_an_address_that_is_not_this_machines_is_named(tmp_path: Path) -> None:
    assert "WAKEGATE_LISTEN" in str(await cannot_start(tmp_path, listen="192.0.2.1:0"))


async def test_a_control_path_that_cannot_be_is_named(tmp_path: Path) -> None:
    assert "WAKEGATE_CONTROL" in str(await cannot_start(tmp_path, control=f"{tmp_path}/missing/control.sock"))


async def test_a_file_in_the_control_sockets_place_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "control.sock").write_text("precious")
    assert "not a socket" in str(await cannot_start(tmp_path))
    assert (tmp_path / "control.sock").read_text() == "precious"


async def test_a_key_that_others_can_read_is_named(tmp_path: Path) -> None:
    async with receiver_in(tmp_path):
        pass
    (tmp_path / "receiver.key").chmod(0o644)
    assert "receiver.key" in str(await cannot_start(tmp_path))


async def test_it_makes_its_own_key_and_not_the_workers(tmp_path: Path) -> None:
    async with receiver_in(tmp_path):
        assert stat.S_IMODE((tmp_path / "receiver.key").stat().st_mode) == 0o600
        assert not (tmp_path / "worker.key").exists()


async def test_it_never_opens_the_workers_key(tmp_path: Path) -> None:
    (tmp_path / "worker.key").write_text("not a key")
    (tmp_path / "worker.key").chmod(0)
    async with receiver_in(tmp_path) as running:
        desk = await running.register()
        assert (await running.post(desk.sender.notification())).status == 204


async def test_a_lost_key_stops_the_start_and_no_new_one_is_made(tmp_path: Path) -> None:
    await register_in(tmp_path)
    (tmp_path / "receiver.key").unlink()
    assert "receiver.key" in str(await cannot_start(tmp_path))
    assert not (tmp_path / "receiver.key").exists()


async def test_a_key_that_opens_none_of_the_secrets_stops_the_start(tmp_path: Path) -> None:
    await register_in(tmp_path)
    (tmp_path / "receiver.key").unlink()
    ensure_key(tmp_path / "receiver.key")
    assert "receiver.key" in str(await cannot_start(tmp_path))


async def test_a_key_file_that_a_setting_names_must_be_there(tmp_path: Path) -> None:
    named = tmp_path / "named.key"
    error = await cannot_start(tmp_path, receiver_key_file=named)
    assert "WAKEGATE_RECEIVER_KEY_FILE" in str(error)
    assert not named.exists()
    assert not (tmp_path / "wakegate.db").exists()


async def test_a_secret_sealed_by_another_key_refuses_its_messages_and_is_told(tmp_path: Path) -> None:
    desk = await register_in(tmp_path)
    (tmp_path / "receiver.key").unlink()
    await register_in(tmp_path)  # sealed by a key of now
    async with running_process(tmp_path) as receiver, Client(receiver.address) as client:
        assert (await client.post(desk.sender.notification())).status == 401
        receiver.signal()
        _, errors = await receiver.process.communicate()
    told = [json.loads(line) for line in errors.decode().splitlines()]
    assert desk.registration_id in {line.get("registration_id") for line in told if line["action"] == "unseal"}
    assert desk.secret.reveal() not in errors.decode()


async def test_it_says_where_it_listens(tmp_path: Path) -> None:
    async with running_process(tmp_path, WAKEGATE_EVENTS_PATH="/hooks") as receiver:
        assert receiver.url.endswith("/hooks")
        receiver.signal()
        _, errors = await receiver.process.communicate()
    told = [json.loads(line) for line in errors.decode().splitlines()]
    assert receiver.url in {line.get("url") for line in told if line["action"] == "listening"}


# TLS


async def test_deliveries_come_over_tls(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    desk = await register_in(tmp_path)
    async with running_process(tmp_path, WAKEGATE_TLS_CERT_FILE=str(chain), WAKEGATE_TLS_KEY_FILE=str(key)) as receiver:
        assert receiver.url.startswith("https://")
        async with Client(receiver.address, ssl.create_default_context(cafile=chain)) as client:
            for _ in range(2):
                assert (await client.post(desk.sender.notification())).status == 204
        receiver.signal()
        assert await receiver.ended() == 0


async def test_clients_that_never_shake_hands_do_not_delay_a_genuine_delivery(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    async with (
        receiver_in(tmp_path, tls_cert_file=str(chain), tls_key_file=str(key), max_connections=50) as running,
        contextlib.AsyncExitStack() as stack,
    ):
        desk = await running.register()
        for _ in range(150):
            await stack.enter_async_context(Client(running.address))
        began = time.monotonic()
        async with Client(running.address, ssl.create_default_context(cafile=chain)) as client:
            assert (await client.post(desk.sender.notification())).status == 204
        assert time.monotonic() - began < 1
        assert len(running.receiver.connections) <= 50


async def test_plain_http_on_the_tls_port_is_refused_and_counted(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    async with receiver_in(tmp_path, tls_cert_file=str(chain), tls_key_file=str(key)) as running:
        async with Client(running.address) as client:
            await client.send(b"GET / HTTP/1.1\r\n\r\n")
            assert b"HTTP" not in await client.ends()
        await until(lambda: running.reasons() == ["tls_failed"])


async def test_tls_files_that_do_not_fit_are_named(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    key.write_text("not a key")
    error = await cannot_start(tmp_path, tls_cert_file=str(chain), tls_key_file=str(key))
    assert isinstance(error, TlsFilesUnusable)
    assert "WAKEGATE_TLS_KEY_FILE" in str(error)


async def test_a_tls_key_that_others_can_read_is_refused_like_every_secret(tmp_path: Path) -> None:
    chain, key = certificate(tmp_path)
    key.chmod(0o644)
    error = await cannot_start(tmp_path, tls_cert_file=str(chain), tls_key_file=str(key))
    assert isinstance(error, SecretFileError)
    assert str(error) == (
        f"{key} (the TLS private key of WAKEGATE_TLS_KEY_FILE) can be used by others than its owner (mode 0644);"
        f" run: chmod 600 {key}"
    )
