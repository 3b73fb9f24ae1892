"""The same figures with PostgreSQL, and with two receivers and two workers on it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import acknowledgements, resumptions, starts
from benchmarks.acknowledgements import Side
from benchmarks.figures import Bar, Figure, Measure, Plan
from benchmarks.resumptions import EMBEDDED, REDIS
from benchmarks.rows import rows
from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import Service, ground
from support.deliveries import Sender

LABEL: Final = ", PostgreSQL"
ONE: Final = "1 receiver"
TWO: Final = "2 receivers"
_ROUNDS: Final = 3


def _workers(name: str, count: int) -> str:
    return f"{name}, {count} worker{'s' if count > 1 else ''}"


async def measure(plan: Plan) -> Sequence[Figure]:
    """Acknowledgements, resumptions and starts, one after the other, each with its sides in turns."""
    few = Plan(min(plan.rounds, _ROUNDS), plan.quick, plan.say)
    return [*await _acknowledged(few), *await _resumed(few), *await _started(few)]


async def _acknowledged(plan: Plan) -> Sequence[Figure]:
    count, warm = (2_500, 500) if plan.quick else (12_000, 2_000)
    async with _receivers() as (sides, sender, folder):
        return await acknowledgements.in_turns(plan, sides, folder / "deliveries", sender, count, warm, LABEL)


@asynccontextmanager
async def _receivers() -> AsyncIterator[tuple[Sequence[Side], Sender, Path]]:
    """Two receivers on one store; the first of them alone is a side too."""
    async with ground("PostgreSQL") as at, desk_on(at) as (_, sender):
        services: tuple[Service, ...] = (
            await at.start("receiver", "listening"),
            await at.start("receiver", "listening"),
        )
        with rows(at) as found:
            yield (Side(ONE, services[:1], at, found), Side(TWO, services, at, found)), sender, at.folder


async def _resumed(plan: Plan) -> Sequence[Figure]:
    count = 60 if plan.quick else 300
    async with AsyncExitStack() as stack:
        sides: resumptions.Sides = {}
        for name, redis in ((EMBEDDED, False), (REDIS, True)):
            for workers in (1, 2):
                plan.say(f"putting calls on record: {_workers(name, workers)}")
                made = await resumptions.desks(stack, "PostgreSQL", plan.rounds * count, redis=redis, workers=workers)
                sides[_workers(name, workers)] = partial(made.run, count)
        found = await resumptions.in_turns(plan, sides)
        return resumptions.figures(found, LABEL, (f"a round is {count:,} calls",))


async def _started(plan: Plan) -> Sequence[Figure]:
    count = 6 if plan.quick else 20
    async with AsyncExitStack() as stack:
        return await starts.in_turns(plan, await starts.lines(stack, "PostgreSQL", plan.rounds * count), count, LABEL)


MEASURES: Final = (
    Measure(
        "postgresql",
        "The same with PostgreSQL",
        (
            Bar("PostgreSQL: acknowledgements/s, 2 receivers ÷ 1", acknowledgements.RATE + LABEL, TWO, ONE, ()),
            *(
                Bar(
                    f"PostgreSQL: resumptions/s, {queue}, 2 workers ÷ 1", resumptions.RATE + LABEL,
                    _workers(name, 2), _workers(name, 1), (),
                )
                for queue, name in (("embedded queue", EMBEDDED), ("Redis and RQ", REDIS))
            ),
        ),
        measure,
    ),
)  # fmt: skip
