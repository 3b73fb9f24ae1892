"""Acknowledgements: durable ones, beside a receiver that keeps nothing and a handler that does nothing."""

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.figures import Bar, Failed, Figure, Measure, Plan
from benchmarks.load import deliveries
from benchmarks.load.client import Report
from benchmarks.load.sending import send
from benchmarks.peers.processes import serving
from benchmarks.rows import Rows, rows
from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import Ground, Service, ground
from support.deliveries import Sender

OURS: Final = "wakegate, on disk"
SDK: Final = "public SDK, in memory"
NOTHING: Final = "aiohttp, nothing done"
CONNECTIONS: Final = 64
_BUSY: Final = 0.9
"""The share of its time above which the load's own process would be what is measured."""

RATE: Final = "acknowledgements"
MEDIAN: Final = "acknowledgement p50"
HIGH: Final = "acknowledgement p99"
CPU: Final = "processor time of an acknowledgement"


@dataclass(frozen=True, slots=True)
class Side:
    """Who answers."""

    name: str
    services: tuple[Service, ...]
    """One process each."""
    at: Ground | None = None
    rows: Rows | None = None
    """Of those that keep any."""

    @property
    def cpu_s(self) -> float:
        """Processor seconds so far, of its processes and of its database's."""
        return sum(each.cpu_s for each in self.services) + (self.at.database_cpu_s() if self.at else 0.0)

    def has_rows_for(self, acknowledged: int, held: int) -> None:
        """Compare the rows that are there with those that were held before. Raises Failed when they do not agree."""
        found = acknowledged if self.rows is None else self.rows.notifications() - held
        if found != acknowledged:
            raise Failed(f"{self.name}: {acknowledged} notifications were acknowledged, {found} rows were found")


async def measure(plan: Plan) -> Sequence[Figure]:
    """Send the same notifications to each side in turns."""
    count, warm = (14_000, 2_000) if plan.quick else (44_000, 4_000)
    async with ground("SQLite") as at, desk_on(at) as (_, sender), peers(sender) as others:
        service = await at.start("receiver", "listening")
        with rows(at) as found:
            sides = (Side(OURS, (service,), at, found), *others)
            return await in_turns(plan, sides, at.folder / "deliveries", sender, count, warm)


async def in_turns(
    plan: Plan, sides: Sequence[Side], file: Path, sender: Sender, count: int, warm: int, shared: str = ""
) -> Sequence[Figure]:
    """Make new notifications every round and send them to every side, another one first each time.

    Args:
        plan: how many rounds.
        sides: who answers.
        file: for the requests.
        sender: who signs them.
        count: so many a round, the warm-up among them.
        warm: those before the clock starts.
        shared: says that all sides are on one store, which goes at the end of the figures' names too.
    """
    reports: dict[str, list[Report]] = defaultdict(list)
    spent: dict[str, list[float]] = defaultdict(list)
    for number in range(plan.rounds):
        for each, side in enumerate((*sides[number % len(sides) :], *sides[: number % len(sides)])):
            plan.say(f"round {number + 1} of {plan.rounds}: {side.name}")
            if each == 0 or shared:  # the same for all, unless a store that they share would know them again
                deliveries.write(file, sender, count)
            held, used = side.rows.notifications() if side.rows else 0, side.cpu_s
            report = await send(file, [each.port for each in side.services], warm=warm, connections=CONNECTIONS)
            spent[side.name].append(1_000_000 * (side.cpu_s - used) / count)
            reports[side.name].append(report)
            side.has_rows_for(count, held)
    return _figures(reports, spent, count, warm, shared)


def _figures(
    reports: dict[str, list[Report]], spent: dict[str, list[float]], count: int, warm: int, label: str
) -> Sequence[Figure]:
    def each(field: str) -> dict[str, tuple[float, ...]]:
        return {side: tuple(getattr(report, field) for report in done) for side, done in reports.items()}

    busiest = max(report.busy for done in reports.values() for report in done)
    limited = "so it was not what limited" if busiest < _BUSY else "which IS what limited"
    notes = (
        f"{count - warm:,} notifications a round after {warm:,} to warm up, {CONNECTIONS} connections; every one"
        f" unique and correctly signed{'' if label else ', the same ones for every side'}",
        f"the load's process computed {100 * busiest:.0f} % of the time at most, {limited}",
        "after every round the store had a row for every 204, and no other",
        "the receiver has its defaults, but for the rate limit, which is lifted",
    )
    return (
        Figure(RATE + label, "1/s", each("rate"), "Answers with 204 a second; ours after the commit's fsync.", notes),
        Figure(MEDIAN + label, "ms", each("p50_ms"), "From sending a request to its whole answer, the median."),
        Figure(HIGH + label, "ms", each("p99_ms"), "The same, the 99th of a hundred."),
        Figure(
            CPU + label, "µs", {side: tuple(done) for side, done in spent.items()},
            "Processor time of the answering processes, and of the database's, for each.",
        ),
    )  # fmt: skip


@asynccontextmanager
async def peers(sender: Sender) -> AsyncIterator[Sequence[Side]]:
    """The public SDK's receiver on uvicorn with uvloop and httptools, and the handler that does nothing."""
    uvicorn = (
        "-m", "uvicorn", "benchmarks.peers.sdk:app", "--host", "127.0.0.1", "--port", "{port}", "--loop", "uvloop",
        "--http", "httptools", "--no-access-log", "--log-level", "error", "--lifespan", "off", "--ws", "none",
        "--no-server-header", "--no-date-header",
    )  # fmt: skip
    secret = {"BENCHMARK_SECRET": sender.secret, "BENCHMARK_INSTANCE": sender.instance_id}
    async with (
        serving(*uvicorn, environment=secret) as sdk,
        serving("-m", "benchmarks.peers.nothing", "{port}") as nothing,
    ):
        yield Side(SDK, (sdk,)), Side(NOTHING, (nothing,))


MEASURES: Final = (
    Measure(
        "acknowledgements",
        "Durable acknowledgements, one receiver, SQLite",
        (
            Bar("acknowledgements/s ÷ the public SDK's receiver, in memory", RATE, OURS, SDK, (0.8, 1.0, 1.3)),
            Bar("acknowledgements/s ÷ an aiohttp handler that does nothing", RATE, OURS, NOTHING, (0.5, 0.7)),
            Bar("p99 of an acknowledgement ÷ the SDK receiver's", HIGH, OURS, SDK, (1.0,), at_least=False),
        ),
        measure,
    ),
)
