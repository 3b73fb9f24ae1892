"""Processes: one receiver that runs as two, beside one that runs as one."""

from collections.abc import Sequence
from typing import Final

from benchmarks import acknowledgements
from benchmarks.acknowledgements import Side
from benchmarks.figures import Bar, Figure, Measure, Plan
from benchmarks.rows import rows
from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import ground

LABEL: Final = ", processes"
ONE: Final = "1 process"
TWO: Final = "2 processes"
_ROUNDS: Final = 3


async def measure(plan: Plan) -> Sequence[Figure]:
    """Send to both in turns; they are on one store, so that what it holds is the same."""
    few = Plan(min(plan.rounds, _ROUNDS), plan.quick, plan.say)
    count, warm = (6_000, 1_000) if plan.quick else (24_000, 4_000)
    async with ground("SQLite") as at, desk_on(at) as (_, sender):
        one = await at.start("receiver", "listening")
        two = await at.start("receiver", "listening", WAKEGATE_PROCESSES="2")
        with rows(at) as found:
            sides = (Side(ONE, (one,), at, found), Side(TWO, (two,), at, found))
            return await acknowledgements.in_turns(few, sides, at.folder / "deliveries", sender, count, warm, LABEL)


MEASURES: Final = (
    Measure(
        "processes",
        "One receiver as several processes, SQLite",
        (Bar("acknowledgements/s, 2 processes ÷ 1, SQLite", acknowledgements.RATE + LABEL, TWO, ONE, ()),),
        measure,
    ),
)
