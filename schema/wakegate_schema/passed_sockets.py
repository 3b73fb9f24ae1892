"""Passed sockets: what systemd listens on for a service, and hands it at its start (sd_listen_fds(3))."""

import os
import re
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wakegate_schema.addresses import Address
from wakegate_schema.errors import WakegateError

FIRST: Final = 3
"""The number of the first passed descriptor."""

_COUNT: Final = re.compile(r"[0-9]{1,4}")
_UNNAMED: Final = "unknown"


class PassedSocketUnusable(WakegateError):
    """What the service manager passed is not what the service needs; correct the socket unit or the settings."""

    reason = "passed_socket"


@dataclass(frozen=True, slots=True)
class PassedSocket:
    """A socket that listens already, and goes on when this process has ended."""

    name: str
    """Its `FileDescriptorName=`."""
    socket: socket.socket
    at: Path | Address
    """Where it listens."""


def take_passed_sockets(environ: MutableMapping[str, str]) -> list[PassedSocket]:
    """Return the sockets that were passed to this very process, none inheritable, and forget what told of them.

    Args:
        environ: `os.environ`, or a copy of it; its `LISTEN_*` variables are taken out, so that no child process takes
            them for its own.

    Raises:
        PassedSocketUnusable: one of them is no listening stream socket, or they cannot be counted.
    """
    process, count = environ.pop("LISTEN_PID", None), environ.pop("LISTEN_FDS", "")
    names = environ.pop("LISTEN_FDNAMES", "").split(":")
    if process != str(os.getpid()):
        return []
    if _COUNT.fullmatch(count) is None:
        raise PassedSocketUnusable("LISTEN_FDS is not a number; whoever started this process must say how many it is")
    numbers = range(FIRST, FIRST + int(count))
    if len(names) != len(numbers):
        names = [_UNNAMED] * len(numbers)
    return [passed_socket(number, name or _UNNAMED) for number, name in zip(numbers, names, strict=True)]


def passed_socket(number: int, name: str) -> PassedSocket:
    """Return the listening socket that a descriptor of this process is, no longer inheritable.

    Raises `PassedSocketUnusable` when it is none. `name` is what errors call it.
    """
    what = f"passed descriptor {number} ({name})"
    try:
        os.set_inheritable(number, False)
        found = socket.socket(fileno=number)
        where = _where(found)
        found.setblocking(False)
    except OSError as error:
        raise PassedSocketUnusable(f"{what} is no socket: {error.strerror}") from error
    if where is None:
        found.close()
        raise PassedSocketUnusable(
            f"{what} does not listen on TCP or on a socket file; the socket unit must have ListenStream= and no"
            " Accept=yes"
        )
    return PassedSocket(name, found, where)


def _where(found: socket.socket) -> Path | Address | None:
    """Return where a socket listens; None when it does not, or not for streams, or at an address without a name."""
    if found.type != socket.SOCK_STREAM or not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return None
    name = found.getsockname()
    if found.family in (socket.AF_INET, socket.AF_INET6):
        return Address(name[0], name[1])
    return Path(name) if found.family == socket.AF_UNIX and isinstance(name, str) and name else None
