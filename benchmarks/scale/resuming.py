"""Resumptions: calls that wait, approved at their provider; from the first notification to the last outcome."""

import argparse
import asyncio
import statistics
import time

from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import KINDS, Ground, ground, table
from support.aap_peer import Peer
from support.desk import Desk
from wakegate_schema.states import State

HEAD = ("store", "queue", "workers", "resumptions/s", "ms of a worker each", "ms of PostgreSQL each")
Figures = tuple[float, float, float]
_PATIENCE_S = 300.0
_LOOK_S = 0.03
"""Between two looks whether all have ended, which the database is charged with too."""


async def measure(chosen: argparse.Namespace) -> None:
    """Measure one worker and two, on both stores and both queues, in turns."""
    found: dict[tuple[str, str, int], list[Figures]] = {}
    for _ in range(chosen.rounds):
        for kind in KINDS:
            for redis in (False, True):
                peer = Peer()
                async with ground(kind, redis=redis) as at, peer.serving(), desk_on(at, peer.url) as (desk, _):
                    for count in (1, 2):
                        await at.start("worker", "ready")
                        await _round(at, desk, peer, 40)  # warm
                        figures = await _round(at, desk, peer, chosen.count // 5)
                        found.setdefault((kind, "Redis" if redis else "embedded", count), []).append(figures)
    rows = [
        (*which, f"{rate:.0f}", f"{worker:.1f}", f"{database:.1f}")
        for which, each in found.items()
        for rate, worker, database in [[statistics.median(column) for column in zip(*each, strict=True)]]
    ]
    table(f"{chosen.count // 5} calls a round, all due at once, {chosen.rounds} rounds", HEAD, rows)


async def _round(at: Ground, desk: Desk, peer: Peer, count: int) -> Figures:
    await waiting(desk, peer, count)
    asked = approve(peer)
    used, before = [each.cpu_s for each in at.started], at.database_cpu_s()
    begun = time.monotonic()
    await asyncio.gather(*(desk.store.record(desk.arrival(each)) for each in asked))
    await ended(desk)
    seconds = time.monotonic() - begun
    spent = sum(each.cpu_s - was for each, was in zip(at.started, used, strict=True))
    return count / seconds, 1000 * spent / count, 1000 * (at.database_cpu_s() - before) / count


async def waiting(desk: Desk, peer: Peer, count: int) -> None:
    """Save so many calls and let the workers submit them."""
    await asyncio.gather(*(desk.save(tool="nothing", arguments=b"{}") for _ in range(count)))
    await _none(desk, State.SAVED, State.SUBMITTING)
    if sum(request["status"] == "pending" for request in peer.requests.values()) != count:
        raise RuntimeError("not all calls were submitted")


def approve(peer: Peer) -> list[str]:
    """Approve whatever waits, and return the requests' ids."""
    asked = [request for request in peer.requests.values() if request["status"] == "pending"]
    for request in asked:
        peer.approve(request)
    return [request["id"] for request in asked]


async def ended(desk: Desk) -> None:
    """Wait until every call has ended."""
    await _none(desk, State.WAITING, State.STARTED)  # in the order in which calls pass through them


async def _none(desk: Desk, *states: State) -> None:
    """Wait until no call is in one of these states."""
    async with asyncio.timeout(_PATIENCE_S):
        for state in states:
            while await desk.store.executions(limit=1, state=state):
                await asyncio.sleep(_LOOK_S)
