"""Health: whether the receiver lives, whether it can take webhooks, and its metrics."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from aiohttp import web

from wakegate_receiver.answers import SERVER
from wakegate_receiver.metrics.page import CONTENT_TYPE
from wakegate_schema import strict_json
from wakegate_schema.records import Doubts
from wakegate_schema.store import StoreError

PROBE_TIMEOUT_S: Final = 2.0
MEASURE_TIMEOUT_S: Final = 0.5


def health_routes(
    probe: Callable[[], Awaitable[None]],
    obstacle: Callable[[], str | None],
    wal_bytes: Callable[[], Awaitable[int]],
    doubts: Callable[[], Awaitable[Doubts]],
    metrics: Callable[[], Awaitable[bytes]],
) -> list[web.RouteDef]:
    """Return the routes /healthz, /readyz and /metrics, which anybody who can connect may ask.

    Args:
        probe: makes a real write in the store.
        obstacle: the reason why webhooks are not taken just now (`draining`, `not_listening`), or None.
        wal_bytes: measures the store's WAL.
        doubts: counts the calls in doubt, which make nothing unready: they wait for a person.
        metrics: writes the page of metrics.
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

    async def page(_request: web.Request) -> web.Response:
        return web.Response(body=await metrics(), headers={"Content-Type": CONTENT_TYPE, "Server": SERVER})

    return [web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", page)]


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
