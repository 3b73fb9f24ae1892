"""The public socket: accepts within the bound on connections, with or without TLS."""

import asyncio
import errno
import functools
import socket
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final

from wakegate_receiver.answers import raw_refusal
from wakegate_receiver.binding import CannotListen
from wakegate_receiver.connections import Connections
from wakegate_receiver.refusals import Case
from wakegate_schema.addresses import Address

BACKLOG: Final = 4096
"""How many may wait to be accepted; the system has a bound of its own."""
AT_ONCE: Final = 64
"""The most connections begun in one turn of the loop."""
SHARED_AT_ONCE: Final = 1
"""The same where other processes accept from the same socket: each takes what it can serve, and no more."""
LOOKED_AT: Final = 1024
"""The most connections accepted in one turn, those included that nobody waits on any more."""
_PAUSE_S: Final = 0.05
_TLS_CLOSE_S: Final = 2.0
"""How long a closing TLS connection waits for its peer's word."""
_LEFT: Final = (7, 8)
"""TCP's states CLOSE and CLOSE-WAIT, as Linux counts them."""
_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


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
        turned_away: bytes = raw_refusal("too_many_connections"),
        at_once: int = AT_ONCE,
    ) -> None:
        """Take a bound socket, what serves a connection, the book of connections, and whom to tell of refusals.

        Args:
            listening: from `bind`.
            factory: makes the protocol of a connection.
            book: the connections.
            note: takes a reason and its case.
            tls: the server's context, or None for plain HTTP.
            handshake_timeout: seconds a TLS handshake may take.
            turned_away: what a connection beyond the bound is answered.
            at_once: the most connections begun in one turn of the loop.
        """
        self._turned_away = turned_away
        self._listening = listening
        self._factory = factory
        self._book = book
        self._note = note
        self._tls = tls
        self._handshake_timeout = handshake_timeout
        self._at_once = max(1, min(at_once, book.limit // 16))
        self._paused: asyncio.TimerHandle | None = None
        self.accepting = False
        """Whether connections are being accepted."""

    @property
    def address(self) -> Address:
        """Where it listens, the port the system chose included."""
        host, port = self._listening.getsockname()[:2]
        return Address(host, port)

    def start(self) -> None:
        """Begin to accept. Raises `CannotListen` when another process listens there since it was bound."""
        try:
            self._listening.listen(BACKLOG)
        except OSError as error:
            raise CannotListen.at("WAKEGATE_LISTEN", self.address, error) from error
        self.accepting = True
        self._watch()

    def close(self) -> None:
        """Stop accepting; connections stay. Repeats are no-ops."""
        if self.accepting:
            self.accepting = False
            if self._paused is not None:
                self._paused.cancel()
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()

    def _watch(self) -> None:
        self._paused = None
        asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Accept some of those that wait: many, because each turn of a loaded loop is long, but never so many that
        they push each other out before they were heard. Those whose peer has left cost next to nothing."""
        begun = 0
        for _ in range(LOOKED_AT):
            if begun >= self._at_once:
                return
            try:
                accepted, peer = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(error)
                return
            accepted.setblocking(False)
            if has_left(accepted):
                accepted.close()
                self._note("disconnected", Case(_address(peer)))
            else:
                begun += 1
                self._welcome(accepted, _address(peer))

    def _pause(self, error: OSError) -> None:
        """Wait a moment, after making room if it was the lack of it."""
        loop = asyncio.get_running_loop()
        if error.errno in _FULL:
            self._book.evict(loop.time())
        loop.remove_reader(self._listening)
        self._paused = loop.call_later(_PAUSE_S, self._watch)

    def _welcome(self, accepted: socket.socket, remote: str | None) -> None:
        if self._book.make_room(asyncio.get_running_loop().time()):
            arrival = Arrival(accepted, remote, self._book, self._note)
            arrival.begin(self._factory, self._tls, self._handshake_timeout)
        else:
            self._turn_away(accepted, remote)

    def _turn_away(self, accepted: socket.socket, remote: str | None) -> None:
        """Answer without waiting for anything, then close."""
        self._note("too_many_connections", Case(remote))
        with accepted:
            if self._tls is None:
                try:
                    accepted.send(self._turned_away)
                except OSError:
                    return


def _address(peer: object) -> str | None:
    """Return the address of a peer, as `accept` gives it; a Unix socket's has none."""
    return peer[0] if isinstance(peer, tuple) else None


def has_left(accepted: socket.socket) -> bool:
    """Return whether the peer of a socket has closed it already without a word (where the system tells).

    No answer would reach it. What it has sent before is taken all the same.
    """
    if not hasattr(socket, "TCP_INFO") or accepted.family == socket.AF_UNIX:
        return False
    if accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] not in _LEFT:
        return False
    try:
        return not accepted.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def has_spoken(accepted: socket.socket) -> bool:
    """Return whether there is something to be read from a non-blocking socket: bytes, an end or an error."""
    try:
        accepted.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True
    return True


class Arrival:
    """An accepted socket until its protocol has it, which with TLS is after the handshake."""

    def __init__(
        self, accepted: socket.socket, remote: str | None, book: Connections, note: Callable[[str, Case], None]
    ) -> None:
        """Take the socket, its peer's address, the book of connections, and whom to tell of refusals."""
        self._socket = accepted
        self._remote = remote
        self._book = book
        self._note = note
        self._task: asyncio.Task[None] | None = None
        self._begun = False
        self._hearing = False
        """Whether the first byte is waited for."""

    @property
    def remote(self) -> str | None:
        """The peer's address."""
        return self._remote

    def begin(self, factory: "Factory", tls: ssl.SSLContext | None, handshake_timeout: float) -> None:
        """Hand the socket to a new connection once its peer has said something: silence costs a place and no more."""
        loop = asyncio.get_running_loop()
        self._book.opened(self, loop.time())
        connect = functools.partial(self._connect, factory, tls, handshake_timeout)
        if has_spoken(self._socket):
            self._hand_over(connect)
        else:
            loop.add_reader(self._socket, self._hand_over, connect)
            self._hearing = True

    def cut(self) -> None:
        """Give the socket up."""
        self._hear_no_more()
        if self._task is not None:
            self._task.cancel()
        if not self._begun:
            self._socket.close()

    def hang_up(self) -> None:
        """Give the socket up: nothing was answered on it yet."""
        self.cut()

    def _hand_over(self, connect: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._hear_no_more()
        self._task = asyncio.get_running_loop().create_task(connect())

    def _hear_no_more(self) -> None:
        if self._hearing:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._hearing = False

    async def _connect(self, factory: "Factory", tls: ssl.SSLContext | None, handshake_timeout: float) -> None:
        self._begun = True
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
