"""The receiver as its unit runs it: passed its sockets, with its credential, as its user, confined."""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.receivers import Client, Registered, Reply, Running, request_bytes
from support.units import PATIENCE_S, RECEIVER, Manager, managed
from wakegate_console import layout
from wakegate_receiver.stopping import Stop
from wakegate_schema.store import open_store


@dataclass
class Site:
    """An installation with an instance that is notified about."""

    manager: Manager
    registered: Registered

    async def connect(self) -> Client:
        return await Client(self.manager.address).__aenter__()

    async def post(self) -> Reply:
        """Post a notification on a connection of its own."""
        async with Client(self.manager.address) as client:
            await client.send(request_bytes(self.registered.sender.notification()))
            return await client.reply(PATIENCE_S)


@pytest.fixture(scope="module")
def installed() -> Iterator[Site]:
    async def register(manager: Manager) -> Registered:
        async with await open_store(manager.settings.database, mode="service") as store:
            return await Running(None, manager.settings, store, Stop()).register()  # type: ignore[arg-type]

    with managed() as manager:
        yield Site(manager, asyncio.run(register(manager)))


@pytest.fixture
async def site(installed: Site) -> AsyncIterator[Site]:
    with installed.manager.sockets():
        yield installed


async def test_it_starts_at_the_first_connection_and_is_ready_once_it_takes_webhooks(site: Site) -> None:
    manager = site.manager
    made = manager.control.stat()
    async with manager.running(RECEIVER, activated=True) as service:
        await asyncio.sleep(0.2)
        assert manager.heard == [], "nobody has connected yet"
        assert (await site.post()).status == 204
        await service.until("READY=1")
        host, port = manager.address
        assert manager.status == f"STATUS=taking webhooks at http://{host}:{port}/aap/events"
        await keeps_a_second_one_out(site)
        confined(manager, service.process.pid)
        assert await service.stop() == 0
    assert manager.when("STOPPING=1")
    assert manager.when("EXTEND_TIMEOUT_USEC=15000000")
    assert os.path.samestat(made, manager.control.stat()), "the file is the manager's"
    assert manager.control.stat().st_mode & 0o777 == 0o660


async def keeps_a_second_one_out(site: Site) -> None:
    """A receiver that would make a socket file of its own there ends, and the first one serves on."""
    machine = site.manager.machine
    second = await asyncio.to_thread(
        machine.wakegate, "--config", str(layout.SETTINGS), "receiver", who=machine.user(layout.RECEIVER_USER),
        WAKEGATE_LISTEN="127.0.0.1:0", WAKEGATE_RECEIVER_KEY_FILE=f"/run/credentials/{RECEIVER}/receiver_key",
    )  # fmt: skip
    assert second.returncode == 2
    assert f"another receiver has {layout.CONTROL}" in second.stderr
    assert (await site.post()).status == 204


def confined(manager: Manager, pid: int) -> None:
    """The process is the unit's user's, under a filter, and has no network of its own."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert status["Uid"] == [str(manager.machine.user(layout.RECEIVER_USER).uid)] * 4
    assert (status["Groups"], status["NoNewPrivs"], status["Seccomp"]) == ([], ["1"], ["2"])
    assert Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


async def test_several_processes_share_the_sockets_and_are_one_service(site: Site) -> None:
    manager = site.manager
    async with manager.running(RECEIVER, watchdog_s=PATIENCE_S / 60, activated=True, WAKEGATE_PROCESSES="2") as service:
        assert (await site.post()).status == 204
        await service.until("READY=1")
        host, port = manager.address
        assert manager.status == f"STATUS=taking webhooks at http://{host}:{port}/aap/events in 2 processes"
        await service.until("WATCHDOG=1")
        confined(manager, service.process.pid)
        assert await service.stop() == 0
    assert manager.when("EXTEND_TIMEOUT_USEC=17000000")
    assert manager.control.is_socket(), "the file is the manager's"


async def test_no_connection_is_refused_during_a_restart(site: Site) -> None:
    manager = site.manager
    going, answered = True, 0

    async def knock() -> None:
        """Connect without end. One that is refused raises; one that ends with the old process comes again."""
        nonlocal answered
        while going:
            try:
                reply = await site.post()
            except (ConnectionResetError, BrokenPipeError, EOFError):
                continue
            assert reply.status in (204, 503)
            answered += reply.status == 204
            await asyncio.sleep(0.01)

    knocking = [asyncio.create_task(knock()) for _ in range(4)]
    async with manager.running(RECEIVER, activated=True) as service:
        await service.until("READY=1")
        assert await service.stop() == 0
    waiting = [await site.connect() for _ in range(3)]  # nobody is there
    for client in waiting:
        await client.send(request_bytes(site.registered.sender.notification()))
    async with manager.running(RECEIVER, activated=True) as service:
        assert [(await client.reply(PATIENCE_S)).status for client in waiting] == [204, 204, 204]
        before = answered
        async with asyncio.timeout(PATIENCE_S):
            while answered < before + 8 and not any(each.done() for each in knocking):
                await asyncio.sleep(0.01)
        going = False
        await asyncio.wait_for(asyncio.gather(*knocking), PATIENCE_S)
        assert await service.stop() == 0
    for client in waiting:
        await client.__aexit__()


async def test_a_setting_that_disagrees_with_what_was_passed_stops_the_start(site: Site) -> None:
    manager = site.manager
    async with manager.running(RECEIVER, activated=True, WAKEGATE_CONTROL="/run/wakegate/other.sock") as service:
        client = await site.connect()
        assert await service.ended() == 2
        assert "WAKEGATE_CONTROL: is /run/wakegate/other.sock, and the service manager passed" in manager.log
        assert manager.heard == []
        await client.__aexit__()


@contextmanager
def turn_held(manager: Manager) -> Iterator[None]:
    """Hold the store's turn, so that no write comes to an end."""
    with manager.machine.outside(f"{layout.STORE}-turn").open("rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield


@contextmanager
def store_moved(manager: Manager) -> Iterator[None]:
    """Take the database's file away."""
    store = manager.machine.outside(layout.STORE)
    aside = store.with_name("aside")
    store.rename(aside)
    try:
        yield
    finally:
        aside.rename(store)


async def test_the_watchdog_is_fed_only_while_the_store_takes_writes(site: Site) -> None:
    manager, period = site.manager, 2.0
    async with manager.running(RECEIVER, activated=True, watchdog_s=period) as service:
        assert (await site.post()).status == 204
        ready = await service.until("READY=1")
        first = await service.until("WATCHDOG=1")
        assert first >= ready
        await service.until("WATCHDOG=1", since=first + 0.1)
        for trouble, problem in ((turn_held, "store_timeout"), (store_moved, "store_unavailable")):
            with trouble(manager):
                begun = time.monotonic()
                await asyncio.sleep(1.7 * period)
                assert [at for at in manager.when("WATCHDOG=1") if at > begun + period] == []
                assert manager.status == f"STATUS=watchdog not fed: the store cannot be used ({problem})"
            await service.until("WATCHDOG=1", since=time.monotonic())
            assert manager.status.startswith("STATUS=taking webhooks")
        assert await service.stop() == 0
