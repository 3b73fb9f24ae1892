"""Idle: what services and databases compute while nothing happens, and how many connections they hold."""

import argparse
import asyncio
import time

from benchmarks.scale.grounds import KINDS, Ground, Kind, ground, table
from wakegate_schema.store import open_store

SECONDS = 10.0
WAITERS = 50
HEAD = (
    "store",
    "queue",
    "process",
    "its ms of processor a second",
    "PostgreSQL's",
    "its connections to PostgreSQL",
    "to Redis",
)


async def measure(chosen: argparse.Namespace) -> None:  # noqa: ARG001 (every measure is called alike)
    """Leave a receiver alone, then a worker."""
    rows = []
    for kind in KINDS:
        for redis in (False, True):
            for name, word in (("receiver", "listening"), ("worker", "ready")):
                async with ground(kind, redis=redis) as at:
                    service = await at.start(name, word)
                    await asyncio.sleep(3)
                    used, database = service.cpu_s, at.database_cpu_s()
                    await asyncio.sleep(SECONDS)
                    spent = 1000 * (service.cpu_s - used) / SECONDS
                    served = 1000 * (at.database_cpu_s() - database) / SECONDS
                    rows.append(
                        (kind, "Redis" if redis else "embedded", name, f"{spent:.0f}", f"{served:.0f}", *_held(at))
                    )
    table(f"Nothing to do, for {SECONDS:.0f} s", HEAD, rows)
    waits = [await _waiting(kind, count) for kind in KINDS for count in (1, WAITERS)]
    head = ("store", "waiting in one process", "its ms of processor a second", "PostgreSQL's")
    table("Harnesses that wait for a change of the store, and there is none", head, waits)


async def _waiting(kind: Kind, count: int) -> tuple[str, int, str, str]:
    async with ground(kind) as at, await open_store(at.location, mode="use") as store:
        first = await store.changed(-1, 0)
        used, database = time.process_time(), at.database_cpu_s()
        await asyncio.gather(*(store.changed(first, SECONDS) for _ in range(count)))
        spent, served = time.process_time() - used, at.database_cpu_s() - database
        return kind, count, f"{1000 * spent / SECONDS:.0f}", f"{1000 * served / SECONDS:.0f}"


def _held(at: Ground) -> tuple[str, str]:
    database = (
        "-"
        if at.server is None
        else str(at.server.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'wakegate'"))
    )
    if at.queue is None:
        return database, "-"
    with at.queue.client() as client:
        return database, str(len(client.client_list()) - 1)
