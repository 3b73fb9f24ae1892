"""Acknowledgements: unique signed notifications over kept connections, until every one is answered with a 204."""

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence

from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import KINDS, Ground, Kind, Service, ground, table
from support.deliveries import Sender
from support.receivers import request_bytes

CONNECTIONS = 64
HEAD = ("store", "receivers", "acknowledgements/s", "ms of a receiver each", "ms of PostgreSQL each")
Figures = tuple[float, float, float]


async def measure(chosen: argparse.Namespace) -> None:
    """Measure one receiver and two, on both stores, in turns."""
    found: dict[tuple[Kind, int], list[Figures]] = {}
    for _ in range(chosen.rounds):
        for kind in KINDS:
            async with ground(kind) as at, desk_on(at) as (_, sender):
                for count in (1, 2):
                    await at.start("receiver", "listening")
                    await _round(at, sender, 200)  # warm
                    found.setdefault((kind, count), []).append(await _round(at, sender, chosen.count))
    rows = [
        (kind, count, f"{rate:.0f}", f"{receiver:.2f}", f"{database:.2f}")
        for (kind, count), each in found.items()
        for rate, receiver, database in [[statistics.median(column) for column in zip(*each, strict=True)]]
    ]
    table(f"{CONNECTIONS} connections, {chosen.count} notifications a round, {chosen.rounds} rounds", HEAD, rows)


async def _round(at: Ground, sender: Sender, count: int) -> Figures:
    deliveries = [request_bytes(sender.notification(), "/aap/events") for _ in range(count)]
    services, before = at.started, at.database_cpu_s()
    used = [each.cpu_s for each in services]
    begun = time.monotonic()
    await asyncio.gather(
        *(_connection(services[n % len(services)], deliveries[n::CONNECTIONS]) for n in range(CONNECTIONS))
    )
    seconds = time.monotonic() - begun
    spent = sum(each.cpu_s - was for each, was in zip(services, used, strict=True))
    return count / seconds, 1000 * spent / count, 1000 * (at.database_cpu_s() - before) / count


async def _connection(service: Service, deliveries: Sequence[bytes]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port)
    for each in deliveries:
        writer.write(each)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 204"):
            raise RuntimeError(head.decode())
    writer.close()
