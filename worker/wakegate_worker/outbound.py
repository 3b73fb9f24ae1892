"""Outbound HTTP: one session for the whole process, and exchanges that nothing on the other side can make unbounded."""

import asyncio
import functools
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from wakegate_schema import fault_points
from wakegate_schema.errors import WakegateError

MAX_BODY: Final = 1_048_576
"""Bytes of an answer's body that are read; more is not an answer."""
USER_AGENT: Final = "wakegate"

PROBLEMS: Final = {
    "timeout": "no whole answer came in time",
    "dns": "the host's name does not resolve",
    "tls": "TLS failed: the certificate or the connection is not what HTTPS needs",
    "connection_lost": "the connection ended before the whole answer had come",
    "connection_refused": "nothing listens at the address",
    "connection_failed": "no connection could be made",
    "malformed_http": "the answer is not HTTP",
}
"""Why no answer came: the machine word, and a sentence for it."""


Caller = Literal["submit", "read", "poll", "cancel", "consume", "report", "wake"]
"""What an exchange is for."""


class Unanswered(WakegateError):
    """No answer came."""

    reason = "connection_failed"


@dataclass(frozen=True, slots=True)
class Limits:
    """How long an exchange may take, in seconds, and how much of its answer is read, in bytes."""

    connect_s: float = 10.0
    total_s: float = 30.0
    """From the first attempt to connect to the last byte of the answer."""
    max_body: int = MAX_BODY


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back, unjudged."""

    status: int
    headers: CIMultiDictProxy[str] = field(repr=False)
    body: bytes | None = field(repr=False)
    """None when it was longer than the limit or, beside an error status, did not arrive whole."""
    received_monotonic: float
    """`time.monotonic()` when the head of the answer was here."""


def open_session() -> aiohttp.ClientSession:
    """Return the process's HTTP session: no cookies, no proxy or netrc from the environment, no decompression.

    How many exchanges run at once is the callers' to bound; a pool that made a long poll's neighbours queue would
    turn waiting into timeouts.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
    )


async def exchange(
    session: aiohttp.ClientSession,
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    limits: Limits,
    caller: Caller,
) -> Answer:
    """Send one request to exactly this URL and return its answer, redirects included as they are.

    Args:
        session: from `open_session`.
        method: the HTTP method.
        url: absolute, already in its final form; nothing is re-quoted.
        headers: beside the session's own.
        body: the exact bytes, or None for no body.
        limits: `max_body` 0 leaves the body unread.
        caller: names its fault points.

    Raises:
        Unanswered: with one of the reasons `dns`, `connection_refused`, `connection_failed`, `connection_lost`,
            `tls`, `timeout`, `malformed_http`. Neither it nor its context holds the request.
    """
    try:
        await fault_points.passing("http_out.send", caller)
        async with session.request(
            method,
            URL(url, encoded=True),
            headers=headers,
            data=body,
            allow_redirects=False,
            auto_decompress=False,
            timeout=_timeout(limits),
        ) as response:
            received = time.monotonic()
            content = await _read(response, limits.max_body)
            if limits.max_body == 0:
                response.close()
            await fault_points.passing("http_out.answered", caller)
            return Answer(response.status, response.headers, content, received)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        reason = _reason(error)
    # Raised out here: aiohttp's errors hold the request's headers, the credential among them.
    raise Unanswered(PROBLEMS[reason], reason=reason)


@functools.lru_cache(16)
def _timeout(limits: Limits) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=limits.total_s, sock_connect=limits.connect_s)


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes | None:
    if limit == 0:
        return None
    content = bytearray()
    try:
        while chunk := await response.content.readany():
            content += chunk
            if len(content) > limit:
                response.close()
                return None
    except (aiohttp.ClientError, TimeoutError):
        if response.status < 300:
            raise
        return None  # the status line of a failure says enough
    return bytes(content)


_REASONS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (asyncio.TimeoutError, "timeout"),
    (aiohttp.ClientConnectorDNSError, "dns"),
    (aiohttp.ClientSSLError, "tls"),
    (ssl.SSLError, "tls"),
    (aiohttp.ServerDisconnectedError, "connection_lost"),
    (aiohttp.ClientPayloadError, "connection_lost"),
    (aiohttp.ClientConnectionResetError, "connection_lost"),
    (ConnectionResetError, "connection_lost"),
    (BrokenPipeError, "connection_lost"),
    (aiohttp.ClientResponseError, "malformed_http"),
    (ConnectionRefusedError, "connection_refused"),
    (OSError, "connection_failed"),
    (aiohttp.ClientConnectionError, "connection_failed"),
)


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return "connection_refused"
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), "malformed_http")
