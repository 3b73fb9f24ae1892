"""The door: the real receiver, from a connection's bytes to the answer's, on a pair of sockets."""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from support.deliveries import Delivery
from support.receivers import Client
from wakegate_receiver.app import App, Bounds
from wakegate_receiver.connections import Connections
from wakegate_receiver.keyring import Keyring
from wakegate_receiver.limits import Admission, Failures
from wakegate_receiver.protocol import Connection, Server
from wakegate_receiver.refusals import Case, Refusals
from wakegate_receiver.webhooks import WebhookConnection
from wakegate_schema.sealing import Sealer
from wakegate_schema.store import Store

PATH = "/aap/events"
ROOM = 1_000_000
"""Rates and places: none of them is ever short here."""
PATIENCE_S = 60.0


class _Arrival:
    """A connection that was just accepted."""

    remote = None

    def cut(self) -> None:
        """It is nothing yet that could be closed."""

    hang_up = cut


class _Line(Client):
    """A sender's end of a connection that is there already."""

    def __init__(self, end: socket.socket) -> None:
        super().__init__(("", 0))
        self._end = end

    async def __aenter__(self) -> "_Line":
        self.reader, self.writer = await asyncio.open_connection(sock=self._end)
        return self


class Door:
    """One receiver process, without its listener and its control socket."""

    def __init__(self, store: Store, sealer: Sealer, now: Callable[[], int]) -> None:
        """Put the parts together as `wakegate_receiver.service` does."""
        refusals = Refusals(Path("never-written"), now)
        self._book = Connections(ROOM, lambda reason, found: refusals.note(reason, Case(found.remote)))
        self._app = App(
            Bounds(PATH, 65_536, PATIENCE_S),
            store,
            Keyring(sealer, store.registrations),
            refusals,
            self._book,
            Admission(ROOM, ROOM),
            Failures(ROOM),
            now,
            lambda _: None,
        )
        self._server = Server(self._app.handle, self._book, refusals.note, WebhookConnection)

    async def post(self, delivery: Delivery) -> int:
        """Send one delivery on a connection of its own and return the answer's status."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(self._accept, ours)
        async with _Line(theirs) as line:
            return (await line.post(delivery, PATH)).status

    async def close(self) -> None:
        """End every connection."""
        await self._server.shutdown(0)

    def _accept(self) -> Connection:
        arrival = _Arrival()
        self._book.opened(arrival, asyncio.get_running_loop().time())
        return self._server.connection(arrival)
