"""The one thing the console says to a provider: `POST /v1/instances`, with the provisioner token."""

import errno
import re
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from wakegate_console.waiting import Wait
from wakegate_schema import wire
from wakegate_schema.errors import WakegateError
from wakegate_schema.sealing import BearerToken

TIMEOUT_S = 30.0
"""The provider challenges the receiver meanwhile, which may take ten seconds (AAP, webhooks)."""

MAX_ANSWER = 65_536
"""The longest answer that is read, in bytes."""

_NOBODY = "provider_not_listening"
_NO_RECEIVER = "webhook_verification_failed"
_THINGS = {_NOBODY: "the provider to listen", _NO_RECEIVER: "the receiver to answer the provider's challenge"}
"""What is worth waiting for, by the reason that it is not there."""

_AGAIN = "nothing is lost: run the same command again, it repeats the same submission"


class CreationFailed(WakegateError):
    """The provider did not create the instance."""

    reason = "creation_failed"


@dataclass(frozen=True, slots=True)
class Creation:
    """An instance to be created; sent again, it is the same creation."""

    provider: str
    """Canonical base URL."""
    token: BearerToken = field(repr=False)
    idempotency_key: str
    body: wire.NewInstance = field(repr=False)
    store: Path
    """The store's file, to be named where the receiver may use another."""


async def create_once_ready(creation: Creation, wait: Wait) -> wire.ProvisionedInstance:
    """Ask for the instance, again while provider or receiver do not listen yet: it is the same submission each time.

    Raises:
        CreationFailed: as `create_instance`, or the time is up.
    """
    while True:
        try:
            return await create_instance(creation)
        except CreationFailed as error:
            thing = _THINGS.get(error.reason)
            if thing is None or wait.over:
                raise
            await wait.pause(thing)


async def create_instance(creation: Creation) -> wire.ProvisionedInstance:
    """Ask the provider for the instance; no redirect is followed, and the answer is bounded.

    Raises:
        CreationFailed: it did not answer, or refused; the message says what to do and holds no secret.
    """
    try:
        status, retry_after, data = await _post(creation)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        if _is_refused(error):
            raise CreationFailed(
                f"the provider at {creation.provider} is not running, or not there: the connection was refused;"
                f" {_AGAIN}",
                reason=_NOBODY,
            ) from None
        raise CreationFailed(
            f"the provider at {creation.provider} did not answer ({_cause(error)}); {_AGAIN}",
            reason="provider_unreachable",
        ) from None
    if status not in (200, 201):
        raise _refusal(creation, status, retry_after, data)
    try:
        return wire.parse_object(wire.ProvisionedInstance, data, max_bytes=MAX_ANSWER)
    except wire.MalformedObject as error:
        raise CreationFailed(
            f"the answer of the provider at {creation.provider} is not what AAP defines: {error}"
            " Is this the base URL of an AAP provider?",
            reason="malformed_answer",
        ) from None


async def _post(creation: Creation) -> tuple[int, str | None, bytes]:
    headers = {
        "Authorization": f"Bearer {creation.token.reveal()}",
        "Idempotency-Key": creation.idempotency_key,
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
    }
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with (
        aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.post(
            f"{creation.provider}/v1/instances",
            data=wire.object_bytes(creation.body),
            headers=headers,
            allow_redirects=False,
        ) as response,
    ):
        return response.status, response.headers.get("Retry-After"), await _bounded(response.content)


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


def _refusal(creation: Creation, status: int, retry_after: str | None, data: bytes) -> CreationFailed:
    """Say what an answer other than 200 and 201 means, and what to do."""
    code = _code(data)
    said = f"the provider at {creation.provider} answered {status}" + (f" ({code})" if code else "")
    if status == 422:
        return _not_proved(creation, said, _told(data))
    return CreationFailed(f"{said}: {_advice(creation, status, code, retry_after)}", reason=code or "creation_failed")


def _not_proved(creation: Creation, said: str, told: int | None) -> CreationFailed:
    """Say why the receiver did not prove itself.

    Args:
        creation: what was asked for.
        said: how the message begins.
        told: the status that the receiver answered the challenge with, where that is known.
    """
    url = creation.body.delivery.url if creation.body.delivery else "-"
    if told is None:
        return CreationFailed(
            f"{said}: the receiver did not answer its challenge at {url}; is it running, does the provider reach it"
            f" there, and does it use this store ({creation.store})?",
            reason=_NO_RECEIVER,
        )
    if told == 403:
        return CreationFailed(
            f"{said}: the receiver at {url} refused the challenge (403): it does not expect this registration. Does it"
            f" use this store ({creation.store})? Where it runs, `wakegate refusal list` says what it refused",
            reason="receiver_refused",
        )
    return CreationFailed(
        f"{said}: what answers at {url} answered the challenge with {told}; is it the receiver? Where it runs,"
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


def _advice(creation: Creation, status: int, code: str | None, retry_after: str | None) -> str:
    url = creation.body.delivery.url if creation.body.delivery else "-"
    if code == "invalid_webhook_url":
        return f"it will not deliver to {url}; give a --url that it can reach"
    if 300 <= status < 400:
        return "redirects are not followed; give the provider's final base URL as --provider-url"
    if status in (401, 403):
        return "it does not take this provisioner token; check --provisioner-token-file"
    if status == 404:
        return "there is no AAP provider at this base URL; check --provider-url"
    if status == 409:
        return "another creation has this key; retire this registration and provision under another name"
    if status == 429 or status >= 500:
        wait = f" in {retry_after} s" if retry_after is not None and retry_after.isdecimal() else " later"
        return f"try again{wait}; {_AGAIN}"
    return "it does not accept this instance; check --name and --url"


def _code(data: bytes) -> str | None:
    try:
        return wire.parse_object(wire.ErrorBody, data, max_bytes=MAX_ANSWER).error.code
    except wire.MalformedObject:
        return None
