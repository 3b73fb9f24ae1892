"""The control listener: says whether the receiver lives and whether it can take webhooks."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from aiohttp import web

from wakegate_receiver.answers import SERVER
from wakegate_schema import strict_json
from wakegate_schema.records import Doubts
from wakegate_schema.store import StoreError

PROBE_TIMEOUT_S: Final = 2.0
MEASURE_TIMEOUT_S: Final = 0.5


def control_app(
    probe: Callable[[], Awaitable[None]],
    obstacle: Callable[[], str | None],
    wal_bytes: Callable[[], Awaitable[int]],
    doubts: Callable[[], Awaitable[Doubts]],
) -> web.Application:
    """Return the control application.

    Args:
        probe: makes a real write in the store.
        obstacle: the reason why webhooks are not taken just now (`draining`, `not_listening`), or None.
        wal_bytes: measures the store's WAL.
        doubts: counts the calls in doubt, which make nothing unready: they wait for a person.
    """

    async def healthz(_request: web.Request) -> web.Response:
        return _answer(200, {"alive": True})

    async def readyz(_request: web.Request) -> web.Response:
        reason = obstacle() or await _store_obstacle(probe)
        told: dict[str, object] = {"ready": True} if reason is None else {"ready": False, "reason": reason}
        with suppress(StoreError, TimeoutError):  # a store that is not there has no WAL to measure
            async with asyncio.timeout(MEASURE_TIMEOUT_S):
                told["wal_bytes"] = await wal_bytes()
                told["in_doubt"] = (await doubts()).count
        return _answer(200 if reason is None else 503, told)

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


@asynccontextmanager
async def serving(app: web.Application, bound: socket.socket, shutdown_timeout: float) -> AsyncIterator[None]:
    """Serve the control application on a bound socket.

    Args:
        app: from `control_app`.
        bound: from `control_socket`.
        shutdown_timeout: seconds that requests in progress are waited for at the end, twice.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=shutdown_timeout, max_headers=64)
    await runner.setup()
    try:
        await web.SockSite(runner, bound).start()
        yield
    finally:
        await runner.cleanup()


async def _store_obstacle(probe: Callable[[], Awaitable[None]]) -> str | None:
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            await probe()
    except TimeoutError:
        return "store_timeout"
    except StoreError as error:
        return error.reason
    return None


def _answer(status: int, value: dict[str, object]) -> web.Response:
    return web.Response(
        status=status,
        body=strict_json.dumps(value),
        headers={"Content-Type": "application/json", "Server": SERVER},
    )
