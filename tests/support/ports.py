"""Loopback ports that nobody uses now, for processes that must be told one before they start."""

import random
import socket

_GIVEN = range(10_000, 32_768)
"""Below those that the system gives to whoever asks for none: nobody takes one of these by chance."""


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Several at once, all different."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def lasting_port() -> int:
    """One that stays free while a server takes its time to start, and while it is down to be started again."""
    while True:
        port = random.choice(_GIVEN)
        with socket.socket() as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
