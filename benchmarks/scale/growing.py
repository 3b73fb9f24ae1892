"""Growth: the same work on a PostgreSQL that holds ever more rows. SQLite's is measured by `benchmarks/growth`."""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import Ground, ground, table
from support import driving
from support.deliveries import new_id
from support.desk import Desk
from wakegate_schema import clock

REPEATS, MANY = 30, 64
HEAD = (
    "rows of each kind",
    f"{MANY} notifications, ms",
    "lease one due, ms",
    "look, nothing due, ms",
    "sweep, ms",
)
FRESH = {
    "notification": ("event_id", "request_id"),
    "execution": ("execution_id", "idempotency_key", "request_id"),
}
_ID = "gen_random_uuid()::text"


async def measure(chosen: argparse.Namespace) -> None:
    """Fill stores with notifications, finished calls and calls that wait, then time the work on them."""
    rows: list[tuple[object, ...]] = []
    for count in chosen.rows:
        async with ground("PostgreSQL") as at, desk_on(at) as (desk, _):
            await _seed(desk)
            await asyncio.to_thread(_fill, at, count)
            rows.append((f"{count:,}", *[f"{1000 * each:.1f}" for each in await _times(desk)]))
    table(f"Medians of {REPEATS}", HEAD, rows)


async def _seed(desk: Desk) -> None:
    """One of each, for the rest to be like."""
    await driving.run(desk.store, (await desk.save()).execution_id)
    await desk.waiting()
    await desk.store.record(desk.arrival(new_id()))


def _fill(at: Ground, count: int) -> None:
    """Copy the rows that are there until there are so many of each."""
    if at.server is None:
        raise ValueError("only PostgreSQL is filled here")
    with at.server.connect("wakegate") as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute("SET session_replication_role = replica")  # no triggers: calls must begin as saved
        for name, fresh in FRESH.items():
            found = connection.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_identity = 'NO'",
                [name],
            ).fetchall()
            connection.execute(_copy(name, [row[0] for row in found], fresh, count).encode())
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")  # what was filled in is not to be written while work is timed


def _copy(name: str, columns: list[str], fresh: tuple[str, ...], count: int) -> str:
    """An INSERT that copies every row once for each of a series, with new ids, and nothing of it due."""
    later = (
        {"due_at": "due_at + 3600000000", "lease_until": "NULL", "lease_owner": "NULL"} if name == "execution" else {}
    )
    chosen = [_ID if each in fresh else later.get(each, f'"{each}"') for each in columns]
    into = ", ".join(f'"{each}"' for each in columns)
    return f"INSERT INTO {name} ({into}) SELECT {', '.join(chosen)} FROM {name}, generate_series(1, {count})"


async def _times(desk: Desk) -> list[float]:
    async def record() -> None:
        await asyncio.gather(*(desk.store.record(desk.arrival(new_id())) for _ in range(MANY)))

    async def lease() -> None:
        now = clock.now()
        await desk.store.lease_due("w", 1, now, now + clock.MINUTE)

    async def look() -> None:
        await desk.store.next_due_at()

    async def sweep() -> None:
        await desk.store.sweep(clock.now())

    async def due() -> None:
        await desk.save()

    return [await _median(record), await _median(lease, due), await _median(look), await _median(sweep)]


async def _median(work: Callable[[], Awaitable[None]], before: Callable[[], Awaitable[None]] | None = None) -> float:
    found = []
    for _ in range(REPEATS):
        if before is not None:
            await before()
        begun = time.monotonic()
        await work()
        found.append(time.monotonic() - begun)
    return statistics.median(found)
