"""Every answer the receiver gives besides success: one table, from the machine reason to the status.

The source of the rows is AAP ("Webhooks") and DESIGN, "The receiver's answers"; `docs/answers.md` holds the same
rows and a test keeps the two equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from wakegate_schema import strict_json
from wakegate_schema.errors import WakegateError

UNAUTHENTICATED: Final = "unauthenticated"
"""What the sender is told for every 401, so that it cannot tell an unknown instance from a wrong signature."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How one situation is answered."""

    status: int | None
    """HTTP status; None where the connection is closed and nothing can be said."""
    situation: str
    retry_after: int | None = None
    """Seconds, at most 5."""
    told: str | None = None
    """The reason given to the sender, where it is not the one kept."""
    closes: bool = False
    """Whether the connection ends with this answer."""


_JSON = "the body is not JSON as AAP has it"
_SHAPE = "the body is correctly signed but not one of the two objects AAP defines"

ANSWERS: Final[Mapping[str, Answer]] = MappingProxyType(
    {
        "malformed_http": Answer(400, "not HTTP/1.1 as it is accepted here", closes=True),
        "wrong_path": Answer(404, "another path than the events path"),
        "wrong_method": Answer(405, "another method than POST"),
        "body_too_large": Answer(413, "a body over the limit", closes=True),
        "wrong_content_encoding": Answer(
            415, "Content-Encoding other than identity, or Transfer-Encoding other than chunked"
        ),
        "wrong_content_type": Answer(415, "Content-Type missing or other than application/json"),
        "wrong_charset": Answer(415, "a charset other than UTF-8"),
        "missing_webhook_id": Answer(400, "no webhook-id header"),
        "repeated_webhook_id": Answer(400, "the webhook-id header more than once"),
        "malformed_webhook_id": Answer(400, "a webhook-id that is not a UUID"),
        "missing_webhook_timestamp": Answer(400, "no webhook-timestamp header"),
        "repeated_webhook_timestamp": Answer(400, "the webhook-timestamp header more than once"),
        "malformed_webhook_timestamp": Answer(400, "a webhook-timestamp that is not Unix seconds"),
        "missing_webhook_signature": Answer(400, "no webhook-signature header"),
        "repeated_webhook_signature": Answer(400, "the webhook-signature header more than once"),
        "malformed_webhook_signature": Answer(400, "a webhook-signature that is empty or over 8 KiB"),
        "unsupported_expectation": Answer(417, "an Expect header other than 100-continue"),
        "request_timeout": Answer(408, "the body did not come within the request's time", closes=True),
        "not_json": Answer(400, _JSON),
        "bom": Answer(400, "the body begins with a byte order mark"),
        "not_utf8": Answer(400, "the body is not UTF-8"),
        "too_large": Answer(400, "the body is over what JSON is read of"),
        "too_deep": Answer(400, "the body's JSON is nested too deep"),
        "lone_surrogate": Answer(400, "a string in the body holds half of a surrogate pair"),
        "duplicate_key": Answer(400, "an object in the body has a key twice"),
        "non_finite_number": Answer(400, "NaN or Infinity in the body"),
        "number_too_long": Answer(400, "a number in the body is too long"),
        "not_an_object": Answer(400, "the body is JSON but not an object"),
        "unknown_type": Answer(400, "a type other than webhook.verification and request.resolved"),
        "unknown_instance": Answer(401, "no secret is known for the instance", told=UNAUTHENTICATED),
        "wrong_signature": Answer(401, "no known secret signed these bytes", told=UNAUTHENTICATED),
        "timestamp_off": Answer(401, "signed, but more than 300 s ago or ahead", told=UNAUTHENTICATED),
        "not_live": Answer(
            401, "signed by a registration that does not speak for it, or no longer does", told=UNAUTHENTICATED
        ),
        "too_many_failures": Answer(429, "over the rate of traffic that fails the signature", 1),
        "unknown_registration": Answer(403, "a verification for a registration nobody expects"),
        "id_mismatch": Answer(400, "the body's id is not the webhook-id header"),
        "unknown_field": Answer(400, "a field AAP does not define"),
        "missing_field": Answer(400, "a field AAP requires is missing"),
        "wrong_type": Answer(400, "a field has the wrong type"),
        "bad_uuid": Answer(400, "a field that must be a UUID is not"),
        "bad_timestamp": Answer(400, "a field that must be a timestamp is not"),
        "malformed_object": Answer(400, _SHAPE),
        "rate_limit": Answer(429, "over the rate of correctly signed requests", 1),
        "concurrency_limit": Answer(429, "too many correctly signed requests in progress", 1),
        "registration_retired": Answer(403, "a signed verification for a retired registration"),
        "registration_superseded": Answer(403, "a signed verification for a registration that was replaced"),
        "registration_expired": Answer(403, "a signed verification that came too late"),
        "bound_to_other_instance": Answer(403, "the registration is bound to another instance"),
        "instance_bound_elsewhere": Answer(403, "the instance is bound to another registration"),
        "event_conflict": Answer(409, "an event id that named another request or instance before"),
        "store_unavailable": Answer(503, "the store cannot be written or read", 2),
        "store_timeout": Answer(503, "the store did not answer within the request's time", 2),
        "draining": Answer(503, "the receiver is stopping", 5, closes=True),
        "too_many_connections": Answer(503, "every connection is busy", 1, closes=True),
        "unforeseen": Answer(500, "a fault of the receiver's own; see its log", closes=True),
        "disconnected": Answer(None, "the sender left before its body was whole"),
        "evicted": Answer(None, "a waiting connection was closed to make room for a new one"),
        "silent": Answer(None, "no whole request came within the request's time"),
        "tls_failed": Answer(None, "the TLS handshake failed or took too long"),
    }
)
"""Every reason there is; the page has them in the order in which they are looked for."""


