"""Notifications: what a receiver, its store, retention and lists do when ever more of them are kept."""

import asyncio
import statistics
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks import acknowledgements
from benchmarks.acknowledgements import Side, in_turns
from benchmarks.figures import Figure, Plan
from benchmarks.growth.filling import fill_notifications, twin
from benchmarks.growth.timing import Times, timed_store
from benchmarks.memory import resident_mb
from benchmarks.rows import rows
from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import Ground, ground
from support.deliveries import Sender, new_id
from support.desk import Desk
from wakegate_schema import clock
from wakegate_worker.sweep import Sweep

NONE, SOME, MOST = "none retained", "1 million retained", "5 million retained"
_GROWING: Final = ", growing"
RATE: Final = acknowledgements.RATE + _GROWING
LONGEST: Final = "longest commit" + _GROWING

_COUNTS: Final = {NONE: 0, SOME: 1_000_000, MOST: 5_000_000}
_QUICK: Final = {NONE: 0, SOME: 100_000, MOST: 500_000}
_BATCHES, _MANY = 150, 64


async def measure(plan: Plan) -> Sequence[Figure]:
    """Fill one store for each number of rows, and do the same work on all of them in turns."""
    async with _filled(plan) as (stores, sender, desk):
        return (*await _acknowledged(plan, stores, sender), *await _inside(plan, stores, desk))


async def _acknowledged(plan: Plan, stores: dict[str, Ground], sender: Sender) -> Sequence[Figure]:
    """Send the same notifications to a receiver on each store."""
    count, warm = (8_000, 2_000) if plan.quick else (24_000, 4_000)
    with ExitStack() as looking:
        sides = []
        for name, at in stores.items():
            service = await at.start("receiver", "listening")
            sides.append(Side(name, (service,), at, looking.enter_context(rows(at))))
        found = await in_turns(plan, sides, stores[NONE].folder / "deliveries", sender, count, warm)
    memory = {side.name: (resident_mb(side.services[0]),) for side in sides}
    for at in stores.values():
        await at.end()
    return [
        *(
            replace(each, name=each.name + _GROWING, notes=(*each.notes, _rows(plan)) if each.notes else ())
            for each in found
        ),
        Figure("receiver memory" + _GROWING, "MB", memory, "Resident memory of the receiver after all rounds."),
    ]


def _rows(plan: Plan) -> str:
    counts = (f"{name}: {count:,} rows" for name, count in (_QUICK if plan.quick else _COUNTS).items())
    return f"{'; '.join(counts)}; their index is in the system's page cache, having just been written"


@asynccontextmanager
async def _filled(plan: Plan) -> AsyncIterator[tuple[dict[str, Ground], Sender, Desk]]:
    counts = _QUICK if plan.quick else _COUNTS
    async with ground("SQLite") as at:
        async with desk_on(at) as (desk, sender):
            await desk.store.record(desk.arrival(new_id()))
        with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as name:
            stores = {NONE: at}
            for side in (SOME, MOST):
                plan.say(f"filling: {side}")
                stores[side] = twin(at, Path(name) / str(counts[side]))
                await asyncio.to_thread(fill_notifications, stores[side], counts[side])
            try:
                yield stores, sender, desk
            finally:
                for each in stores.values():
                    await each.end()


async def _inside(plan: Plan, stores: dict[str, Ground], desk: Desk) -> Sequence[Figure]:
    """Write batches while retention is at work in another writer's place, and read lists; every turn is timed."""
    found: dict[str, dict[str, list[float]]] = {}

    def note(figure: str, side: str, seconds: float) -> None:
        found.setdefault(figure, {}).setdefault(side, []).append(1000 * seconds)

    for number in range(plan.rounds):
        for side, at in stores.items():
            plan.say(f"round {number + 1} of {plan.rounds}: commits, {side}")
            recorded, pruned, lists = await _round(at, desk)
            note(LONGEST, side, max(recorded.held_s + pruned.held_s))
            note("commit of 64 notifications", side, statistics.median(recorded.held_s))
            note("longest step of retention", side, max(pruned.held_s))
            for what, seconds in lists.items():
                note(what, side, seconds)
    return [
        Figure(name, "ms", {side: tuple(values) for side, values in sides.items()}, _MEANINGS[name])
        for name, sides in found.items()
    ]


_MEANINGS: Final = {
    LONGEST: f"Of {_BATCHES} of {_MANY} notifications each without a pause, and of retention's steps meanwhile: from"
    " having the turn to write to the end of the commit.",
    "commit of 64 notifications": "The same, the median of the notifications'.",
    "longest step of retention": "The same, the longest of retention's.",
    "list of the latest 100": "`wakegate notification list --limit 100`, without the start of the program.",
    "census": "What `GET /metrics` asks the store for.",
}


async def _round(at: Ground, desk: Desk) -> tuple[Times, Times, dict[str, float]]:
    """One round on a store that nobody else has open."""
    async with timed_store(at) as (store, recorded), timed_store(at) as (other, pruned):
        own = Desk(store, desk.provider, desk.instance_id, desk.registration_id)
        event = asyncio.Event()
        sweep = Sweep(other, retention_days=8, now=clock.now, woken=event, doubted=event)
        pruning = asyncio.create_task(sweep.prune())
        await _record(own)
        pruning.cancel()  # what is left is for the next rounds
        with suppress(asyncio.CancelledError):
            await pruning
        lists = {
            "list of the latest 100": await recorded.read_s(lambda: store.latest_notifications(limit=100)),
            "census": await recorded.read_s(store.census),
        }
        return recorded, pruned, lists


async def _record(desk: Desk) -> None:
    for _ in range(_BATCHES):
        await asyncio.gather(*(desk.store.record(desk.arrival(new_id(), body=b" " * 239)) for _ in range(_MANY)))
