"""A connection of the public listener: its requests one after the other, each answered in one write.

aiohttp's own way makes a task, a request, a writer and a response of each, which together cost more than all the rest
(docs/decisions/0023). Its parser, its bounds and its timers are used as they are.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from email.utils import formatdate
from functools import lru_cache
from typing import Any, Protocol, cast

from aiohttp import web
from aiohttp.http import HttpVersion, HttpVersion10
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from multidict import CIMultiDictProxy

from wakegate_receiver.answers import Reply
from wakegate_receiver.protocol import KEEPALIVE_S, LINGER_S, Connection
from wakegate_receiver.screening import RawHeaders
from wakegate_schema import clock


class Head(Protocol):
    """A request's line and headers, as aiohttp's parsers give them."""

    method: str
    path: str
    version: HttpVersion
    headers: CIMultiDictProxy[str]
    raw_headers: RawHeaders
    should_close: bool


class WebhookConnection(Connection):
    """One connection. The server's handler takes it, a `Head` and the body's stream, and returns a `Reply`."""

    __slots__ = ("_answering", "_handler", "_late")

    def __init__(self, server: web.Server, *args: Any, **bounds: Any) -> None:
        """Take what every connection takes."""
        super().__init__(server, *args, **bounds)
        self._handler = cast("Callable[..., Awaitable[Reply]]", server.request_handler)
        self._answering: asyncio.Task[Any] | None = None
        self._late = False

    async def start(self) -> None:
        """Answer requests until the connection ends."""
        self._answering = asyncio.current_task()
        try:
            while not self._force_close:
                if not self._messages:
                    await self._next()
                if not await self._exchange(*self._messages.popleft()):
                    break
                self._stay()
        except asyncio.CancelledError:
            self.force_close()  # nobody is left to answer
            raise
        except ConnectionError:
            pass  # nobody is there for an answer
        except Exception as error:  # noqa: BLE001 - the last resort: a count and a line
            self.note_error(error)
        finally:
            self._answering = None
        if self.transport is not None:
            self.transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """End the reading of a body that comes no more."""
        if not self._body.is_eof():
            self._body.set_exception(ConnectionResetError())
        super().connection_lost(exc)

    def give_up(self) -> None:
        """Let the request in progress wait no longer: `asyncio.CancelledError` is raised where it waits."""
        if self._answering is not None:
            self._late = True
            self._answering.cancel()

    def was_given_up(self) -> bool:
        """Return whether that error came of `give_up`, so that only the request ends with it."""
        late, self._late = self._late, False
        if late and self._answering is not None:
            self._answering.uncancel()
        return late

    def write(self, data: bytes) -> None:
        """Send something, if anybody is there."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(data)

    async def _next(self) -> None:
        """Wait for the next request."""
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    async def _exchange(self, head: Any, content: StreamReader) -> bool:
        """Answer one request; return whether another may follow."""
        if self._parser is not None:
            self._parser.message_consumed()
        if self._buffer_paused:
            self._resume_reading_if_drained()
        self._request_in_progress = True
        try:
            error = getattr(head, "exc", None)
            if error is not None:  # aiohttp's parser refused it
                self.write(self.raw_refusal(self.note_error(error)))
                return False
            reply = await self._handler(self, head, content)
            closes = reply.closes or head.should_close or self._force_close
            body = b"" if head.method == "HEAD" else reply.body
            date = _date(clock.now() // clock.SECOND)
            self.write(b"%b%b%b\r\n%b" % (reply.head, date, _said(closes, head.version), body))
        finally:
            self._request_in_progress = False
            if self._handler_waiter is not None:
                self._handler_waiter.set_result(None)
        if self._paused:
            await self._drain_helper()
        if not content.is_eof():
            closes = not await _thrown_away(content) or closes
        if self._upgraded and not self._messages:
            self._speak_on()
        return not (closes or self._close)

    def _stay(self) -> None:
        """Start the clock of an idle connection."""
        self._next_keepalive_close_time = self._loop.time() + KEEPALIVE_S
        if self._keepalive_handle is None:
            self._keepalive_handle = self._loop.call_at(self._next_keepalive_close_time, self._process_keepalive)

    def _speak_on(self) -> None:
        """Take what came behind a request for another protocol, which nobody speaks here."""
        self._upgraded = False
        if self._parser is not None:
            self._parser.set_upgraded(False)
            tail, self._message_tail = self._message_tail, b""
            self.data_received(tail)
            if self._buffer_paused:
                self._resume_reading_if_drained()


async def _thrown_away(content: StreamReader) -> bool:
    """Read the rest of a body for a moment, so that the answer arrives before a reset; return whether it has ended."""
    with suppress(TimeoutError, web.RequestPayloadError, HttpProcessingError, OSError, RuntimeError):
        async with asyncio.timeout(LINGER_S):
            while not content.is_eof():
                await content.readany()
    return content.is_eof() and content.exception() is None


def _said(closes: bool, version: HttpVersion) -> bytes:
    """Return the header that says whether the connection stays, where that has to be said."""
    if closes:
        return b"Connection: close\r\n"
    return b"Connection: keep-alive\r\n" if version == HttpVersion10 else b""


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return f"Date: {formatdate(second, usegmt=True)}\r\n".encode("ascii")
