"""The public endpoint: one function from request to answer, in the order of DESIGN, "The receiver's answers"."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from aiohttp.streams import StreamReader

from wakegate_receiver import messages, notifications, screening, verifications
from wakegate_receiver.answers import Refused, Reply, refusal
from wakegate_receiver.body import read_body
from wakegate_receiver.connections import Connections
from wakegate_receiver.keyring import Keyring, Signer
from wakegate_receiver.limits import Admission, Failures
from wakegate_receiver.messages import VERIFICATION, Message
from wakegate_receiver.refusals import Case, Refusals
from wakegate_receiver.webhooks import Head, WebhookConnection
from wakegate_schema import fault_points
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Arrival, Binding, Challenge, Receipt
from wakegate_schema.signing import SecurityHeaders, Verified, verify
from wakegate_schema.store import StoreError, StoreUnavailable

HELD_S: Final = 0.5
"""How long a refusal is kept back when there are more than `refused_rate_limit` a second; within Retry-After."""
LOOK_S: Final = 0.1
"""How often it is looked for requests whose time is over, in seconds."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""RFC 9110, 10.1.1."""


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
        self._waiting: dict[WebhookConnection, float] = {}
        """Whole requests, and until when they may wait: one clock for all of them."""

    async def handle(self, connection: WebhookConnection, head: Head, content: StreamReader) -> Reply:
        """Answer one request. Never raises for anything a sender can do."""
        loop = asyncio.get_running_loop()
        began = self._connections.headers_came(connection, loop.time(), whole=content.is_eof())
        deadline = began + self._bounds.request_timeout
        case = Case(connection.remote)
        try:
            try:
                return await self._answer(connection, head, content, case, deadline)
            except Refused as refused:
                reason = refused.reason
            except Exception as error:  # noqa: BLE001 - the last resort: an answer, a count and a line
                case.error = error
                reason = "unforeseen"
            self._waiting.pop(connection, None)
            if case.size is None:
                case.size = screening.declared_length(head.headers)
            return await self._refuse(reason, connection, case, deadline)
        finally:
            self._waiting.pop(connection, None)
            self._connections.answered(connection, loop.time())

    async def give_up_late(self) -> None:
        """End the waiting of requests whose time is over, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(LOOK_S)
            now = loop.time()
            for connection in [found for found, deadline in self._waiting.items() if deadline <= now]:
                del self._waiting[connection]
                connection.give_up()

    async def _answer(
        self, connection: WebhookConnection, head: Head, content: StreamReader, case: Case, deadline: float
    ) -> Reply:
        if self.draining:
            raise Refused("draining")
        headers = self._screen(head)
        if screening.wants_continue(head.headers, head.version):
            connection.write(_CONTINUE)
        whole = content.is_eof()
        body = await read_body(content, self._bounds.max_body_bytes, deadline)
        if not whole:
            self._connections.body_came(connection)
        case.body, case.size = body, len(body)
        message = messages.read(body)
        await fault_points.passing("http_in.received", message.kind)
        if message.kind == VERIFICATION:
            case.registration_id = message.selector
        else:
            case.instance_id = message.selector
        self._waiting[connection] = deadline
        try:
            at = self._now() / SECOND
            found = verify(self._keyring.secrets_for(message), headers, body, at)
            signer = found.key if isinstance(found, Verified) else await self._prove(message, headers, body, case, at)
            case.proved = True
            self._connections.proved(connection)
            self._genuine(self._now() / SECOND - headers.timestamp)
            with self._admission:
                if message.kind == VERIFICATION:
                    reply = await verifications.answer(message, headers, self._store.bind, self._now())
                else:
                    reply = await notifications.acknowledge(
                        message, headers, body, signer, self._store.record, self._now()
                    )
            await fault_points.passing("http_in.answer", message.kind)
        except asyncio.CancelledError:
            if not connection.was_given_up():
                raise
            raise Refused("store_timeout") from None
        except StoreError as error:
            # Also what is no outage: tables that are gone, a number that was given before. It may be mended, and the
            # sender comes again.
            case.detail = error.reason
            case.error = None if isinstance(error, StoreUnavailable) else error
            raise Refused("store_unavailable") from None
        else:
            return reply

    def _screen(self, head: Head) -> SecurityHeaders:
        """Decide what can be decided before the body is read."""
        screening.check_version(head.version)
        screening.check_size(head.path, head.raw_headers)
        screening.check_target(head.method, head.path, self._bounds.events_path)
        screening.check_length(head.headers, self._bounds.max_body_bytes)
        screening.check_media(head.headers)
        return screening.security_headers(head.raw_headers)

    async def _prove(self, message: Message, headers: SecurityHeaders, body: bytes, case: Case, at: float) -> Signer:
        """Return whose secret signed a message that did not verify, looking again with the registrations as they are
        now: one made a moment ago works at once, and every failure takes the same way and the same time."""
        await self._keyring.renew()
        secrets = self._keyring.secrets_for(message)
        found = verify(secrets, headers, body, at)
        if isinstance(found, Verified):
            return found.key
        if not self._failures.spend():
            case.body = None
            raise Refused("too_many_failures")
        if not secrets:
            raise Refused("unknown_registration" if message.kind == VERIFICATION else "unknown_instance")
        raise Refused("wrong_signature" if found.reason == "signature" else "timestamp_off")

    async def _refuse(self, reason: str, connection: WebhookConnection, case: Case, deadline: float) -> Reply:
        """Count a refusal, and keep it back when there is too much junk, so that each of its connections sends little.

        Such a connection makes room for a new one before any other does.
        """
        self._refusals.note(reason, case)
        if not (case.proved or self.draining or self._failures.prompt()):
            case.body = None
            now = asyncio.get_running_loop().time()
            if self._connections.held(connection, now):
                await asyncio.sleep(min(HELD_S, max(0.0, deadline - now)))
        await fault_points.passing("http_in.answer", "refusal")
        return refusal(reason)
