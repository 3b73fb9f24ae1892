"""The control listener: one function from request to answer, in the order of docs/control.md."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

import structlog
from aiohttp import web

from wakegate_receiver import screening
from wakegate_receiver.answers import SERVER, Refused
from wakegate_receiver.body import read_body
from wakegate_receiver.connections import Connections
from wakegate_receiver.control import routes, shapes
from wakegate_receiver.control.answers import ControlRefused, refusal
from wakegate_receiver.control.asking import Ask, Reply, Tools
from wakegate_receiver.control.errors import refused_by
from wakegate_receiver.control.identity import Identities, Visitor
from wakegate_receiver.control.parameters import read_query
from wakegate_receiver.control.places import Places
from wakegate_receiver.control.protocol import ControlConnection
from wakegate_receiver.control.requests import MAX_BODY_BYTES, read
from wakegate_receiver.control.routes import PREFIX, Route
from wakegate_receiver.control.sending import send_all
from wakegate_receiver.control.visits import Visits
from wakegate_receiver.limits import Failures
from wakegate_receiver.refusals import Lines
from wakegate_schema import fault_points
from wakegate_schema.errors import WakegateError

REQUEST_S: Final = 10.0
"""The longest that a request may take, from its first byte to its answer; waiting comes on top."""
HELD_S: Final = 0.5
"""How long an answer to somebody unknown is kept back when there are too many of them."""
STRANGERS: Final = 50
"""Refusals of unknown visitors a second that are answered at once."""
INLINE_BYTES: Final = 2_048
"""A larger body is read in a thread, one at a time of each harness, so that webhooks need not wait for it."""
DOCUMENT: Final = "/v1/openapi.json"

Plain = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = structlog.get_logger()


class ControlApp:
    """Takes requests off the control listener."""

    def __init__(
        self,
        identities: Identities,
        tools: Tools,
        visits: Visits,
        places: Places,
        connections: Connections,
        plain: Mapping[str, Plain],
        document: bytes,
    ) -> None:
        """Take what a request needs.

        Args:
            identities: tells who asks.
            tools: what the verbs work with.
            visits: the requests that last.
            places: what one harness may have at a time.
            connections: the book of connections.
            plain: the paths that anybody who can connect may GET.
            document: the OpenAPI document.
        """
        self.draining = False
        """Set once, when the receiver stops: harnesses are answered 503 from then on."""
        self._identities = identities
        self._tools = tools
        self._visits = visits
        self._places = places
        self._connections = connections
        self._plain = plain
        self._document = document
        self._strangers = Failures(STRANGERS)
        self._lines = Lines("control")

    def drain(self) -> None:
        """Answer no harness any more, and end what lasts."""
        self.draining = True
        self._visits.drain()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, its sending included. Never raises for anything a client can do."""
        connection = request.protocol
        if not isinstance(connection, ControlConnection):
            raise TypeError("the control listener serves its own connections only")
        loop = asyncio.get_running_loop()
        deadline = self._connections.headers_came(connection, loop.time()) + REQUEST_S
        try:
            response = await self._judge(request, connection, deadline)
            await send_all(request, response)
        except ConnectionError:  # nobody is there for an answer, or nobody reads it
            connection.cut()
            return web.Response()
        else:
            return response
        finally:
            self._connections.answered(connection, loop.time())

    async def _judge(
        self, request: web.BaseRequest, connection: ControlConnection, deadline: float
    ) -> web.StreamResponse:
        """Return the answer, whatever it is."""
        visitor: Visitor | None = None
        cause: Exception
        try:
            path = self._screen(request)
            if (plain := self._plain.get(path)) is not None:
                return await self._answer_plain(request, plain)
            self._check_open(path)
            again = partial(self._identities.of, request.headers, connection.uid)
            visitor = again()
            await self._places.spend(visitor.name)
            return await self._answer(request, connection, path, visitor, again, deadline)
        except ConnectionError:
            raise  # nobody is there for an answer
        except WakegateError as error:
            if isinstance(error, Refused) and error.reason == "disconnected":
                raise ConnectionResetError from None
            refused, cause = refused_by(error), error
        except Exception as error:  # noqa: BLE001 - the last resort: an answer and a line
            refused, cause = ControlRefused("unforeseen"), error
        self._note(refused, visitor, cause)
        if request.writer.output_size:  # of a stream: nothing else can be said in the middle of one
            raise ConnectionAbortedError("the answer broke off")
        if visitor is None and not self._strangers.prompt():
            await asyncio.sleep(HELD_S)
        return refusal(refused)

    def _screen(self, request: web.BaseRequest) -> str:
        """Decide what the head of a request alone decides; return its path as it was written."""
        screening.check_version(request.version)
        screening.check_size(request.raw_path, request.raw_headers)
        return request.raw_path.partition("?")[0]

    def _check_open(self, path: str) -> None:
        """Let what harnesses may ask for pass, while they may ask at all."""
        if not path.startswith(PREFIX):
            raise ControlRefused("wrong_path")
        if self.draining:
            raise ControlRefused("draining")

    async def _answer_plain(self, request: web.BaseRequest, plain: Plain) -> web.StreamResponse:
        _check_method(request, ["GET"])
        return await plain(request)  # type: ignore[arg-type] # it asks nothing of it

    async def _answer(
        self,
        request: web.BaseRequest,
        connection: ControlConnection,
        path: str,
        visitor: Visitor,
        again: Callable[[], Visitor],
        deadline: float,
    ) -> web.StreamResponse:
        """Answer somebody who is known."""
        if path == DOCUMENT:
            _check_method(request, ["GET"])
            return _response(self._document)
        found, holders = routes.routes_at(path)
        _check_method(request, [route.method for route in found])
        route = next(route for route in found if route.method == request.method)
        place = self._places.stream if route.streams else self._places.request
        with place(visitor.name):
            query = read_query(request.raw_path.partition("?")[2], route.query)
            body = await self._read(request, connection, route, visitor, deadline)
            visitor = again()  # a body takes its time, in which the operator may have taken the harness out
            await fault_points.passing("http_in.received", f"control.{route.name}")
            ask = Ask(
                visitor, again, self._tools, request, holders, query, body, room=self._visits.room,
                lasting=partial(connection.lasting, self._visits, visitor, again),
            )  # fmt: skip
            reply = await self._act(route, ask, deadline)
            if not isinstance(reply, Reply):
                return reply
            if reply.execution_id is not None:
                told = {"verb": route.name, "harness": visitor.name or "own user", "execution_id": reply.execution_id}
                _log.info("a harness's request was done", action="control", **told)
            response = _response(reply.value, reply.status)
            await fault_points.passing("http_in.answer", f"control.{route.name}")
            await send_all(request, response)
            return response

    async def _act(self, route: Route, ask: Ask, deadline: float) -> Reply | web.StreamResponse:
        """Do what is asked for, in its time."""
        if route.streams:
            return await route.handler(ask)
        try:
            async with asyncio.timeout_at(deadline + ask.query.get("wait", 0.0)):
                return await route.handler(ask)
        except TimeoutError:
            raise ControlRefused("store_timeout") from None

    async def _read(
        self,
        request: web.BaseRequest,
        connection: ControlConnection,
        route: Route,
        visitor: Visitor,
        deadline: float,
    ) -> Any:
        """Return the body as what the verb takes."""
        if route.body is None:
            if request.body_exists:
                raise ControlRefused("unexpected_body")
            self._whole(connection)
            return None
        screening.check_length(request.headers, MAX_BODY_BYTES)
        if request.body_exists:
            screening.check_media(request.headers)
        elif route.body_required:
            raise ControlRefused("not_json", "The body is missing.")
        if screening.wants_continue(request.headers, request.version):
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        body = await read_body(request.content, MAX_BODY_BYTES, deadline)
        self._whole(connection)
        if not body and not route.body_required:
            body = b"{}"
        if len(body) <= INLINE_BYTES:
            return _understood(route, body)
        try:
            async with asyncio.timeout_at(deadline), self._places.turn(visitor.name):
                return await asyncio.to_thread(_understood, route, body)
        except TimeoutError:
            raise ControlRefused("request_timeout") from None

    def _whole(self, connection: ControlConnection) -> None:
        """Take note that a request is whole, and by somebody who is known: nothing cuts it from here on."""
        self._connections.body_came(connection)
        self._connections.proved(connection)

    def _note(self, refused: ControlRefused, visitor: Visitor | None, cause: BaseException | None) -> None:
        """Tell of one refusal, within a bound."""
        own = cause if refused.reason == "unforeseen" else None
        detail = str(cause) if refused.reason in _OPERATORS else None
        fields = {"detail": detail, "harness": visitor.name if visitor else None, "exc_info": own}
        self._lines.write(refused.reason, fields, asyncio.get_running_loop().time())


_OPERATORS: Final = ("harnesses_unreadable", "harness_unknown", "store_unavailable")
"""Refusals that want the operator: the log says what the harness is not told."""


def _understood(route: Route, body: bytes) -> Any:
    if route.body is None:
        raise TypeError("this verb takes no body")
    asked = read(route.body, body)
    return asked if route.prepare is None else route.prepare(asked)


def _check_method(request: web.BaseRequest, allowed: list[str]) -> None:
    if request.method not in allowed:
        raise ControlRefused(
            "wrong_method", f"This path takes {' and '.join(allowed)}.", headers={"Allow": ", ".join(allowed)}
        )


def _response(value: Any, status: int = 200) -> web.Response:
    return web.Response(
        status=status,
        body=value if isinstance(value, bytes) else shapes.dumps(value),
        headers={"Content-Type": "application/json", "Cache-Control": "no-store", "Server": SERVER},
    )
