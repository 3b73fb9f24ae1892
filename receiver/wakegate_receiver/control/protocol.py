"""The HTTP side of a connection to the control listener: who is at its other end, and answers of the one shape."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from wakegate_receiver.control.answers import ControlRefused, raw_refusal, refusal
from wakegate_receiver.control.identity import Visitor, peer_uid
from wakegate_receiver.control.visits import Visit, Visits
from wakegate_receiver.protocol import Connection


class ControlConnection(Connection):
    """One connection of a harness, or of whoever else can connect."""

    __slots__ = ("_visit", "uid")

    def __init__(self, *args: Any, **bounds: Any) -> None:
        """Take what every connection takes."""
        super().__init__(*args, **bounds)
        self.uid: int | None = None
        """The user at the other end of a Unix socket; None on TCP."""
        self._visit: Visit | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask the kernel who has connected."""
        self.uid = peer_uid(transport.get_extra_info("socket"))
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """End what lasts: nobody is there for it."""
        if self._visit is not None:
            self._visit.end()
        super().connection_lost(exc)

    @contextmanager
    def lasting(self, visits: Visits, visitor: Visitor, again: Callable[[], Visitor]) -> Iterator[Visit]:
        """Make a visit of the request in progress, for the length of the block."""
        with visits.open(visitor, again) as visit:
            self._visit = visit
            if self.transport is None:
                visit.end()
            try:
                yield visit
            finally:
                self._visit = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what aiohttp's parser refused (status 400), and whatever else it catches (500)."""
        del status, message
        reason = self.note_error(exc)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer was begun already")
        return refusal(ControlRefused(reason))

    def raw_refusal(self, reason: str) -> bytes:
        """Return the same as bytes."""
        return raw_refusal(reason)
