"""Serving health and metrics on an address of their own."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import web


def health_app(routes: Sequence[web.RouteDef]) -> web.Application:
    """Return the application of these routes."""
    app = web.Application()
    app.add_routes(routes)
    return app


@asynccontextmanager
async def serving(app: web.Application, bound: socket.socket, shutdown_timeout: float) -> AsyncIterator[None]:
    """Serve an application on a bound socket.

    Args:
        app: from `health_app`.
        bound: a bound socket.
        shutdown_timeout: seconds that requests in progress are waited for at the end, twice.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_timeout, max_headers=64)
    await runner.setup()
    try:
        await web.SockSite(runner, bound).start()
        yield
    finally:
        await runner.cleanup()
