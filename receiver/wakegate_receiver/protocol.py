"""The HTTP side of a connection: aiohttp's own, with its bounds set and its errors quietened."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from wakegate_receiver import screening
from wakegate_receiver.answers import raw_refusal
from wakegate_receiver.connections import Closable, Connections
from wakegate_receiver.refusals import Case

KEEPALIVE_S: Final = 60.0
"""How long an answered connection may stay idle."""
LINGER_S: Final = 1.0
"""How long an unread body is thrown away after a refusal, so that the answer arrives before the reset."""
HANG_UP_S: Final = 0.1
"""How long a peer that is hung up on has to read what was answered, or to end TLS."""
MAX_AHEAD: Final = 65_536
"""Bytes of requests that may wait behind the one being answered."""
MAX_LINE: Final = 8_190
MAX_FIELD: Final = 8_190
MAX_HEADERS: Final = 64

Note = Callable[[str, Case], None]


class Connection(web.RequestHandler):
    """One connection. What aiohttp would log with a traceback, or echo, becomes a constant answer and a count."""

    __slots__ = ("_arrival", "_body", "_book", "_head", "_note")

    def __init__(self, server: web.Server, arrival: Closable, book: Connections, note: Note, **bounds: Any) -> None:
        """Take the server it belongs to, what accepted it, the book of connections, and whom to tell of refusals."""
        super().__init__(server, **bounds)
        self._arrival = arrival
        self._book = book
        self._note = note
        self._body: StreamReader = EMPTY_PAYLOAD
        """The body that came last, or is coming."""
        self._head = 0
        """Bytes that came of a head that is not whole."""

    @property
    def remote(self) -> str | None:
        """The peer's address."""
        peer = self.peername
        return peer[0] if isinstance(peer, tuple) else None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the place of what accepted it."""
        self._book.handed_over(self._arrival, self, self._loop.time())
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Start the clock of a kept connection's next request, and survive whatever the parser may raise."""
        if self._close or self._force_close:
            return
        known, between = self._request_count, self._body.is_eof()
        try:
            super().data_received(data)
        except Exception:  # noqa: BLE001 - the loop would log it with the input and close without an answer
            self._refuse()
            return
        if self._request_count > known:
            self._requests_came()
        elif between:  # the end of a body is no head
            self._book.bytes_came(self, self._loop.time())
            self._head += len(data)
            if self._head > screening.MAX_HEAD:
                self._refuse()

    def _requests_came(self) -> None:
        """Take note of the heads that became whole, and bound what waits behind the first."""
        if not self._body.is_eof():
            # Behind a body that is not whole nothing can follow, except the error that ended its parsing: without
            # this its reader would wait for the request's whole time.
            self._body.set_exception(web.RequestPayloadError())
        self._body = self._messages[-1][1]
        self._head = 0
        if len(self._messages) > 1 and sum(map(_weight, self._messages)) > MAX_AHEAD:
            self._refuse()

    def _refuse(self) -> None:
        """Answer that this is not HTTP, as far as anything can be answered now, and close."""
        self._note("malformed_http", Case(self.remote))
        if self._request_in_progress:  # its answer goes first, and is the last
            self._messages.clear()
            self.close()
            return
        if self.transport is not None:
            self.transport.write(self.raw_refusal("malformed_http"))
        self.force_close()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Do what aiohttp does after every piece of a body that is read, where something was paused."""
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Leave the book."""
        self._book.closed(self)
        super().connection_lost(exc)

    def cut(self) -> None:
        """Close the connection at once, and end what is being done about its request."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()
        if self._task_handler is not None:
            self._task_handler.cancel()

    def hang_up(self) -> None:
        """Close the connection once everything answered is sent; a peer that does not read it is not waited for."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            self._loop.call_later(HANG_UP_S, transport.abort)

    def note_error(self, error: BaseException | None) -> str:
        """Count what aiohttp's parser refused, or whatever else was caught; return the reason."""
        reason = "malformed_http" if isinstance(error, HttpProcessingError) else "unforeseen"
        self._note(reason, Case(self.remote, error=error if reason == "unforeseen" else None))
        return reason

    def raw_refusal(self, reason: str) -> bytes:
        """Return the answer to what is not HTTP (`malformed_http`), as it is written."""
        return raw_refusal(reason)

    def log_exception(self, *_args: Any, **fields: Any) -> None:
        """Count what aiohttp could not handle; its own line would quote the input."""
        error = fields.get("exc_info")
        if isinstance(error, HttpProcessingError | web.RequestPayloadError):
            return  # the rest of a body whose request has had its answer
        self._note("unforeseen", Case(self.remote, error=error if isinstance(error, BaseException) else None))


class Server(web.Server):
    """aiohttp's low-level server: no router and no application, one handler for everything."""

    def __init__(
        self,
        handler: Callable[..., Awaitable[Any]],
        book: Connections,
        note: Note,
        kind: type[Connection],
    ) -> None:
        """Take the handler, the book of connections, whom to tell of refusals, and what serves one connection."""
        super().__init__(handler)
        self._kind = kind
        self._book = book
        self._note = note

    def connection(self, arrival: Closable) -> Connection:
        """Return the protocol of a new connection."""
        return self._kind(
            self,
            arrival,
            self._book,
            self._note,
            loop=self._loop,
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=LINGER_S,
            max_line_size=MAX_LINE,
            max_field_size=MAX_FIELD,
            max_headers=MAX_HEADERS,
            auto_decompress=False,
            access_log=None,
        )


def _weight(waiting: tuple[Any, StreamReader]) -> int:
    """Return the bytes of a request that waits."""
    message, body = waiting
    return screening.head_size(getattr(message, "raw_headers", ())) + body.total_bytes
