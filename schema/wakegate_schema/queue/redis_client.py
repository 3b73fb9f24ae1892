"""Redis clients: connected as an address says, bounded in time, and what their errors mean."""

import socket
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from redis import Redis, exceptions
from redis.backoff import NoBackoff
from redis.retry import Retry
from redis.sentinel import Sentinel

from wakegate_schema.queue.errors import QueueError
from wakegate_schema.queue.redis_address import RedisAddress

CONNECT_S: Final = 1.0
"""How long connecting may take, in seconds."""

ADVICE: Final = {
    "redis_unreachable": "see that Redis runs where WAKEGATE_QUEUE says, and that the network lets this host there",
    "redis_tls": "see that the certificate names the host in WAKEGATE_QUEUE, and is signed by who ssl_ca_certs says",
    "redis_timeout": "Redis does not answer in time; see what keeps it, and the network to it",
    "redis_refused": "see WAKEGATE_QUEUE_PASSWORD_FILE, the user in WAKEGATE_QUEUE and what Redis' ACL allows it",
    "redis_full": "Redis has used up its maxmemory; give it more, or a Redis of its own to wakegate",
    "redis_read_only": "this Redis is a replica; name the primary, or its Sentinels, in WAKEGATE_QUEUE",
    "redis_loading": "Redis is reading its data; it will answer when it has",
    "redis_cluster": "this Redis is part of a cluster, which RQ cannot use; name a server by itself, or Sentinels",
    "redis_failed": "Redis refused a command; see its log, and whether other programs use the keys rq:*wakegate-*",
}
"""Every reason for which Redis takes or gives no hint, and what to do about it."""

_REASONS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (exceptions.BusyLoadingError, "redis_loading"),
    (exceptions.AuthenticationError, "redis_refused"),
    (exceptions.AuthorizationError, "redis_refused"),
    (exceptions.NoPermissionError, "redis_refused"),
    (exceptions.AuthenticationWrongNumberOfArgsError, "redis_refused"),
    (exceptions.OutOfMemoryError, "redis_full"),
    (exceptions.ReadOnlyError, "redis_read_only"),
    (exceptions.MovedError, "redis_cluster"),
    (exceptions.AskError, "redis_cluster"),
    (exceptions.ClusterDownError, "redis_cluster"),
    (exceptions.ClusterCrossSlotError, "redis_cluster"),
    (exceptions.TimeoutError, "redis_timeout"),
    (TimeoutError, "redis_timeout"),
    (exceptions.ConnectionError, "redis_unreachable"),
    (OSError, "redis_unreachable"),
)


def connect(address: RedisAddress, password: str | None, *, answer_s: float) -> Redis:
    """Return a client. It connects with its first command, and tries nothing twice.

    Args:
        address: where.
        password: of the address's user, or of the default one; None to say none.
        answer_s: how long one answer may take, in seconds.

    Raises:
        QueueError: a file that the address names for TLS does not exist.
    """
    options: dict[str, Any] = {
        "socket_timeout": answer_s,
        "socket_connect_timeout": CONNECT_S,
        "retry": Retry(NoBackoff(), 0),
    }
    login = {"username": address.username, "password": password}
    data = options | login | {"db": address.database}
    if address.path is not None:
        return Redis(unix_socket_path=address.path, **data)
    options |= {"socket_keepalive": True}
    if address.tls:
        options |= _tls(address)
    data |= options
    if address.service is None:
        ((host, port),) = address.hosts
        return Redis(host=host, port=port, **data)
    asked = options | (login if address.options.get("sentinel_auth") == "true" else {})
    sentinel = Sentinel(address.hosts, sentinel_kwargs=asked, **data)  # type: ignore[no-untyped-call]
    found: Redis = sentinel.master_for(address.service)  # type: ignore[no-untyped-call]
    return found


def interrupt(client: Redis) -> None:
    """Break off what another thread waits for on this client: it gets a `redis.RedisError` or an `OSError`.

    The sockets are shut down and not closed: the other thread still reads from them.
    """
    for connection in tuple(getattr(client.connection_pool, "_in_use_connections", ())):
        sock = getattr(connection, "_sock", None)
        if isinstance(sock, socket.socket):
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # of a TLS socket too: not TLS's own good-bye


def reason_of(error: BaseException) -> str:
    """Return the machine word for an error of a client: a key of `ADVICE`."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return "redis_tls" if reason == "redis_unreachable" and _is_of_tls(error) else reason
    if isinstance(error, exceptions.ResponseError) and "cluster" in str(error).lower():
        return "redis_cluster"
    return "redis_failed"


def _is_of_tls(error: BaseException | None) -> bool:
    """Return whether TLS is at the bottom of it."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _tls(address: RedisAddress) -> dict[str, Any]:
    files = {name: value for name, value in address.options.items() if name.startswith("ssl_")}
    named = files.pop("ssl_check_hostname", "true") == "true"
    for name, value in files.items():
        if not Path(value).exists():
            raise QueueError(f"WAKEGATE_QUEUE: there is no {value}, which {name} names", reason="queue_tls_file")
    return files | {
        "ssl": True,
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": named,
        "ssl_min_version": ssl.TLSVersion.TLSv1_2,
    }