class Refused(WakegateError):
    """A request is refused."""

    reason = "unforeseen"

    def __init__(self, reason: str, *, fallback: str = "unforeseen") -> None:
        """Take a reason of `ANSWERS`; one that is not in it becomes `fallback`."""
        known = reason if reason in ANSWERS else fallback
        super().__init__(ANSWERS[known].situation, reason=known)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as it is written, but for its date; made once for everybody who gets it."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Besides those that every answer has."""
    closes: bool = False
    """Whether the connection ends with this answer."""
    head: bytes = field(init=False, repr=False)
    """The status line and the headers, without a `Date` and what may be said of the connection."""

    def __post_init__(self) -> None:
        status = HTTPStatus(self.status)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", f"Server: {SERVER}"]
        if self.body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.body)}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        object.__setattr__(self, "head", "\r\n".join([*lines, ""]).encode("ascii"))


def refusal(reason: str) -> Reply:
    """Return the answer for a reason: its status, a constant body, nothing of what was sent."""
    return _REFUSALS[reason]


def raw_refusal(reason: str) -> bytes:
    """Return the same as it is written on a connection that ends with it."""
    found = refusal(reason)
    return b"%bConnection: close\r\n\r\n%b" % (found.head, found.body)


def challenge(value: str) -> Reply:
    """Return the answer to an accepted verification, the challenge exactly as it was sent."""
    return Reply(200, strict_json.dumps({"challenge": value}))


def _refusal(reason: str, answer: Answer) -> Reply:
    headers = {}
    if answer.retry_after is not None:
        headers["Retry-After"] = str(answer.retry_after)
    if reason == "wrong_method":
        headers["Allow"] = "POST"
    body = strict_json.dumps({"reason": answer.told or reason})
    return Reply(answer.status or 400, body, headers, answer.closes or answer.status is None)


SERVER: Final = "wakegate"
RECEIVED: Final = Reply(204)
"""The acknowledgement of a notification (AAP: any 2xx after durable receipt)."""
_REFUSALS: Final = MappingProxyType({reason: _refusal(reason, answer) for reason, answer in ANSWERS.items()})
