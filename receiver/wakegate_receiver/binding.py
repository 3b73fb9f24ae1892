"""The public address: bound before anything is opened, and how many connections this process can hold on it."""

import errno
import resource
import socket
from typing import Final, Self

import structlog

from wakegate_schema.addresses import Address, cannot_listen
from wakegate_schema.errors import WakegateError

SPARE_FILES: Final = 64
"""Open files that are not connections: the store's, the log's."""
CONTROL_CONNECTIONS: Final = 512
"""The most connections to the control listener, where there are open files enough."""

_log = structlog.get_logger()


class CannotListen(WakegateError):
    """The receiver cannot listen where its settings say."""

    reason = "cannot_listen"

    @classmethod
    def at(cls, setting: str, address: Address, error: OSError) -> Self:
        """Say why the address that a setting names cannot be listened on."""
        taken = error.errno == errno.EADDRINUSE
        return cls(cannot_listen(setting, address, error), reason="address_in_use" if taken else None)


def bind(address: Address, setting: str = "WAKEGATE_LISTEN") -> socket.socket:
    """Return a bound socket that does not listen yet; `setting` names the address in errors.

    Raises:
        CannotListen: the address is taken, not this machine's, or not allowed.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise CannotListen.at(setting, address, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(where)
    except OSError as error:
        listening.close()
        raise CannotListen.at(setting, address, error) from error
    listening.setblocking(False)
    return listening


def connection_limits(wanted: int) -> tuple[int, int]:
    """Return how many connections there can be, to the public address and to the control listener.

    This process's limit on open files is raised as far as it may be. Told of when that leaves less than wanted.
    """
    possible = _possible(wanted + CONTROL_CONNECTIONS)
    control = min(CONTROL_CONNECTIONS, max(4, possible // 8) if possible < wanted + CONTROL_CONNECTIONS else possible)
    return max(1, min(wanted, possible - control)), control


def _possible(wanted: int) -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    possible = wanted if soft == resource.RLIM_INFINITY else min(wanted, max(1, soft - SPARE_FILES))
    if possible < wanted:
        _log.warning(
            "fewer connections than max_connections says: the limit on open files is lower",
            action="limit_connections",
            connections=possible,
            open_files=soft,
        )
    return possible
