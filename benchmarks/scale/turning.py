"""The turn: how long one transaction holds it, from having it to the end of the commit, with nobody else there."""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager

from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import KINDS, ground, table
from support.deliveries import new_id
from support.desk import Desk, approved
from wakegate_schema import clock
from wakegate_schema.records import Outcome
from wakegate_schema.store.engine import Engine, Savepoint
from wakegate_schema.store.transaction import Transaction

REPEATS, SEVERAL = 30, 5
MANY = 64
HEAD = ("one commit of", *(f"{kind}, ms" for kind in KINDS))


class Timed:
    """An engine that notes how long each transaction held its turn."""

    def __init__(self, engine: Engine) -> None:
        """Take the real one."""
        self._engine = engine
        self.held_s: list[float] = []

    @contextmanager
    def transaction(self, *, alone: bool = True) -> Iterator[Transaction]:
        """See `Engine.transaction`."""
        begun = 0.0
        with self._engine.transaction(alone=alone) as transaction:
            begun = time.monotonic()
            yield transaction
        self.held_s.append(time.monotonic() - begun)

    def savepoint(self, transaction: Transaction) -> AbstractContextManager[Savepoint]:
        """See `Engine.savepoint`."""
        return self._engine.savepoint(transaction)

    def translate(self, error: Exception) -> Exception:
        """See `Engine.translate`."""
        return self._engine.translate(error)

    def close(self) -> None:
        """See `Engine.close`."""
        self._engine.close()


async def measure(chosen: argparse.Namespace) -> None:  # noqa: ARG001 (every measure is called alike)
    """Time the verbs of a call's life, one at a time, and many notifications in one commit."""
    found: dict[str, dict[str, float]] = {}
    for kind in KINDS:
        async with ground(kind) as at, desk_on(at) as (desk, _):
            timed = desk.store._writer._engine = Timed(desk.store._writer._engine)
            for what, seconds in (await _times(desk, timed)).items():
                found.setdefault(what, {})[kind] = seconds
    rows = [(what, *(f"{1000 * each[kind]:.2f}" for kind in KINDS)) for what, each in found.items()]
    table(f"How long the turn is held; medians of {REPEATS}, and of {SEVERAL} for many", HEAD, rows)


async def _times(desk: Desk, timed: Timed) -> dict[str, float]:
    found: dict[str, list[float]] = {}

    async def note(what: str, work: Iterable[Awaitable[object]]) -> None:
        """Note the longest: of many at once the first is committed alone, and the rest together."""
        timed.held_s.clear()
        await asyncio.gather(*work)
        found.setdefault(what, []).append(max(timed.held_s))

    for count, repeats in ((1, REPEATS), (MANY, SEVERAL)):
        for _ in range(repeats):
            await _life(desk, count, note)
            now = clock.now()
            if count == 1:
                await note("a look for what is due, and nothing is", [desk.store.lease_due("w", 64, now, now)])
                await note("a sweep that finds nothing", [desk.store.sweep(now)])
    return {what: statistics.median(each) for what, each in found.items()}


async def _life(desk: Desk, count: int, note: Callable[[str, Iterable[Awaitable[object]]], Awaitable[None]]) -> None:
    """Let so many calls go from their notifications to their outcomes, side by side."""
    said = "1" if count == 1 else f"up to {count}"
    await note(f"{said} notifications", [desk.store.record(desk.arrival(new_id())) for _ in range(count)])
    waiting = [await desk.waiting() for _ in range(count)]
    now, until = clock.now(), clock.now() + clock.MINUTE
    await note(f"{said} starts", [desk.store.start(each.lease, approved(), now, until) for each in waiting])
    started = [await desk.store.execution(each.execution_id) for each in waiting]
    outcome = Outcome("succeeded", "returned", result=b"1")
    await note(f"{said} outcomes", [desk.store.finish(each.lease, outcome, clock.now()) for each in started])
