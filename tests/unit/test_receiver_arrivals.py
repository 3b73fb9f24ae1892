"""Whether anybody still waits on a connection that was just accepted."""

import socket
import struct
import time
from collections.abc import Callable

from support.tables import each_row
from wakegate_receiver.listener import has_left


def stays(client: socket.socket) -> None:
    """Say nothing yet."""


def asks(client: socket.socket) -> None:
    client.send(b"POST")


def resets(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def closes(client: socket.socket) -> None:
    client.close()


def asks_and_closes(client: socket.socket) -> None:
    client.send(b"POST")
    client.close()


@each_row(
    ("deed", "expected"), [(stays, False), (asks, False), (asks_and_closes, False), (closes, True), (resets, True)]
)
def test_a_peer_that_has_closed_without_a_word_is_not_served(
    deed: Callable[[socket.socket], None], expected: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        deed(client)
        time.sleep(0.05)
        accepted, _ = listening.accept()
        with accepted, client:
            assert has_left(accepted) is expected
