"""Starts: how long after a notification an idle system begins to run the call, beside stock RQ and its enqueueing."""

import asyncio
import itertools
import random
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.calls import Office, office
from benchmarks.figures import Bar, Failed, Figure, Measure, Plan
from benchmarks.load.files import PATH
from benchmarks.peers.effects import FILE, Effects
from benchmarks.peers.rq_side import rq_side, seen
from benchmarks.resumptions import EMBEDDED, REDIS, SIMPLE, WORKER
from benchmarks.scale.grounds import Kind, ground
from support.receivers import request_bytes

START: Final = "idle start"
_WARM: Final = 3
_IDLE_S: Final = (0.03, 0.08)
"""The least and the most between two, so that nothing that looks at intervals is met in step."""

Sides = dict[str, Callable[[], Awaitable[float]]]


@dataclass(frozen=True, slots=True)
class Line:
    """A receiver, a worker, and the calls that the one is to be told of and the other to run."""

    office: Office
    effects: Effects
    port: int
    """The receiver's."""

    async def start_ms(self) -> float:
        """Send one notification on a new connection; return the milliseconds from that to its tool's first line."""
        (call,) = self.office.take(1)
        request = request_bytes(self.office.sender.notification(call.request_id), PATH)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        begun = time.monotonic_ns()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        writer.close()
        if not head.startswith(b"HTTP/1.1 204"):
            raise Failed(f"not acknowledged: {head.decode(errors='replace')}")
        return (await seen(self.effects, call.request_id) - begun) / 1_000_000


async def measure(plan: Plan) -> Sequence[Figure]:
    """Start one call after the other on each side in turns."""
    count = 12 if plan.quick else 30
    async with AsyncExitStack() as stack:
        sides = await lines(stack, "SQLite", plan.rounds * count)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wg", dir="/tmp")))
        keys = itertools.count()
        for name, kind in ((WORKER, "Worker"), (SIMPLE, "SimpleWorker")):
            effects = Effects(folder / kind)
            side = await stack.enter_async_context(rq_side(kind, effects))
            sides[name] = lambda side=side: side.start_ms(f"job-{next(keys)}")  # type: ignore[misc]
        return await in_turns(plan, sides, count)


async def lines(stack: AsyncExitStack, kind: Kind, calls: int) -> Sides:
    """A receiver and a worker on a store of a kind, once with each queue."""
    sides: Sides = {}
    for name, redis in ((EMBEDDED, False), (REDIS, True)):
        at = await stack.enter_async_context(ground(kind, redis=redis))
        made = await stack.enter_async_context(office(at, calls + _WARM))
        effects = Effects(at.folder / "effects")
        receiver = await at.start("receiver", "listening")
        await at.start("worker", "ready", WAKEGATE_TOOLS="benchmarks.peers.tools", **{FILE: str(effects.file)})
        sides[name] = Line(made, effects, receiver.port).start_ms
    return sides


async def in_turns(plan: Plan, sides: Sides, count: int, label: str = "") -> Sequence[Figure]:
    """Start so many a round on every side, another one first each time; the round's figure is their median."""
    found: dict[str, list[float]] = defaultdict(list)
    idle = random.Random(1)
    for each in sides.values():
        for _ in range(_WARM):
            await each()
    names = list(sides)
    for number in range(plan.rounds):
        for name in (*names[number % len(names) :], *names[: number % len(names)]):
            plan.say(f"round {number + 1} of {plan.rounds}: {name}")
            times = []
            for _ in range(count):
                await asyncio.sleep(idle.uniform(*_IDLE_S))
                times.append(await sides[name]())
            found[name].append(statistics.median(times))
    return (
        Figure(
            START + label, "ms", {side: tuple(values) for side, values in found.items()},
            "From sending the webhook's bytes to the tool's first line; from calling RQ's enqueue to the job's. The"
            f" median of {count} a round, one at a time.",
            (
                "ours does more on the way: HTTP, signature, an fsynced record, a lease, the GET of the decision, the"
                " checks and the fsynced start; RQ's job is only enqueued and begun",
            ),
        ),
    )  # fmt: skip


MEASURES: Final = (
    Measure(
        "starts",
        "Idle system: from notification to start",
        (
            Bar("idle notification → tool, embedded ÷ stock RQ enqueue → job", START, EMBEDDED, WORKER, (1.0,), False),
            Bar("idle notification → tool, Redis ÷ stock RQ enqueue → job", START, REDIS, WORKER, (1.0,), False),
            Bar("idle notification → tool, embedded ÷ RQ SimpleWorker's", START, EMBEDDED, SIMPLE, (), False),
        ),
        measure,
    ),
)
