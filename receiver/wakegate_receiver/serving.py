"""Serving health and metrics on an address of their own."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def serving(routes: Sequence[web.RouteDef], bound: socket.socket, shutdown_timeout: float) -> AsyncIterator[None]:
    """Serve these routes, and nothing else, on a bound socket.

    Args:
        routes: from `health_routes`.
        bound: a bound socket.
        shutdown_timeout: seconds that requests in progress are waited for at the end, twice.
    """
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_timeout, max_headers=64)
    await runner.setup()
    try:
        await web.SockSite(runner, bound).start()
        yield
    finally:
        await runner.cleanup()
