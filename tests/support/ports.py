"""Loopback ports that nobody uses now, for processes that must be told one before they start."""

import socket


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
