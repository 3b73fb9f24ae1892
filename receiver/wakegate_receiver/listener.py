"""The public socket: accepts within the bound on connections, with or without TLS."""

import asyncio
import errno
import resource
import socket
import ssl
from collections.abc import Callable
from typing import Final

import structlog

from wakegate_receiver.answers import raw_refusal
from wakegate_receiver.connections import Connections
from wakegate_receiver.refusals import Case
from wakegate_schema.addresses import Address
from wakegate_schema.errors import WakegateError

BACKLOG: Final = 1024
SPARE_FILES: Final = 64
"""Open files that are not connections: the store's, the log's, the control socket's."""
_PAUSE_S: Final = 0.05
_TLS_CLOSE_S: Final = 2.0
"""How long a closing TLS connection waits for its peer's word."""
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

_log = structlog.get_logger()


class CannotListen(WakegateError):
    """The receiver cannot listen where its settings say."""

    reason = "cannot_listen"


def bind(address: Address) -> socket.socket:
    """Return a bound socket that does not listen yet.

    Raises:
        CannotListen: the address is taken, not this machine's, or not allowed.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, where = found[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise _cannot(address, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(where)
    except OSError as error:
        listening.close()
        raise _cannot(address, error) from error
    listening.setblocking(False)
    return listening


def connection_limit(wanted: int) -> int:
    """Return how many connections there can be, raising this process's limit on open files as far as it may.

    Told of when that is less than wanted.
    """
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


class Listener:
    """Accepts connections until it is closed."""

    def __init__(
        self,
        listening: socket.socket,
        factory: "Factory",
        book: Connections,
        note: Callable[[str, Case], None],
        *,
        tls: ssl.SSLContext | None,
        handshake_timeout: float,
    ) -> None:
        """Take a bound socket, what serves a connection, the book of connections, and whom to tell of refusals.

        Args:
            listening: from `bind`.
            factory: makes the protocol of a connection.
            book: the connections.
            note: takes a reason and its case.
            tls: the server's context, or None for plain HTTP.
            handshake_timeout: seconds a TLS handshake may take.
        """
        self._listening = listening
        self._factory = factory
        self._book = book
        self._note = note
        self._tls = tls
        self._handshake_timeout = handshake_timeout
        self._accepting: asyncio.Task[None] | None = None

    @property
    def address(self) -> Address:
        """Where it listens, the port the system chose included."""
        host, port = self._listening.getsockname()[:2]
        return Address(host, port)

    @property
    def accepting(self) -> bool:
        """Whether connections are being accepted."""
        return self._accepting is not None and not self._accepting.done()

    def start(self) -> None:
        """Begin to accept."""
        self._listening.listen(BACKLOG)
        self._accepting = asyncio.create_task(self._accept())

    async def close(self) -> None:
        """Stop accepting; connections stay. Repeats are no-ops."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.wait([self._accepting])
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(self._listening)
            except OSError as error:
                if error.errno in _FULL:
                    self._book.evict(loop.time())
                await asyncio.sleep(_PAUSE_S)
                continue
            if self._book.make_room(loop.time()):
                arrival = Arrival(accepted, peer[0], self._book, self._note)
                arrival.begin(self._factory, self._tls, self._handshake_timeout)
            else:
                self._turn_away(accepted, peer[0])

    def _turn_away(self, accepted: socket.socket, remote: str) -> None:
        """Answer without waiting for anything, then close."""
        self._note("too_many_connections", Case(remote))
        with accepted:
            if self._tls is None:
                try:
                    accepted.send(raw_refusal("too_many_connections"))
                except OSError:
                    return


class Arrival:
    """An accepted socket until its protocol has it, which with TLS is after the handshake."""

    def __init__(
        self, accepted: socket.socket, remote: str, book: Connections, note: Callable[[str, Case], None]
    ) -> None:
        """Take the socket, its peer's address, the book of connections, and whom to tell of refusals."""
        self._socket = accepted
        self._remote = remote
        self._book = book
        self._note = note
        self._task: asyncio.Task[None] | None = None

    @property
    def remote(self) -> str | None:
        """The peer's address."""
        return self._remote

    def begin(self, factory: "Factory", tls: ssl.SSLContext | None, handshake_timeout: float) -> None:
        """Hand the socket to a new connection."""
        loop = asyncio.get_running_loop()
        self._book.opened(self, loop.time())
        self._task = loop.create_task(self._connect(factory, tls, handshake_timeout))

    def cut(self) -> None:
        """Give the socket up."""
        if self._task is not None:
            self._task.cancel()

    def hang_up(self) -> None:
        """Give the socket up: nothing was answered on it yet."""
        self.cut()

    async def _connect(self, factory: "Factory", tls: ssl.SSLContext | None, handshake_timeout: float) -> None:
        loop = asyncio.get_running_loop()
        handshake, shutdown = (None, None) if tls is None else (handshake_timeout, _TLS_CLOSE_S)
        try:
            await loop.connect_accepted_socket(
                lambda: factory(self),
                self._socket,
                ssl=tls,
                ssl_handshake_timeout=handshake,
                ssl_shutdown_timeout=shutdown,
            )
        except OSError:
            self._note("tls_failed" if tls else "disconnected", Case(self._remote))
            self._socket.close()
        finally:
            self._book.closed(self)


Factory = Callable[[Arrival], asyncio.Protocol]


def _cannot(address: Address, error: OSError) -> CannotListen:
    taken = error.errno == errno.EADDRINUSE
    return CannotListen(
        f"WAKEGATE_LISTEN: cannot listen on {address}: {error.strerror or error}",
        reason="address_in_use" if taken else None,
    )
