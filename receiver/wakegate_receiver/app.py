"""The public endpoint: one function from request to answer, in the order of DESIGN, "The receiver's answers"."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from aiohttp import web

from wakegate_receiver import messages, notifications, screening, verifications
from wakegate_receiver.answers import Refused, refusal
from wakegate_receiver.body import read_body
from wakegate_receiver.connections import Connections
from wakegate_receiver.keyring import Keyring, Signer
from wakegate_receiver.limits import Admission, Failures
from wakegate_receiver.messages import VERIFICATION, Message
from wakegate_receiver.protocol import Connection
from wakegate_receiver.refusals import Case, Refusals
from wakegate_schema import fault_points
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Arrival, Binding, Challenge, Receipt
from wakegate_schema.signing import SecurityHeaders, Verified, verify
from wakegate_schema.store import StoreError, StoreUnavailable

HELD_S: Final = 0.5
"""How long a refusal is kept back when there are more than `refused_rate_limit` a second; within Retry-After."""


class Records(Protocol):
    """The two verbs of the store that a request can reach."""

    async def record(self, arrival: Arrival) -> Receipt:
        """Record a verified notification, durably."""

    async def bind(self, challenge: Challenge) -> Binding:
        """Bind a challenged instance, durably."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a request may be."""

    events_path: str
    max_body_bytes: int
    request_timeout: float
    """Seconds for a whole request, from its first byte to its answer."""


class App:
    """Takes requests off the public listener."""

    def __init__(
        self,
        bounds: Bounds,
        store: Records,
        keyring: Keyring,
        refusals: Refusals,
        connections: Connections,
        admission: Admission,
        failures: Failures,
        now: Callable[[], int],
        genuine: Callable[[float], None],
    ) -> None:
        """Take everything a request needs; `now` is the wall clock (µs).

        `genuine` is told by how many seconds it was ahead of each genuine message's timestamp.
        """
        self.draining = False
        """Set once, when the receiver stops: everything is answered 503 from then on."""
        self._bounds = bounds
        self._store = store
        self._keyring = keyring
        self._refusals = refusals
        self._connections = connections
        self._admission = admission
        self._failures = failures
        self._now = now
        self._genuine = genuine

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request. Never raises for anything a sender can do."""
        connection = request.protocol
        if not isinstance(connection, Connection):
            raise TypeError("the public listener serves its own connections only")
        loop = asyncio.get_running_loop()
        deadline = self._connections.headers_came(connection, loop.time()) + self._bounds.request_timeout
        try:
            return await self._judge(request, connection, deadline)
        finally:
            self._connections.answered(connection, loop.time())

    async def _judge(self, request: web.BaseRequest, connection: Connection, deadline: float) -> web.StreamResponse:
        """Return the answer, whatever it is."""
        case = Case(connection.remote, screening.declared_length(request.headers))
        try:
            return await self._answer(request, connection, case, deadline)
        except Refused as refused:
            reason = refused.reason
        except Exception as error:  # noqa: BLE001 - the last resort: an answer, a count and a line
            case.error = error
            reason = "unforeseen"
        self._refusals.note(reason, case)
        if not case.proved:
            del case  # with its body
            await self._hold_back(connection, deadline)
        await fault_points.passing("http_in.answer", "refusal")
        return refusal(reason)

    async def _hold_back(self, connection: Connection, deadline: float) -> None:
        """Wait when there is too much junk, so that each of its connections sends little of it.

        Such a connection makes room for a new one before any other does.
        """
        if self.draining or await self._failures.prompt():
            return
        now = asyncio.get_running_loop().time()
        if self._connections.held(connection, now):
            await asyncio.sleep(min(HELD_S, max(0.0, deadline - now)))

    async def _answer(
        self, request: web.BaseRequest, connection: Connection, case: Case, deadline: float
    ) -> web.Response:
        if self.draining:
            raise Refused("draining")
        headers = self._screen(request)
        if screening.wants_continue(request.headers, request.version):
            await _continue(request)
        body = await read_body(request.content, self._bounds.max_body_bytes, deadline)
        self._connections.body_came(connection)
        case.body, case.size = body, len(body)
        message = messages.read(body)
        await fault_points.passing("http_in.received", message.kind)
        if message.kind == VERIFICATION:
            case.registration_id = message.selector
        else:
            case.instance_id = message.selector
        try:
            async with asyncio.timeout_at(deadline):
                signer = await self._prove(message, headers, body, case)
                case.proved = True
                self._connections.proved(connection)
                self._genuine(self._now() / SECOND - headers.timestamp)
                answer = await self._act(message, headers, body, signer)
                await fault_points.passing("http_in.answer", message.kind)
                return answer
        except TimeoutError:
            raise Refused("store_timeout") from None
        except StoreError as error:
            # Also what is no outage: tables that are gone, a number that was given before. It may be mended, and the
            # sender comes again.
            case.detail = error.reason
            case.error = None if isinstance(error, StoreUnavailable) else error
            raise Refused("store_unavailable") from None

    def _screen(self, request: web.BaseRequest) -> SecurityHeaders:
        """Decide what can be decided before the body is read."""
        screening.check_version(request.version)
        screening.check_size(request.raw_path, request.raw_headers)
        screening.check_target(request.method, request.raw_path, self._bounds.events_path)
        screening.check_length(request.headers, self._bounds.max_body_bytes)
        screening.check_media(request.headers)
        return screening.security_headers(request.raw_headers)

    async def _prove(self, message: Message, headers: SecurityHeaders, body: bytes, case: Case) -> Signer:
        """Return whose secret signed the message.

        Whatever fails is looked at twice, the second time with the registrations as they are now: one made a moment
        ago works at once, and every failure takes the same way and the same time.
        """
        at = self._now() / SECOND
        result = verify(self._keyring.secrets_for(message), headers, body, at)
        if isinstance(result, Verified):
            return result.key
        await self._keyring.renew()
        secrets = self._keyring.secrets_for(message)
        result = verify(secrets, headers, body, at)
        if isinstance(result, Verified):
            return result.key
        try:
            await self._failures.spend()
        except Refused:
            case.body = None
            raise
        if not secrets:
            raise Refused("unknown_registration" if message.kind == VERIFICATION else "unknown_instance")
        raise Refused("wrong_signature" if result.reason == "signature" else "timestamp_off")

    async def _act(self, message: Message, headers: SecurityHeaders, body: bytes, signer: Signer) -> web.Response:
        """Do what a message asks for, now that it is genuine."""
        async with self._admission:
            if message.kind == VERIFICATION:
                return await verifications.answer(message, headers, self._store.bind, self._now())
            return await notifications.acknowledge(message, headers, body, signer, self._store.record, self._now())


async def _continue(request: web.BaseRequest) -> None:
    """Tell the sender to go on with its body (RFC 9110, 10.1.1)."""
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0
