"""The inspection of a captured delivery: the receiver's own checks, in its order, each with what it says.

Every rule is the receiver's function; a test gives the same deliveries to a running receiver and compares.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from wakegate_console.capture import Capture
from wakegate_receiver import messages, screening
from wakegate_receiver.answers import Refused
from wakegate_receiver.body import read_body
from wakegate_receiver.messages import NOTIFICATION, VERIFICATION, Message
from wakegate_schema.clock import SECOND
from wakegate_schema.signing import SecurityHeaders, SigningSecret, Verified, verify
from wakegate_schema.wire import ResolvedEvent, VerificationEvent, WireModel

T = TypeVar("T")

Secrets = Mapping[str, SigningSecret]
"""Signing secrets by what they are called in the report."""


@dataclass(frozen=True, slots=True)
class Check:
    """What one check says."""

    name: str
    result: Literal["pass", "fail", "not reached", "not looked at"]
    reason: str | None = None
    """The reason that the receiver gives."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What the receiver's settings allow."""

    events_path: str
    max_body_bytes: int


@dataclass(slots=True)
class Inspection:
    """What came out; what is None could not be read."""

    checks: list[Check] = field(default_factory=list)
    headers: SecurityHeaders | None = None
    body: bytes | None = field(default=None, repr=False)
    message: Message | None = None
    secrets: Secrets = field(default_factory=dict, repr=False)
    """Those that were tried."""
    signer: str | None = None
    """What the secret is called that signed these bytes, fresh or not."""

    @property
    def reason(self) -> str | None:
        """The reason of the first check that fails, which is the one the receiver gives; None where none fails."""
        return next((check.reason for check in self.checks if check.result == "fail"), None)

    def skip(self, name: str, result: Literal["not reached", "not looked at"] = "not reached") -> None:
        """Say that a check was not made."""
        self.checks.append(Check(name, result))

    def say(self, name: str, reason: str | None) -> None:
        """Say how a check ended."""
        self.checks.append(Check(name, "pass" if reason is None else "fail", reason))

    def look(self, name: str, check: Callable[[], T]) -> T | None:
        """Make a check and return what it gives."""
        try:
            value = check()
        except Refused as refused:
            self.say(name, refused.reason)
            return None
        self.say(name, None)
        return value


async def inspect(
    capture: Capture | None, rules: Rules, secrets_for: Callable[[Message | None], Secrets], at: int
) -> Inspection:
    """Make every check of the receiver that can be made, also those after the first that fails.

    Args:
        capture: the delivery; None for one whose head is not HTTP.
        rules: the receiver's.
        secrets_for: the secrets that may have signed a message, None standing for a body that names none.
        at: when it was received (µs).
    """
    found = Inspection()
    if capture is None:
        found.say("HTTP", "malformed_http")
        return found
    _screen(found, capture, rules)
    await _read(found, capture, rules.max_body_bytes)
    _prove(found, secrets_for, at)
    _complete(found)
    found.skip("the store's record", "not looked at")
    return found


def _screen(found: Inspection, capture: Capture, rules: Rules) -> None:
    """The request line and the headers, as `App` looks at them."""
    headers = capture.headers
    if capture.whole:
        found.look("HTTP version", lambda: screening.check_version(capture.version))
        found.look("size of line and headers", lambda: screening.check_size(capture.target, capture.raw))
        found.look("path and method", lambda: screening.check_target(capture.method, capture.target, rules.events_path))
    found.look("declared length", lambda: screening.check_length(headers, rules.max_body_bytes))
    if capture.whole or "Content-Type" in headers:
        found.look("content type and encoding", lambda: screening.check_media(headers))
    else:
        found.skip("content type and encoding", "not looked at")
    found.headers = found.look("security headers", lambda: screening.security_headers(capture.raw))
    found.look("expectation", lambda: screening.wants_continue(headers, capture.version))


async def _read(found: Inspection, capture: Capture, max_bytes: int) -> None:
    """The body, of which all that will come is there."""
    try:
        found.body = await read_body(capture.content, max_bytes, asyncio.get_running_loop().time())
    except Refused as refused:
        found.say("the whole body", refused.reason)
        found.skip("JSON, type and id")
        return
    found.say("the whole body", None)
    body = found.body
    found.message = found.look("JSON, type and id", lambda: messages.read(body))


def _prove(found: Inspection, secrets_for: Callable[[Message | None], Secrets], at: int) -> None:
    """The secret, the signature and the timestamp."""
    found.secrets = secrets_for(found.message)
    if found.message is not None and not found.secrets:
        unknown = "unknown_registration" if found.message.kind == VERIFICATION else "unknown_instance"
        found.say("a known secret", unknown)
    elif found.secrets:
        found.say("a known secret", None)
    else:
        found.skip("a known secret")
    if found.headers is None or found.body is None or not found.secrets:
        found.skip("signature")
        found.skip("timestamp")
        return
    result = verify(found.secrets, found.headers, found.body, at / SECOND)
    timely = verify(found.secrets, found.headers, found.body, found.headers.timestamp)
    found.signer = timely.key if isinstance(timely, Verified) else None
    found.say("signature", None if found.signer is not None else "wrong_signature")
    if found.signer is None:
        found.skip("timestamp")
    else:
        found.say("timestamp", None if isinstance(result, Verified) else "timestamp_off")


def _complete(found: Inspection) -> None:
    """The whole object."""
    message, headers = found.message, found.headers
    if message is None or headers is None:
        found.skip("the whole object")
        return
    found.look("the whole object", lambda: _event(message, headers.message_id))


def _event(message: Message, message_id: str) -> Any:
    return messages.complete(_MODELS[message.kind], message, message_id)


_MODELS: Final[Mapping[str, type[WireModel]]] = {VERIFICATION: VerificationEvent, NOTIFICATION: ResolvedEvent}
