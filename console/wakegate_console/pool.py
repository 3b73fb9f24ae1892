"""`wakegate pool`: look at the workers, and at what each can run."""

import asyncio
from typing import Any

import click

from wakegate_console import listing, views
from wakegate_console.context import Context, pass_context
from wakegate_console.table import Column, Row
from wakegate_schema import clock
from wakegate_schema.records import RegisteredWorker
from wakegate_schema.store import open_store

COLUMNS = (
    Column("pool", "POOL"),
    Column("host", "HOST"),
    Column("state", "STATE"),
    Column("version", "VERSION"),
    Column("lease_seconds", "LEASE (s)"),
    Column("started_at", "STARTED", "time"),
    Column("seen_at", "SEEN", "time"),
    Column("tools_text", "TOOLS", least=16),
    Column("resumers_text", "RESUMES", spare=True),
)


@click.group()
def pool() -> None:
    """Look at the workers, and at what each can run.

    A call is given only to a worker that has its tool, whichever pool that is in; hints go to each pool on its own.
    """


@pool.command("list")
@listing.listing_options
@pass_context
def list_command(context: Context, as_json: bool, limit: int | None) -> None:
    """List the workers by pool: those that live, and those that fell silent in the last minutes.

    A worker is here from its start to its end. One that was killed is `silent` after half a minute, and gone after ten.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            rows = [_view(worker, clock.now(), as_json=as_json) for worker in await store.workers()][:limit]
        await listing.write(listing.several(rows), COLUMNS, as_json=as_json, nothing="No workers.", colour=_colour)

    asyncio.run(work())


def _view(worker: RegisteredWorker, now: int, *, as_json: bool) -> Row:
    named = ", ".join(f"{name}@{version}" for name, version in worker.tools.items())
    has: dict[str, Any] = {"tools": dict(worker.tools), "resumers": sorted(worker.resumers)}
    return {
        "pool": worker.pool,
        "worker_id": worker.worker_id,
        "host": worker.host,
        "state": "living" if worker.lives_at(now) else "silent",
        "version": worker.version,
        "lease_seconds": worker.lease_seconds,
        "started_at": views.moment(worker.started_at),
        "seen_at": views.moment(worker.seen_at),
        **(has if as_json else {"tools_text": named, "resumers_text": ", ".join(has["resumers"])}),
    }


def _colour(row: Row) -> str | None:
    return "yellow" if row["state"] == "silent" else None
