"""A server in front of a provider: it passes everything on, keeps what passed, and lets a test interfere."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from support.http_servers import http_server
from wakegate_schema import strict_json

PassOn = Callable[[], Awaitable[web.Response]]
Interference = Callable[[web.Request, PassOn], Awaitable[web.StreamResponse]]
_ANSWERED = ("Content-Type", "Retry-After", "X-Request-ID", "Allow")


@dataclass(frozen=True, slots=True)
class Passed:
    """One exchange as it was on the wire."""

    method: str
    path: str
    """With the query."""
    headers: dict[str, str] = field(repr=False)
    body: bytes
    status: int
    answer: bytes

    @property
    def said(self) -> Any:
        """The answer's JSON."""
        return strict_json.parse(self.answer)


@dataclass
class Front:
    """The server, and what came through."""

    url: str = ""
    passed: list[Passed] = field(default_factory=list)
    """What the provider was asked and said, in the order of its answers."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """The method and path of whatever was asked here, in the order in which it came."""
    interference: Interference | None = None
    """Answers in the provider's place, or after it."""

    @property
    def submissions(self) -> list[Passed]:
        """What was submitted."""
        return [one for one in self.calls("POST") if one.path == "/v1/requests"]

    def calls(self, method: str, *parts: str) -> list[Passed]:
        """What passed with this method, and these texts in its path."""
        return [one for one in self.passed if one.method == method and all(part in one.path for part in parts)]


@asynccontextmanager
async def in_front_of(provider: str) -> AsyncIterator[Front]:
    """Serve in front of the provider with this base URL."""
    front = Front()
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def answer(request: web.Request) -> web.StreamResponse:
            front.asked.append((request.method, request.path_qs))
            body = await request.read()

            async def pass_on() -> web.Response:
                kept = ("Authorization", "Idempotency-Key", "Content-Type")
                headers = {name: request.headers[name] for name in kept if name in request.headers}
                async with session.request(
                    request.method, provider + request.path_qs, data=body or None, headers=headers
                ) as got:
                    said = await got.read()
                front.passed.append(
                    Passed(request.method, request.path_qs, dict(request.headers), body, got.status, said)
                )
                told = {name: got.headers[name] for name in _ANSWERED if name in got.headers}
                return web.Response(status=got.status, body=said, headers=told)

            return await (front.interference(request, pass_on) if front.interference else pass_on())

        async with http_server(answer) as served:
            front.url = served.url
            yield front


def cut(request: web.BaseRequest) -> web.Response:
    """End the connection without an answer; return what is never sent."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response(status=500)
