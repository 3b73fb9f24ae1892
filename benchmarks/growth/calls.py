"""Calls that wait: what finding those that are due costs among ever more that are not."""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from benchmarks.figures import Failed, Figure, Plan
from benchmarks.growth.filling import fill_waiting, twin
from benchmarks.growth.timing import timed_store
from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import Ground, ground
from support.desk import Desk
from wakegate_schema import clock
from wakegate_schema.records import Execution
from wakegate_schema.store import Store

DUE: Final = 100
NONE, MOST = f"{DUE} waiting", "1 million waiting"
FINDING: Final = f"finding {DUE} due calls"

_COUNT, _QUICK = 1_000_000, 50_000
_AT_ONCE: Final = 64
_MEANINGS: Final = {
    FINDING: f"A look for when something is due, leases for the {DUE} that are, and a sweep.",
    "sweep": "Of started calls that fell silent, approvals that lapsed and holds that were lost: of none.",
    "list of the latest 100 calls": "`wakegate execution list --limit 100`, without the start of the program.",
    "census of calls": "What `GET /metrics` asks the store for: it counts what waits.",
}


async def measure(plan: Plan) -> Sequence[Figure]:
    """Do the same on a store in which nothing else waits, and on one with a million calls, in turns."""
    found: dict[str, dict[str, list[float]]] = {}
    async with _filled(plan) as (stores, desk):
        for number in range(plan.rounds):
            for side, at in stores.items():
                plan.say(f"round {number + 1} of {plan.rounds}: {side}")
                for what, seconds in (await _round(at, desk)).items():
                    found.setdefault(what, {}).setdefault(side, []).append(1000 * seconds)
    notes = (f"{MOST}: {_QUICK if plan.quick else _COUNT:,} rows",)
    return [
        Figure(name, "ms", {side: tuple(values) for side, values in sides.items()}, _MEANINGS[name], notes)
        for name, sides in found.items()
    ]


@asynccontextmanager
async def _filled(plan: Plan) -> AsyncIterator[tuple[dict[str, Ground], Desk]]:
    async with ground("SQLite") as at:
        async with desk_on(at) as (desk, _):
            await _until_later(desk.store, [await desk.waiting()])
        with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as name:
            plan.say(f"filling: {MOST}")
            most = twin(at, Path(name) / "most")
            await asyncio.to_thread(fill_waiting, most, _QUICK if plan.quick else _COUNT)
            yield {NONE: at, MOST: most}, desk


async def _round(at: Ground, desk: Desk) -> dict[str, float]:
    async with timed_store(at) as (store, times):
        own = Desk(store, desk.provider, desk.instance_id, desk.registration_id)
        await _until(store, [await own.waiting() for _ in range(DUE)], clock.now() - clock.MINUTE)
        begun = time.monotonic()
        await store.next_due_at()
        leased = await _lease(store)
        await store.sweep(clock.now())
        spent = time.monotonic() - begun
        if len(leased) != DUE:
            raise Failed(f"{DUE} calls are due, {len(leased)} were found")
        await _until_later(store, leased)
        return {
            FINDING: spent,
            "sweep": await times.read_s(lambda: store.sweep(clock.now())),
            "list of the latest 100 calls": await times.read_s(lambda: store.latest_executions(limit=100)),
            "census of calls": await times.read_s(store.census),
        }


async def _lease(store: Store) -> list[Execution]:
    found: list[Execution] = []
    while True:
        now = clock.now()
        leased = await store.lease_due("finder", _AT_ONCE, now, now + clock.HOUR)
        found += leased
        if len(leased) < _AT_ONCE:
            return found


async def _until_later(store: Store, leased: Sequence[Execution]) -> None:
    await _until(store, leased, clock.now() + clock.DAY)


async def _until(store: Store, leased: Sequence[Execution], due_at: int) -> None:
    await asyncio.gather(*(store.release(each.lease, due_at, None, clock.now()) for each in leased))
