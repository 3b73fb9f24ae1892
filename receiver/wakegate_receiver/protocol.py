"""The HTTP side of a connection: aiohttp's own, with its bounds set and its errors quietened."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from wakegate_receiver.answers import raw_refusal, refusal
from wakegate_receiver.connections import Closable, Connections
from wakegate_receiver.refusals import Case

KEEPALIVE_S: Final = 60.0
"""How long an answered connection may stay idle."""
LINGER_S: Final = 1.0
"""How long an unread body is thrown away after a refusal, so that the answer arrives before the reset."""
MAX_LINE: Final = 8_190
MAX_FIELD: Final = 8_190
MAX_HEADERS: Final = 64

_log = structlog.get_logger()

Note = Callable[[str, Case], None]


class Connection(web.RequestHandler):
    """One connection. What aiohttp would log with a traceback, or echo, becomes a constant answer and a count."""

    __slots__ = ("_arrival", "_book", "_note", "incoming")

    def __init__(self, server: web.Server, arrival: Closable, book: Connections, note: Note, **bounds: Any) -> None:
        """Take the server it belongs to, what accepted it, the book of connections, and whom to tell of refusals."""
        super().__init__(server, **bounds)
        self._arrival = arrival
        self._book = book
        self._note = note
        self.incoming: StreamReader | None = None
        """The body that is being read."""

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
        self._book.bytes_came(self, self._loop.time())
        try:
            super().data_received(data)
        except Exception:  # noqa: BLE001 - the loop would log it with the input and close without an answer
            self._note("malformed_http", Case(self.remote))
            if self.transport is not None:
                self.transport.write(raw_refusal("malformed_http"))
            self.force_close()
        if self.incoming is not None and self._messages and not self.incoming.is_eof():
            # Behind a body that is not whole nothing can follow, except the error that ended its parsing: without
            # this its reader would wait for the request's whole time.
            self.incoming.set_exception(web.RequestPayloadError())

    def connection_lost(self, exc: BaseException | None) -> None:
        """Leave the book."""
        self._book.closed(self)
        super().connection_lost(exc)

    def cut(self) -> None:
        """Close the connection at once, whatever it has not read."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    def hang_up(self) -> None:
        """Close the connection once everything answered is sent."""
        self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what aiohttp's parser refused (status 400), and whatever else it catches (500)."""
        del status, message
        reason = "malformed_http" if isinstance(exc, HttpProcessingError) else "unforeseen"
        self._note(reason, Case(self.remote))
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        return refusal(reason)

    def log_exception(self, *_args: Any, **fields: Any) -> None:
        """Count what aiohttp could not handle; its own line would quote the input."""
        error = fields.get("exc_info")
        if isinstance(error, HttpProcessingError | web.RequestPayloadError):
            return  # the rest of a body whose request has had its answer
        self._note("unforeseen", Case(self.remote))
        _log.error("a connection met a fault", action="serve", reason="unforeseen", exc_info=error)


class Server(web.Server):
    """aiohttp's low-level server: no router and no application, one handler for everything."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        book: Connections,
        note: Note,
    ) -> None:
        """Take the handler, the book of connections, and whom to tell of refusals."""
        super().__init__(handler)
        self._book = book
        self._note = note

    def connection(self, arrival: Closable) -> Connection:
        """Return the protocol of a new connection."""
        return Connection(
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
