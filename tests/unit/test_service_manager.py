"""What is told to the service manager, and what never comes of it: an error in a service."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.tables import each_row
from wakegate_schema.service_manager import ServiceManager


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, str]]:
    """A manager's socket, and how `NOTIFY_SOCKET` names it."""
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as folder, _datagrams() as listening:
        name = f"{folder}/notify"
        if request.param == "abstract":
            listening.bind(f"\0{name}")
            yield listening, f"@{name}"
        else:
            listening.bind(name)
            yield listening, name


def _datagrams() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.settimeout(5)
    return made


def told(listening: socket.socket) -> list[str]:
    return listening.recv(4096).decode().split("\n")


def test_it_is_told_what_happens(manager: tuple[socket.socket, str]) -> None:
    listening, name = manager
    service = ServiceManager.take({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "3000000"})
    assert service.listens
    service.ready("taking webhooks")
    assert told(listening) == ["READY=1", "STATUS=taking webhooks"]
    service.alive()
    assert told(listening) == ["WATCHDOG=1"]
    service.status("two\nlines" + 500 * "x")
    (status,) = told(listening)
    assert status.startswith("STATUS=two lines")
    assert len(status) < 300
    service.stopping("stopping", 12.5)
    assert told(listening) == ["STOPPING=1", "STATUS=stopping", "EXTEND_TIMEOUT_USEC=12500000"]


def test_child_processes_inherit_no_way_to_the_manager() -> None:
    environ = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "5", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    assert ServiceManager.take(environ).watchdog_s == 5e-6
    assert environ == {"HOME": "/"}


@each_row(
    "environ",
    [
        {},
        {"NOTIFY_SOCKET": ""},
        {"NOTIFY_SOCKET": "@"},
        {"NOTIFY_SOCKET": "relative"},
        {"NOTIFY_SOCKET": "vsock:2:1234"},
        {"WATCHDOG_USEC": "1000000"},
    ],
)
def test_without_a_manager_nothing_is_said(environ: dict[str, str]) -> None:
    service = ServiceManager.take(environ)
    assert (service.listens, service.watchdog_s) == (False, None)
    service.ready("x")
    service.alive()
    service.stopping("x", 1)


@each_row(
    ("period", "process"),
    [("", None), ("0", None), ("soon", None), ("-5", None), ("1000000", "1"), ("9" * 30, None)],
)
def test_a_watchdog_that_is_not_meant_for_this_process_is_not_fed(period: str, process: str | None) -> None:
    environ = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": period}
    if process is not None:
        environ["WATCHDOG_PID"] = process
    assert ServiceManager.take(environ).watchdog_s is None


@pytest.mark.parametrize("name", ["/nowhere/at/all", f"/{'x' * 200}", "@nobody listens here"])
def test_a_manager_that_cannot_be_reached_stops_nothing(name: str) -> None:
    ServiceManager.take({"NOTIFY_SOCKET": name}).ready("x")


def test_a_manager_that_does_not_read_holds_nobody_up_for_long(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as folder, _datagrams() as listening:
        listening.bind(f"{folder}/notify")
        service = ServiceManager(f"{folder}/notify", 1.0)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filling:
            filling.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    filling.sendto(b"x", f"{folder}/notify")
        service.alive()
