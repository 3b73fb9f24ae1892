"""Servers on loopback for tests of what goes out: real HTTP, and bytes that are none."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    """With the query."""
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Served:
    """A server that is running."""

    url: str
    seen: list[Seen] = field(default_factory=list)


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def http_server(
    handler: Handler, *, bound: socket.socket | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Served]:
    """Run one handler for every method and path, keeping what arrives.

    Args:
        handler: answers.
        bound: where it listens, instead of a free port of loopback.
        tls: for https.
    """
    served = Served("")

    async def keep(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        served.seen.append(Seen(request.method, request.raw_path, dict(request.headers), body))
        return await handler(request)  # type: ignore[arg-type]  # the handlers here need no application

    server = web.Server(keep, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = (
        web.SockSite(runner, bound, ssl_context=tls) if bound else web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    )
    await site.start()
    host, port = runner.addresses[0][:2]
    served.url = f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield served
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(talk: Talk | bytes) -> AsyncIterator[Served]:
    """Answer each connection's first request head with these bytes, or let `talk` have the connection."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            tasks.add(task)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            if isinstance(talk, bytes):
                writer.write(talk)
                await writer.drain()
            else:
                await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Served(f"http://127.0.0.1:{port}")
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
