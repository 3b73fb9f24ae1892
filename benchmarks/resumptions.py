"""Resumptions: approved calls that all become due at once, beside stock RQ workers that make one GET a job."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.calls import Office, office
from benchmarks.figures import Bar, Failed, Figure, Measure, Plan
from benchmarks.peers.effects import FILE, Effects
from benchmarks.peers.rq_side import RqSide, rq_side
from benchmarks.rows import Rows, rows
from benchmarks.scale.grounds import Ground, Kind, ground

EMBEDDED: Final = "wakegate, embedded queue"
REDIS: Final = "wakegate, Redis and RQ"
WORKER: Final = "stock RQ Worker"
SIMPLE: Final = "stock RQ SimpleWorker"
RATE: Final = "resumptions"
CPU: Final = "processor time of a resumption"

Sides = dict[str, Callable[[], Coroutine[Any, Any, tuple[float, float | None]]]]
"""What runs one round of a side: its rate, and the µs of processors for each where they are known."""

_PATIENCE_S: Final = 120.0
_LOOK_S: Final = 0.005
_WARM: Final = 30


@dataclass(frozen=True, slots=True)
class Counts:
    """So many a round."""

    ours: int
    worker: int
    simple: int


@dataclass(frozen=True, slots=True)
class Desks:
    """One side of ours: a store with waiting calls, and workers on it."""

    at: Ground
    office: Office
    effects: Effects
    rows: Rows

    async def run(self, count: int) -> tuple[float, float | None]:
        """Record so many notifications; return the resumptions a second, and the µs of processors for each.

        Raises:
            Failed: a call had no effect or several, or no outcome.
        """
        calls, done = self.office.take(count), self.rows.succeeded()
        arrivals = [self.office.desk.arrival(each.request_id) for each in calls]
        used, begun = self._cpu_s(), time.monotonic()
        await asyncio.gather(*(self.office.desk.store.record(each) for each in arrivals))
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while self.effects.waiting() < count:  # a look at the store would cost what is measured more
                    await asyncio.sleep(_LOOK_S)
                while self.rows.succeeded() - done < count:
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            raise Failed(f"{self.rows.succeeded() - done} of {count} calls have an outcome") from None
        seconds = time.monotonic() - begun
        if self.effects.new().keys() != {each.request_id for each in calls}:
            raise Failed("the effects are not those of the calls that became due")
        return count / seconds, 1_000_000 * (self._cpu_s() - used) / count

    def _cpu_s(self) -> float:
        return sum(each.cpu_s for each in self.at.started) + self.at.database_cpu_s()


async def desks(stack: AsyncExitStack, kind: Kind, calls: int, *, redis: bool, workers: int = 1) -> Desks:
    """Make a store with so many waiting calls, start workers on it, and warm them."""
    at = await stack.enter_async_context(ground(kind, redis=redis))
    made = await stack.enter_async_context(office(at, calls + _WARM))
    effects = Effects(at.folder / "effects")
    for _ in range(workers):
        await at.start("worker", "ready", WAKEGATE_TOOLS="benchmarks.peers.tools", **{FILE: str(effects.file)})
    done = Desks(at, made, effects, stack.enter_context(rows(at)))
    await done.run(_WARM)
    return done


async def measure(plan: Plan) -> Sequence[Figure]:
    """Run each side in turns, another one first each time."""
    counts = Counts(300, 40, 150) if plan.quick else Counts(1000, 80, 400)
    async with AsyncExitStack() as stack:
        plan.say("putting calls on record")
        embedded = await desks(stack, "SQLite", plan.rounds * counts.ours, redis=False)
        redis = await desks(stack, "SQLite", plan.rounds * counts.ours, redis=True)
        effects = Effects(embedded.at.folder / "rq-effects")
        worker = await stack.enter_async_context(rq_side("Worker", effects))
        simple = await stack.enter_async_context(rq_side("SimpleWorker", effects))
        asked = await _pages(stack)
        sides: Sides = {
            EMBEDDED: lambda: embedded.run(counts.ours),
            REDIS: lambda: redis.run(counts.ours),
            WORKER: lambda: _jobs(worker, asked, counts.worker),
            SIMPLE: lambda: _jobs(simple, asked, counts.simple),
        }
        await sides[WORKER](), await sides[SIMPLE]()
        return figures(await in_turns(plan, sides), notes=(
            f"a round is {counts.ours:,} calls, {counts.worker} jobs of a Worker, {counts.simple} of a SimpleWorker",
            "all of ours is durable, RQ's Redis writes no files; every effect was counted outside, once for each call",
            "RQ's job asks the same provider over http.client; a SimpleWorker keeps its connection",
        ))  # fmt: skip


async def in_turns(plan: Plan, sides: Sides) -> dict[str, list[tuple[float, float | None]]]:
    """Run every side once a round, another one first each time."""
    found: dict[str, list[tuple[float, float | None]]] = defaultdict(list)
    names = list(sides)
    for number in range(plan.rounds):
        for name in (*names[number % len(names) :], *names[: number % len(names)]):
            plan.say(f"round {number + 1} of {plan.rounds}: {name}")
            found[name].append(await sides[name]())
    return found


def figures(
    found: dict[str, list[tuple[float, float | None]]], label: str = "", notes: tuple[str, ...] = ()
) -> Sequence[Figure]:
    """The rates, and the processor time of the sides that know theirs."""
    rates = {side: tuple(rate for rate, _ in each) for side, each in found.items()}
    spent = {side: tuple(cpu for _, cpu in each if cpu is not None) for side, each in found.items()}
    return (
        Figure(
            RATE + label, "1/s", rates,
            "From the first notification's record to the last outcome's commit; from enqueueing to the last job's end.",
            notes,
        ),
        Figure(
            CPU + label, "µs", {side: each for side, each in spent.items() if each},
            "Processor time of the workers, and of the database's server, for each.",
        ),
    )  # fmt: skip


async def _pages(stack: AsyncExitStack) -> Office:
    """A provider of its own for RQ's jobs, the same program with the same answers."""
    at = await stack.enter_async_context(ground("SQLite"))
    return await stack.enter_async_context(office(at, 1))


async def _jobs(side: RqSide, asked: Office, count: int) -> tuple[float, None]:
    path = f"/v1/requests/{asked.calls[0].request_id}"
    jobs = {f"{time.monotonic_ns()}-{number}": (asked.provider.port, path) for number in range(count)}
    return count / await side.run(jobs), None


MEASURES: Final = (
    Measure(
        "resumptions",
        "Resumptions, one worker process, SQLite",
        (
            Bar("resumptions/s, embedded queue ÷ one stock RQ Worker", RATE, EMBEDDED, WORKER, (10.0, 20.0)),
            Bar("resumptions/s, Redis and RQ ÷ one stock RQ Worker", RATE, REDIS, WORKER, (5.0, 10.0)),
            Bar("resumptions/s, embedded queue ÷ one stock RQ SimpleWorker", RATE, EMBEDDED, SIMPLE, ()),
            Bar("resumptions/s, Redis and RQ ÷ one stock RQ SimpleWorker", RATE, REDIS, SIMPLE, ()),
        ),
        measure,
    ),
)
