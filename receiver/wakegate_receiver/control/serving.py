"""Serving the control API on a bound socket."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from aiohttp import web

from wakegate_receiver.connections import Connections, watch_silent
from wakegate_receiver.control import openapi
from wakegate_receiver.control.answers import raw_refusal
from wakegate_receiver.control.app import REQUEST_S, ControlApp, Plain
from wakegate_receiver.control.asking import Tools
from wakegate_receiver.control.identity import Identities, Visitor
from wakegate_receiver.control.news import News
from wakegate_receiver.control.numbering import Numbering
from wakegate_receiver.control.places import Places
from wakegate_receiver.control.protocol import ControlConnection
from wakegate_receiver.control.visits import Visits
from wakegate_receiver.listener import Listener
from wakegate_receiver.protocol import Server
from wakegate_receiver.refusals import Case, Lines
from wakegate_receiver.stopping import end
from wakegate_schema.calls.store_calls import StoreCalls
from wakegate_schema.calls.watch import Watch
from wakegate_schema.harness_tables import Harnesses
from wakegate_schema.store import Store

LASTING: Final = 3
"""How many of four connections may wait or stream; the others are for requests that are answered at once."""


@asynccontextmanager
async def controlling(
    bound: socket.socket,
    store: Store,
    harnesses: Harnesses,
    plain: Sequence[web.RouteDef],
    connections: int,
    shutdown_timeout: float,
) -> AsyncIterator[ControlApp]:
    """Serve the control API for the length of the block.

    Args:
        bound: from `control_socket`.
        store: what the harnesses' calls are in.
        harnesses: who may use them.
        plain: what anybody who can connect may GET.
        connections: the most connections there may be.
        shutdown_timeout: seconds that requests in progress are waited for at the end, twice.
    """
    note = _noted()
    book = Connections(connections, lambda reason, connection: note(reason, Case(connection.remote)))
    watch, visits = Watch(store), Visits(max(1, connections * LASTING // 4))
    news = News(store, watch)
    app = await _app(store, harnesses, {route.path: route.handler for route in plain}, book, watch, news, visits)
    server = Server(app.handle, book, note, ControlConnection)
    listener = Listener(
        bound, server.connection, book, note, tls=None, handshake_timeout=REQUEST_S,
        turned_away=raw_refusal("too_many_connections"),
    )  # fmt: skip
    async with AsyncExitStack() as stack:
        stack.push_async_callback(watch.close)
        for work in (news.follow(), visits.watch(), watch_silent(book, REQUEST_S)):
            stack.push_async_callback(end, asyncio.create_task(work))
        stack.push_async_callback(server.shutdown, shutdown_timeout)
        listener.start()
        stack.callback(listener.close)
        stack.callback(app.drain)
        yield app


async def _app(
    store: Store,
    harnesses: Harnesses,
    plain: Mapping[str, Plain],
    book: Connections,
    watch: Watch,
    news: News,
    visits: Visits,
) -> ControlApp:
    def calls(visitor: Visitor) -> StoreCalls:
        return StoreCalls(store, visitor.scope, watch=watch)

    tools = Tools(store, news, Numbering(await store.numbering_key()), calls)
    document = openapi.text().encode()
    return ControlApp(Identities(harnesses), tools, visits, Places(), book, plain, document)


def _noted() -> Callable[[str, Case], None]:
    """Return what tells, within a bound, of connections that came to nothing."""
    lines = Lines("control")

    def note(reason: str, case: Case) -> None:
        lines.write(reason, {"exc_info": case.error}, asyncio.get_running_loop().time())

    return note
