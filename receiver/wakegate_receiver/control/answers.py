"""Every refusal of the control API: one table, from the machine reason to the status, and one shape.

`docs/control.md` holds the same rows, and a test keeps the two equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web

from wakegate_receiver.answers import SERVER
from wakegate_receiver.control import shapes
from wakegate_schema.errors import WakegateError
from wakegate_schema.states import State


@dataclass(frozen=True, slots=True)
class Answer:
    """How one situation is answered."""

    status: int
    situation: str
    """What is wrong and what to do: the message, where there is no finer one."""
    retry_after: int | None = None
    """Seconds."""
    closes: bool = False
    """Whether the connection ends with this answer."""


def _refused_claims() -> dict[str, Answer]:
    """Return the answers to claims of calls whose state permits none."""
    return {
        state.value: Answer(409, f"a claim of a call that is {state.value.replace('_', ' ')}")
        for state in State
        if state not in (State.PERMITTED, State.STARTED)
    }


ANSWERS: Final[Mapping[str, Answer]] = MappingProxyType(
    {
        "malformed_http": Answer(400, "this is not HTTP/1.1 as it is accepted here", closes=True),
        "draining": Answer(503, "the receiver is stopping; ask again, the next one will answer", 1),
        "too_many_connections": Answer(503, "every connection to the control listener is busy", 1, closes=True),
        "unauthenticated": Answer(401, "the bearer token is missing or is no harness's"),
        "harness_unknown": Answer(403, "no [harness.NAME] table names this user"),
        "harnesses_unreadable": Answer(
            503, "the settings file does not say which harness may use what; its operator must mend it", 5
        ),
        "wrong_path": Answer(404, "there is nothing at this path; see /v1/openapi.json"),
        "wrong_method": Answer(405, "this path takes another method"),
        "rate_limit": Answer(429, "this harness asks more often than it may", 1),
        "too_many_requests": Answer(429, "this harness has too many requests in progress", 1),
        "too_many_streams": Answer(429, "this harness has too many streams open", 5),
        "malformed_path": Answer(400, "the path is not UTF-8, percent-encoded"),
        "unknown_parameter": Answer(400, "a parameter that this path does not have"),
        "repeated_parameter": Answer(400, "a parameter, or the Last-Event-ID header, more than once"),
        "bad_parameter": Answer(400, "a parameter's value is not what it must be"),
        "unsupported_expectation": Answer(417, "an Expect header other than 100-continue"),
        "unexpected_body": Answer(400, "this method takes no body", closes=True),
        "body_too_large": Answer(413, "the body is over 1 MiB", closes=True),
        "wrong_content_encoding": Answer(415, "the body is encoded; send it as it is"),
        "wrong_content_type": Answer(415, "the Content-Type is missing or other than application/json"),
        "wrong_charset": Answer(415, "the charset is another than UTF-8"),
        "request_timeout": Answer(408, "the request did not come, or was not done, in time", closes=True),
        "not_json": Answer(400, "the body is not JSON, or a value is not what can be saved as JSON"),
        "bom": Answer(400, "the body begins with a byte order mark"),
        "not_utf8": Answer(400, "the body is not UTF-8"),
        "too_deep": Answer(400, "JSON is nested too deep"),
        "lone_surrogate": Answer(400, "a string holds half of a surrogate pair"),
        "duplicate_key": Answer(400, "an object has a key twice"),
        "non_finite_number": Answer(400, "NaN or Infinity"),
        "number_too_long": Answer(400, "a number is too long"),
        "number_not_exact": Answer(400, "a number that a double does not hold exactly; send it as text"),
        "not_an_object": Answer(400, "the body is JSON but not an object"),
        "unknown_field": Answer(400, "a field that this request does not have"),
        "missing_field": Answer(400, "a field that this request must have is missing"),
        "wrong_type": Answer(400, "a field has the wrong type, or a number is out of bounds"),
        "unknown_value": Answer(400, "a field is not one of the words it may be"),
        "bad_tool": Answer(400, "`tool` is not 1 to 255 printable characters"),
        "bad_key": Answer(400, "`key` is not 1 to 255 visible ASCII characters"),
        "bad_instance": Answer(400, "`instance` is not 1 to 255 printable characters"),
        "bad_timeout": Answer(400, "`timeout` is not a duration such as 30m"),
        "bad_reasoning": Answer(400, "`reasoning` is over 16 KiB or holds U+0000"),
        "bad_group": Answer(400, "a group is not 1 to 255 visible ASCII characters"),
        "bad_version": Answer(400, "`version` is not 1 to 255 visible ASCII characters"),
        "bad_wake": Answer(400, "`wake` cannot be a wake target's name"),
        "bad_hold_id": Answer(400, "a hold's id is not 1 to 255 visible ASCII characters"),
        "bad_hold_seconds": Answer(400, "a hold's seconds are not above 0 and at most 3600"),
        "bad_claim_id": Answer(400, "`claim_id` is not 1 to 255 visible ASCII characters"),
        "bad_reason": Answer(400, "`reason` is not what it must be"),
        "bad_cursor": Answer(400, "no cursor of this receiver's stream"),
        "too_large": Answer(400, "`arguments` are over 256 KiB or `context` is over 64 KiB of JSON"),
        "call_refused": Answer(400, "the call cannot be saved as it is"),
        "unstorable_value": Answer(400, "the store cannot hold a value of this request"),
        "instance_unclear": Answer(400, "no instance of this harness fits, or more than one does"),
        "not_found": Answer(404, "this harness has no such call or group"),
        "idempotency_conflict": Answer(409, "the key was used for another call; make a new key for a new call"),
        "instance_retired": Answer(409, "the instance is retired; choose another"),
        "group_sealed": Answer(409, "the group is sealed and takes no further call"),
        "group_wakes_another_target": Answer(409, "the group's calls wake another target"),
        "already_started": Answer(409, "the call has started: it is not started again, and cannot be given up"),
        "not_your_attempt": Answer(409, "the number and token are not those of this call's attempt"),
        "runs_in_worker": Answer(409, "a claim of a call that the worker runs"),
        "older_epoch": Answer(409, "a claim of a call that waits for an operator's release"),
        "too_late": Answer(409, "a claim with less than two seconds left before the approval ends"),
        "clock_behind": Answer(409, "the receiver's clock is behind a time that it has shown"),
        **_refused_claims(),
        "not_allowed": Answer(409, "the call's present state does not allow this"),
        "store_unavailable": Answer(503, "the store cannot be read or written now; repeat the request", 2),
        "store_timeout": Answer(503, "the store did not answer in time; repeat the request", 2),
        "unforeseen": Answer(500, "a fault of the receiver's own; see its log", closes=True),
    }
)
"""Every reason there is."""


class ControlRefused(WakegateError):
    """A request to the control API is refused."""

    reason = "unforeseen"

    def __init__(
        self,
        reason: str,
        message: str | None = None,
        *,
        path: str | None = None,
        more: Mapping[str, Any] = MappingProxyType({}),
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Take a reason of `ANSWERS` and, where there are any, finer words, the part at fault, and more to tell."""
        super().__init__(message or _sentence(ANSWERS[reason].situation), reason=reason)
        self.path = path
        self.more = more
        self.headers = headers


def refusal(refused: ControlRefused) -> web.Response:
    """Return the response for a refusal: its status, and an object of the one shape."""
    answer = ANSWERS[refused.reason]
    response = web.Response(
        status=answer.status,
        body=_body(refused),
        headers={"Content-Type": "application/json", "Server": SERVER, **_headers(refused.reason), **refused.headers},
    )
    if answer.closes:
        response.force_close()
    return response


def raw_refusal(reason: str) -> bytes:
    """Return the same response as bytes, for a connection that aiohttp cannot answer."""
    body, status = _body(ControlRefused(reason)), HTTPStatus(ANSWERS[reason].status)
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Server: {SERVER}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {value}" for name, value in _headers(reason).items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _body(refused: ControlRefused) -> bytes:
    told: dict[str, Any] = {"reason": refused.reason, "message": str(refused)}
    if refused.path is not None:
        told["path"] = refused.path
    return shapes.dumps(told | dict(refused.more))


def _headers(reason: str) -> dict[str, str]:
    answer = ANSWERS[reason]
    headers = {} if answer.retry_after is None else {"Retry-After": str(answer.retry_after)}
    if answer.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return headers


def _sentence(situation: str) -> str:
    return f"{situation[0].upper()}{situation[1:]}."
