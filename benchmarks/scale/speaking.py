"""Statements: how many PostgreSQL is sent for one acknowledgement and one resumption; each is a round trip."""

import argparse
import asyncio
import re
from dataclasses import dataclass

from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import Ground, ground, table
from benchmarks.scale.resuming import approve, ended, waiting
from support.aap_peer import Peer
from support.deliveries import new_id

_STATEMENT = re.compile(r"\[(\d+)\] LOG:  (?:statement|execute <unnamed>): (.*)")
_SETTLE_S = 3.0
_BESIDE = "pg_advisory_xact_lock_shared"
MANY = 64
HEAD = ("for each of so many at once", "at once", "statements", "of them alone in the turn", "commits", "of them alone")


@dataclass
class Sent:
    """What the server was sent."""

    statements: int = 0
    alone: int = 0
    """Those of transactions that nobody else's ran beside."""
    commits: int = 0
    commits_alone: int = 0


async def measure(chosen: argparse.Namespace) -> None:  # noqa: ARG001 (every measure is called alike)
    """Count what a server that logs every statement was sent for one, and for many at once."""
    rows = [row for count in (1, MANY) for row in (await _acknowledged(count), await _resumed(count))]
    table("Sent to PostgreSQL", HEAD, rows)


async def _acknowledged(count: int) -> tuple[object, ...]:
    async with ground("PostgreSQL", logging=True) as at, desk_on(at) as (desk, _):
        await desk.store.record(desk.arrival(new_id()))
        before = len(_log(at))
        await asyncio.gather(*(desk.store.record(desk.arrival(new_id())) for _ in range(count)))
        return _row("acknowledgement", count, _log(at)[before:])


async def _resumed(count: int) -> tuple[object, ...]:
    peer = Peer()
    async with ground("PostgreSQL", logging=True) as at, peer.serving(), desk_on(at, peer.url) as (desk, _):
        # Without looks of its own in between: `idle` has them.
        await at.start("worker", "ready", WAKEGATE_SWEEP_SECONDS="600")
        await waiting(desk, peer, count)
        asked = approve(peer)
        await asyncio.sleep(_SETTLE_S)
        before = len(_log(at))
        await asyncio.gather(*(desk.store.record(desk.arrival(each)) for each in asked))
        await asyncio.sleep(_SETTLE_S)
        row = _row("acknowledgement and resumption", count, _log(at)[before:])
        await ended(desk)
        return row


def _row(what: str, count: int, log: str) -> tuple[object, ...]:
    sent = _count(log)
    found = (sent.statements, sent.alone, sent.commits, sent.commits_alone)
    return (what, count, *(f"{each / count:.2f}" for each in found))


def _count(log: str) -> Sent:
    sent, alone = Sent(), dict[str, bool]()
    for pid, text in _STATEMENT.findall(log):
        if "pg_current_snapshot" in text:  # a doorbell's look
            continue
        if text.startswith("BEGIN"):
            alone[pid] = _BESIDE not in text
        sent.statements += 1
        sent.alone += alone.get(pid, False)
        if text == "COMMIT":
            sent.commits += 1
            sent.commits_alone += alone.pop(pid)
    return sent


def _log(at: Ground) -> str:
    return "" if at.server is None else at.server.log.read_text(errors="replace")
