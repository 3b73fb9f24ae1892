"""The stream: what a harness is told, as server-sent events that can be resumed (WHATWG HTML, 9.2)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from aiohttp import web

from wakegate_receiver.answers import SERVER
from wakegate_receiver.control import shapes
from wakegate_receiver.control.answers import ControlRefused
from wakegate_receiver.control.asking import Ask
from wakegate_receiver.control.news import Ear
from wakegate_receiver.control.sending import send_part
from wakegate_receiver.control.visits import Visit
from wakegate_schema import fault_points
from wakegate_schema.records import Told
from wakegate_schema.resolution import resolution_of
from wakegate_schema.store import StoreUnavailable

HEARTBEAT_S: Final = 10.0
"""How long a stream is silent at most."""
PAGE: Final = 50
"""How many resolutions are read at once."""
EARLIEST: Final = (1, 0)
"""The place before everything."""
Place = tuple[int, int]


async def resolutions(ask: Ask) -> web.StreamResponse:
    """Stream what the harness is told until its connection, the receiver or its right to it ends."""
    if not ask.room:
        raise ControlRefused("too_many_streams", "Too many requests of all harnesses last already; come back later.")
    with ask.tools.news.ear() as ear, ask.lasting() as visit:
        place = await _begin(ask)
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store", "Server": SERVER}
        )
        await response.prepare(ask.request)
        await send_part(response, _event(ask, "ready", place, b"{}"))
        with suppress(StoreUnavailable):  # the client comes back to where it was, and is told then if it still is
            await _go_on(ask, response, ear, visit, place)
        return response


async def _begin(ask: Ask) -> Place:
    """Return where the stream begins: what a client that was cut off has seen goes before what its URL says."""
    given = ask.request.headers.getall("Last-Event-ID", ())
    if len(given) > 1:
        raise ControlRefused("repeated_parameter", "The Last-Event-ID header is there twice.", path="Last-Event-ID")
    cursor = (given[0] if given else "") or ask.query.get("after")
    if cursor is None:
        theirs = ask.visitor.scope.within(await ask.tools.store.instances())
        return await ask.tools.store.resolutions_end([each.identity for each in theirs])
    return ask.tools.numbering.place(cursor) if cursor else EARLIEST


async def _go_on(ask: Ask, response: web.StreamResponse, ear: Ear, visit: Visit, place: Place) -> None:
    while not visit.over():
        ear.fresh.clear()
        page = await _page(ask, ear, place)
        async for told, data in _events(ask, page):
            if visit.over():
                return
            await fault_points.passing("http_in.answer", "control.resolutions")
            await send_part(response, data)
            place = told.place
        if len(page) < PAGE and not await _fresh(ear, visit) and not visit.over():
            await send_part(response, b":\n\n")


async def _page(ask: Ask, ear: Ear, place: Place) -> list[Told]:
    known = await ask.tools.store.instances()
    theirs = ask.visitor.scope.within(known)
    ear.takes_in(theirs, known)
    return await ask.tools.store.resolutions([each.identity for each in theirs], place, PAGE)


async def _events(ask: Ask, page: list[Told]) -> AsyncIterator[tuple[Told, bytes]]:
    for told in page:
        execution = await ask.tools.store.execution(told.execution_id)
        resolution = resolution_of(execution, told.wake_id, told.to_state)
        yield told, _event(ask, "resolution", told.place, shapes.dumps(resolution.to_json()))


async def _fresh(ear: Ear, visit: Visit) -> bool:
    """Wait until there is something for the stream; False when a heartbeat is due, or it is to end."""
    hearing = asyncio.get_running_loop().create_task(ear.fresh.wait())
    try:
        await visit.until(hearing, timeout=HEARTBEAT_S)
        return hearing.done()
    finally:
        hearing.cancel()


def _event(ask: Ask, kind: str, place: Place, data: bytes) -> bytes:
    return b"id: %b\nevent: %b\ndata: %b\n\n" % (ask.tools.numbering.cursor(place).encode(), kind.encode(), data)
