"""What the service manager hears of a service of several processes."""

import asyncio
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wakegate_console.relay import relaying
from wakegate_schema.service_manager import ServiceManager

NAMES = ("receiver-1", "receiver-2")


@pytest.fixture
def listening() -> Iterator[tuple[socket.socket, str]]:
    with (
        tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound,
    ):
        bound.setblocking(False)
        bound.bind(name := str(Path(folder) / "notify"))
        yield bound, name


async def heard(bound: socket.socket) -> list[str]:
    """What was told by now."""
    found = []
    for _ in range(5):
        await asyncio.sleep(0)
    while True:
        try:
            found.append(bound.recv(4096).decode())
        except BlockingIOError:
            return found


async def test_it_is_ready_and_alive_once_all_are(listening: tuple[socket.socket, str]) -> None:
    bound, name = listening
    manager = ServiceManager.take({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "120000000"})
    with relaying(manager, NAMES, "taking webhooks") as relay:
        assert relay is not None
        told = [relay.environment(each) for each in NAMES]
        assert {each["WATCHDOG_USEC"] for each in told} == {"60000000"}
        first, second = (ServiceManager.take(each) for each in told)
        first.ready("taking webhooks, it says")
        first.alive()
        assert await heard(bound) == []
        second.ready("taking webhooks, it says")
        assert await heard(bound) == ["READY=1\nSTATUS=taking webhooks"]
        first.alive()
        first.alive()
        assert await heard(bound) == [], "the second has not spoken"
        second.alive()
        assert await heard(bound) == ["WATCHDOG=1"]
        second.status("watchdog not fed: the store cannot be used (disk_full)")
        assert await heard(bound) == ["STATUS=receiver-2: watchdog not fed: the store cannot be used (disk_full)"]
        second.ready("started again")
        assert await heard(bound) == ["STATUS=taking webhooks"]
        second.stopping("stopping", 5)
        assert await heard(bound) == [], "the supervisor tells of a stop"


async def test_without_a_manager_nobody_listens() -> None:
    with relaying(ServiceManager(), NAMES, "taking webhooks") as relay:
        assert relay is None
