"""Sockets that were passed: taken once, by whom they were meant for, and only if they can be used."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from support.tables import each_row
from wakegate_receiver.passed import sort_out
from wakegate_schema import passed_sockets
from wakegate_schema.addresses import Address
from wakegate_schema.passed_sockets import PassedSocket, PassedSocketUnusable, take_passed_sockets
from wakegate_schema.settings import Settings


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def taken(monkeypatch: pytest.MonkeyPatch, opened: ExitStack, passed: socket.socket, **changes: str) -> PassedSocket:
    """Take one passed socket, which has another number here than 3: that one is pytest's."""
    number = passed.detach()
    opened.callback(_closed, number)
    monkeypatch.setattr(passed_sockets, "FIRST", number)
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "web", "HOME": "/"} | changes
    os.set_inheritable(number, True)
    try:
        (found,) = take_passed_sockets(environ)
    finally:
        assert environ == {"HOME": "/"}
    assert not os.get_inheritable(number)
    assert found.socket.fileno() == number
    opened.callback(found.socket.detach)
    return found


def _closed(number: int) -> None:
    with suppress(OSError):
        os.close(number)


def test_a_tcp_socket_is_taken_with_its_name_and_address(monkeypatch: pytest.MonkeyPatch, opened: ExitStack) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    found = taken(monkeypatch, opened, listening)
    assert (found.name, found.at) == ("web", Address("127.0.0.1", port))
    assert not found.socket.getblocking()


def test_a_socket_file_is_taken_with_its_path(monkeypatch: pytest.MonkeyPatch, opened: ExitStack, folder: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "control.sock"))
    listening.listen()
    found = taken(monkeypatch, opened, listening, LISTEN_FDNAMES="one:too many")
    assert (found.name, found.at) == ("unknown", folder / "control.sock")


def test_nothing_is_taken_that_was_passed_to_another_process() -> None:
    environ = {"LISTEN_PID": "1", "LISTEN_FDS": "2", "LISTEN_FDNAMES": "a:b"}
    assert take_passed_sockets(environ) == []
    assert environ == {}
    assert take_passed_sockets({"LISTEN_FDS": "2"}) == []


def test_a_socket_that_does_not_listen_is_refused(monkeypatch: pytest.MonkeyPatch, opened: ExitStack) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with pytest.raises(PassedSocketUnusable, match="ListenStream="):
            taken(monkeypatch, opened, socket.socket(socket.AF_INET, kind))


def test_what_is_no_socket_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr(passed_sockets, "FIRST", reading)
    with pytest.raises(PassedSocketUnusable, match="is no socket"):
        take_passed_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"})
    os.close(reading)
    os.close(writing)


@each_row("count", ["", "two", "-1", "99999"])
def test_a_number_of_sockets_that_is_none_is_refused(count: str) -> None:
    with pytest.raises(PassedSocketUnusable, match="LISTEN_FDS"):
        take_passed_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count})


def passed(opened: ExitStack, *places: Path | Address) -> list[PassedSocket]:
    return [PassedSocket("unknown", opened.enter_context(socket.socket()), place) for place in places]


CONTROL, WEB, OTHER = Path("/run/wakegate/control.sock"), Address("127.0.0.1", 9000), Address("127.0.0.1", 9001)


def settings(**values: str) -> Settings:
    return Settings.model_validate({"control": str(CONTROL), **values})


def test_they_are_told_apart_by_where_they_listen(opened: ExitStack) -> None:
    web, control, metrics = found = passed(opened, WEB, CONTROL, OTHER)
    given = sort_out(found, settings(listen="localhost:9000", metrics_listen="127.0.0.1:9001"))
    assert (given.public, given.control, given.metrics) == (web.socket, control.socket, metrics.socket)


def test_a_control_address_on_tcp_is_told_from_the_public_one(opened: ExitStack) -> None:
    web, control = found = passed(opened, WEB, OTHER)
    given = sort_out(found, settings(control="127.0.0.1:9001"))
    assert (given.public, given.control) == (web.socket, control.socket)


def test_where_webhooks_are_taken_need_not_be_set(opened: ExitStack) -> None:
    (web,) = found = passed(opened, WEB)
    assert sort_out(found, settings()).public is web.socket
    assert sort_out(found, settings(listen="127.0.0.1:0")).public is web.socket


@pytest.mark.parametrize(
    ("places", "values", "words"),
    [
        ([WEB], {"listen": "127.0.0.1:8080"}, "WAKEGATE_LISTEN: is 127.0.0.1:8080, and .* at 127.0.0.1:9000"),
        ([WEB], {"listen": "0.0.0.0:9000"}, "WAKEGATE_LISTEN: is 0.0.0.0:9000"),
        ([WEB], {"listen": "name.invalid:9000"}, "WAKEGATE_LISTEN: is name.invalid:9000"),
        ([Path("/run/x.sock")], {}, "WAKEGATE_CONTROL: is /run/wakegate/control.sock, and .* at /run/x.sock"),
        ([CONTROL], {"control": "127.0.0.1:9001"}, "WAKEGATE_CONTROL: is 127.0.0.1:9001"),
        ([WEB, OTHER], {}, "WAKEGATE_LISTEN: .* second TCP socket, 127.0.0.1:9001"),
    ],
)
def test_what_disagrees_with_the_settings_is_refused_by_name(
    opened: ExitStack, places: list[Path | Address], values: dict[str, str], words: str
) -> None:
    with pytest.raises(PassedSocketUnusable, match=words) as caught:
        sort_out(passed(opened, *places), settings(**values))
    assert caught.value.reason == "passed_socket"
