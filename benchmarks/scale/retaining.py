"""Bytes: what a retained notification and a finished call take, with their indexes."""

import argparse
import asyncio
import sqlite3

from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import KINDS, Ground, ground, table
from support import driving
from support.deliveries import new_id

NOTIFICATIONS, CALLS = 5000, 300
BODY = b'{"id":"' + b"0" * 230 + b'"}'


async def measure(chosen: argparse.Namespace) -> None:  # noqa: ARG001 (every measure is called alike)
    """Fill stores, and look how much larger they are."""
    rows = []
    for kind in KINDS:
        async with ground(kind) as at, desk_on(at) as (desk, _):
            empty = _size(at)
            await asyncio.gather(*(desk.store.record(desk.arrival(new_id(), body=BODY)) for _ in range(NOTIFICATIONS)))
            told = _size(at)
            for _ in range(CALLS):
                await driving.run(desk.store, (await desk.save()).execution_id)
            rows.append((kind, f"{(told - empty) / NOTIFICATIONS:.0f}", f"{(_size(at) - told) / CALLS:.0f}"))
    table(f"Bytes on disk, a body of {len(BODY)} bytes", ("store", "a notification", "a finished call"), rows)


def _size(at: Ground) -> int:
    if at.server is not None:
        at.server.ask("CHECKPOINT")
        return int(at.server.ask("SELECT pg_database_size('wakegate')"))
    connection = sqlite3.connect(at.folder / "wakegate.db")
    try:
        pages, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    finally:
        connection.close()
    return int(pages * size)
