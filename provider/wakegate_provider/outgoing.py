"""Calls out: one signed POST to a receiver on loopback, bounded in time and size, without redirects."""

import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from wakegate_schema import signing
from wakegate_schema.clock import SECOND
from wakegate_schema.errors import WakegateError
from wakegate_schema.urls import is_loopback

ATTEMPT_SECONDS = 10.0
"""How long one attempt may take, from connecting to the end of the answer (AAP, delivery)."""

ANSWER_LIMIT = 4096
"""How many bytes of an answer are read."""


class Unanswered(WakegateError):
    """The receiver gave no answer."""

    reason = "unanswered"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver answered."""

    status: int
    body: bytes
    """At most `ANSWER_LIMIT` + 1 bytes; one more than the limit says that it was longer."""
    retry_after: str | None


def loopback_url(url: str) -> bool:
    """Tell whether a receiver's URL, valid otherwise, leads to this machine; no other is called."""
    host = urlsplit(url).hostname
    return host is not None and is_loopback(host)


def open_session() -> aiohttp.ClientSession:
    """Return the session for all calls out: no cookies, no proxy, no name but `localhost`.

    Every attempt has a connection of its own: one kept open may be dead, and a challenge has one attempt only.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=_LoopbackResolver(), limit=0, use_dns_cache=False, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=ATTEMPT_SECONDS),
        auto_decompress=False,
        skip_auto_headers=("Accept-Encoding",),
        headers={"User-Agent": "wakegate-provider"},
    )


async def post_signed(
    session: aiohttp.ClientSession,
    url: str,
    secret: signing.SigningSecret,
    message_id: str,
    body: bytes,
    now: int,
) -> Answer:
    """POST one message, signed as of now (AAP, webhooks).

    Args:
        session: from `open_session`.
        url: the receiver.
        secret: the registration's signing secret.
        message_id: the body's `id`.
        body: the exact bytes to sign and to send.
        now: µs since the epoch.

    Raises:
        Unanswered: with the reason `timeout`, `not_loopback` or `connection`.
    """
    if not loopback_url(url):
        raise Unanswered("the receiver is not on loopback", reason="not_loopback")
    headers = {
        "Content-Type": "application/json",
        **signing.signed_headers([secret], message_id, now // SECOND, body),
    }
    try:
        async with session.post(url, data=body, headers=headers, allow_redirects=False) as response:
            answer = await _read(response.content)
            return Answer(response.status, answer, response.headers.get("Retry-After"))
    except TimeoutError as error:
        raise Unanswered("the receiver did not answer in time", reason="timeout") from error
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unanswered("the receiver could not be reached", reason="connection") from error


async def _read(content: aiohttp.StreamReader) -> bytes:
    """Read an answer up to one byte over the limit."""
    read = bytearray()
    while len(read) <= ANSWER_LIMIT:
        chunk = await content.read(ANSWER_LIMIT + 1 - len(read))
        if not chunk:
            break
        read += chunk
    return bytes(read)


class _LoopbackResolver(AbstractResolver):
    """Resolves `localhost` to loopback without asking anybody, and nothing else."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if not is_loopback(host):
            raise OSError("only loopback is resolved")
        addresses = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
        return [
            ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST)
            for kind, address in addresses
            if family in (socket.AF_UNSPEC, kind)
        ]

    async def close(self) -> None:
        """Hold nothing."""
