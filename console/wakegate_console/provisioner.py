"""What the console says to a provider, with the provisioner token: one request, one bounded answer."""

import errno
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import aiohttp

from wakegate_console.waiting import Wait
from wakegate_schema import fault_points, wire
from wakegate_schema.errors import WakegateError
from wakegate_schema.sealing import BearerToken

TIMEOUT_S = 30.0
"""The provider challenges the receiver meanwhile, which may take ten seconds (AAP, webhooks)."""

MAX_ANSWER = 65_536
"""The longest answer that is read, in bytes."""

OTHERWISE = 0
"""In `Call.advice`: for every status that is not named."""

_NOBODY = "provider_not_listening"
_NO_RECEIVER = "webhook_verification_failed"
_THINGS = {_NOBODY: "the provider to listen", _NO_RECEIVER: "the receiver to answer the provider's challenge"}
"""What is worth waiting for, by the reason that it is not there."""

_AGAIN = "nothing is lost: run the same command again, it repeats the same submission"


class CallFailed(WakegateError):
    """The provider did not do what it was asked."""

    reason = "provider_call_failed"


@dataclass(frozen=True, slots=True)
class Call:
    """A call to a provider; made again, it is the same."""

    provider: str
    """Canonical base URL."""
    token: BearerToken = field(repr=False)
    method: str
    path: str
    advice: Mapping[int, str]
    """What to do about a refusal, by its status."""
    idempotency_key: str | None = None
    body: bytes | None = field(default=None, repr=False)
    url: str = "-"
    """The receiver that is to be challenged."""
    store: str = "-"
    """The store's name (`StoreLocation.name`), to be told where the receiver may use another."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that says success, or one of the statuses that were asked for."""

    status: int
    body: bytes = field(repr=False)


async def ask_once_ready(call: Call, wait: Wait, *, good: tuple[int, ...]) -> Answer:
    """Make a call, again while provider or receiver do not listen yet.

    Raises:
        CallFailed: as `ask`, or the time is up.
    """
    while True:
        try:
            return await ask(call, good=good)
        except CallFailed as error:
            thing = _THINGS.get(error.reason)
            if thing is None or wait.over:
                raise
            await wait.pause(thing)


async def ask(call: Call, *, good: tuple[int, ...]) -> Answer:
    """Make a call; no redirect is followed, and the answer is bounded.

    Args:
        call: what is asked for.
        good: the statuses that are no refusal.

    Raises:
        CallFailed: the provider did not answer, or refused; the message says what to do and holds no secret.
    """
    try:
        status, retry_after, data = await _exchange(call)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        if _is_refused(error):
            raise CallFailed(
                f"the provider at {call.provider} is not running, or not there: the connection was refused; {_AGAIN}",
                reason=_NOBODY,
            ) from None
        raise CallFailed(
            f"the provider at {call.provider} did not answer ({_cause(error)}); {_AGAIN}",
            reason="provider_unreachable",
        ) from None
    if status not in good:
        raise _refusal(call, status, retry_after, data)
    return Answer(status, data)


def malformed(call: Call, error: wire.MalformedObject) -> CallFailed:
    """Return what is raised for an answer that says success and is not what AAP defines."""
    return CallFailed(
        f"the answer of the provider at {call.provider} is not what AAP defines: {error}"
        " Is this the base URL of an AAP provider?",
        reason="malformed_answer",
    )


async def _exchange(call: Call) -> tuple[int, str | None, bytes]:
    headers = {
        "Authorization": f"Bearer {call.token.reveal()}",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    if call.idempotency_key is not None:
        headers["Idempotency-Key"] = call.idempotency_key
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    await fault_points.passing("http_out.send", f"provisioner.{call.method}")
    async with (
        aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=TIMEOUT_S), cookie_jar=aiohttp.DummyCookieJar()
        ) as session,
        session.request(
            call.method, f"{call.provider}{call.path}", data=call.body, headers=headers, allow_redirects=False
        ) as response,
    ):
        body = await _bounded(response.content)
        await fault_points.passing("http_out.answered", f"provisioner.{call.method}")
        return response.status, response.headers.get("Retry-After"), body


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    """Read an answer; one that is too long is cut, and then it is not JSON."""
    data = bytearray()
    while len(data) <= MAX_ANSWER:
        piece = await content.read(MAX_ANSWER + 1 - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def _is_refused(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno == errno.ECONNREFUSED


def _cause(error: BaseException) -> str:
    """Name the trouble without anything that was sent."""
    if isinstance(error, TimeoutError):
        return f"nothing for {TIMEOUT_S:g} s"
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientSSLError):
        return "its certificate was not accepted"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__


def _refusal(call: Call, status: int, retry_after: str | None, data: bytes) -> CallFailed:
    """Say what an answer that is not good means, and what to do."""
    code = _code(data)
    said = f"the provider at {call.provider} answered {status}" + (f" ({code})" if code else "")
    if status == 422:
        return _not_proved(call, said, _told(data))
    return CallFailed(f"{said}: {_advice(call, status, code, retry_after)}", reason=code)


def _not_proved(call: Call, said: str, told: int | None) -> CallFailed:
    """Say why the receiver did not prove itself.

    Args:
        call: what was asked for.
        said: how the message begins.
        told: the status that the receiver answered the challenge with, where that is known.
    """
    if told is None:
        return CallFailed(
            f"{said}: the receiver did not answer its challenge at {call.url}; is it running, does the provider reach"
            f" it there, and does it use this store ({call.store})?",
            reason=_NO_RECEIVER,
        )
    if told == 403:
        return CallFailed(
            f"{said}: the receiver at {call.url} refused the challenge (403): it does not expect this registration."
            f" Does it use this store ({call.store})? Has it the same receiver key? Where it runs, `wakegate refusal"
            " list` and its log say what it refused, and `wakegate doctor` whether its key fits",
            reason="receiver_refused",
        )
    return CallFailed(
        f"{said}: what answers at {call.url} answered the challenge with {told}; is it the receiver? Where it runs,"
        " `wakegate refusal list` says what it refused",
        reason=_NO_RECEIVER if told == 503 else "receiver_refused",
    )


def _told(data: bytes) -> int | None:
    """Return the receiver's status that our small provider names in its message; nothing else is read of it."""
    try:
        message = wire.parse_object(wire.ErrorBody, data, max_bytes=MAX_ANSWER).error.message
    except wire.MalformedObject:
        return None
    found = re.search(r"\(status_([0-9]{3})\)", message)
    return None if found is None else int(found[1])


def _advice(call: Call, status: int, code: str | None, retry_after: str | None) -> str:
    if code == "invalid_webhook_url":
        return f"it will not deliver to {call.url}; give a --url that it can reach"
    if 300 <= status < 400:
        return "redirects are not followed; give the provider's final base URL as --provider-url"
    if status in (401, 403):
        return "it does not take this provisioner token; check --provisioner-token-file"
    if status == 429 or status >= 500:
        wait = f" in {retry_after} s" if retry_after is not None and retry_after.isdecimal() else " later"
        return f"try again{wait}; {_AGAIN}"
    return call.advice.get(status, call.advice[OTHERWISE])


def _code(data: bytes) -> str | None:
    try:
        return wire.parse_object(wire.ErrorBody, data, max_bytes=MAX_ANSWER).error.code
    except wire.MalformedObject:
        return None
