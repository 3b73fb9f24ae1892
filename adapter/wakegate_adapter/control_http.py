"""Requests to the control API: one at a time, bounded in bytes and time, and never answered by anybody else."""

import errno
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import aiohttp
from yarl import URL

from wakegate_adapter.control_errors import not_understood, refused_by
from wakegate_adapter.errors import ControlRefused, ControlUnavailable
from wakegate_schema import fault_points, strict_json
from wakegate_schema.addresses import Address
from wakegate_schema.sealing import BearerToken

REQUEST_S: Final = 10.0
"""How long an answer may take, in seconds, beyond what it was asked to wait."""
ANSWER_LIMIT: Final = 4 * 1024 * 1024
"""The longest answer about one call that is read, in bytes."""
PAGE_LIMIT: Final = 64 * 1024 * 1024
"""The longest answer about many, in bytes."""
SILENCE_S: Final = 60.0
"""How long a stream may bring nothing, not even a sign of life, in seconds."""

Verb = Literal[
    "harness", "suspend", "list", "show", "hold", "claim", "renew", "finish", "abandon", "seal", "resolutions"
]
"""What is asked for, by the names of the API's document."""

_JSON: Final = "application/json"
_EVENTS: Final = "text/event-stream"
_UNKNOWN_TO_TCP: Final = "wakegate"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the API, as JSON."""

    status: int
    value: dict[str, Any]


class ControlHttp:
    """The way to one receiver's control listener. Used in one event loop; close it."""

    def __init__(self, address: Path | Address, token: BearerToken | None) -> None:
        """Take the socket's path, or a loopback address, and the token if there is one."""
        self._address = address
        self._token = token
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def ask(
        self,
        verb: Verb,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        wait: float = 0.0,
        limit: int = ANSWER_LIMIT,
    ) -> Answer:
        """Ask, and return the answer, be it yes or no.

        Args:
            verb: names its fault points.
            method: GET or POST.
            path: below the root, percent-encoded.
            body: what is sent as JSON.
            query: parameters.
            wait: seconds that the receiver was asked to wait before it answers.
            limit: the most bytes that are read.

        Raises:
            ControlUnavailable: nobody answered in time, or not in a form that is understood.
        """
        data = None if body is None else json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        timeout = aiohttp.ClientTimeout(total=wait + REQUEST_S, sock_connect=REQUEST_S)
        headers = {"Accept": _JSON} | ({} if data is None else {"Content-Type": _JSON})
        async with self._request(
            verb, method, path, data=data, query=query, headers=headers, timeout=timeout
        ) as response:
            content = await _read(response, limit)
            await fault_points.passing("http_out.answered", f"control.{verb}")
            return Answer(response.status, _object(content, response.content_type, limit))

    @asynccontextmanager
    async def stream(
        self, verb: Verb, path: str, query: Mapping[str, str]
    ) -> AsyncGenerator[aiohttp.StreamReader, None]:
        """Give the bytes of a stream of events. Raises as `ask`, and what a refusal means."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_S, sock_read=SILENCE_S)
        headers = {"Accept": _EVENTS}
        async with self._request(verb, "GET", path, query=query, headers=headers, timeout=timeout) as response:
            await fault_points.passing("http_out.answered", f"control.{verb}")
            if response.status != 200 or response.content_type != _EVENTS:
                content = await _read(response, ANSWER_LIMIT)
                raise refused_by(response.status, _object(content, response.content_type, ANSWER_LIMIT))
            yield response.content

    async def close(self) -> None:
        """Let go of every connection; whoever waits for an answer gets none. Repeats are no-ops."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def _request(
        self,
        verb: Verb,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        data: bytes | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        if self._closed:
            raise _closed()
        if self._session is None:
            self._session = self._open()
        url = URL(f"http://{self._host}{path}", encoded=True).with_query(query)
        try:
            await fault_points.passing("http_out.send", f"control.{verb}")
            async with self._session.request(
                method, url, data=data, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                yield response
        except TimeoutError:
            raise ControlUnavailable(
                f"the receiver at {self._address} did not answer in time; ask again", reason="control_timeout"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if self._closed:
                raise _closed() from None
            raise self._lost(error) from None

    def _open(self) -> aiohttp.ClientSession:
        # No connection is kept: one that a restarted receiver has forgotten would look like a lost answer.
        connector: aiohttp.BaseConnector
        if isinstance(self._address, Path):
            connector = aiohttp.UnixConnector(str(self._address), force_close=True, limit=0)
        else:
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token.reveal()}"}
        return aiohttp.ClientSession(
            connector=connector,
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=ANSWER_LIMIT // 2,  # a line may be twice as long
        )

    @property
    def _host(self) -> str:
        return _UNKNOWN_TO_TCP if isinstance(self._address, Path) else str(self._address)

    def _lost(self, error: Exception) -> ControlUnavailable | ControlRefused:
        number = error.errno if isinstance(error, OSError) else None
        if isinstance(error, aiohttp.ClientConnectorError):
            if number in (errno.EACCES, errno.EPERM):
                return ControlRefused(
                    f"this user may not use {self._address}; its operator lets you by the group of that socket",
                    reason="control_forbidden",
                )
            return ControlUnavailable(
                f"nobody answers at {self._address} ({error.strerror or type(error).__name__}); is the receiver"
                " running?",
                reason="control_unreachable",
            )
        if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError):
            return not_understood(f"{type(error).__name__}")
        return ControlUnavailable(
            f"the connection to {self._address} broke off ({type(error).__name__}); ask again", reason="control_lost"
        )


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) > limit:
            raise not_understood(f"it is longer than {limit} bytes")
    return bytes(data)


def _object(data: bytes, kind: str, limit: int) -> dict[str, Any]:
    """Return an answer's JSON object as the standard library reads it, once it is known to be strict."""
    if kind != _JSON:
        raise not_understood("it is not JSON")
    try:
        strict_json.parse(data, max_bytes=limit)
    except strict_json.MalformedJson as error:
        raise not_understood(f"it is not JSON: {error.reason}") from None
    value = json.loads(data)
    if not isinstance(value, dict):
        raise not_understood("it is not a JSON object")
    return value


def _closed() -> ControlUnavailable:
    return ControlUnavailable("the adapter is closed", reason="closed")
