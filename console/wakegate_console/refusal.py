"""`wakegate refusal`: look at what the receiver has refused."""

import asyncio
from typing import Any

import click

from wakegate_console import listing, views
from wakegate_console.context import Context, pass_context
from wakegate_console.listing import Column
from wakegate_receiver.refusals_file import read_refusals

COLUMNS = (
    Column("at", "AT", 20, is_time=True),
    Column("status", "STATUS", 6),
    Column("reason", "REASON", 24),
    Column("bytes", "BYTES", 8),
    Column("remote", "REMOTE", 15),
    Column("instance_id", "INSTANCE", 36),
)


@click.group()
def refusal() -> None:
    """Look at what the receiver has refused."""


@refusal.command("list")
@click.option("--reason", metavar="REASON", help="Only those with this machine reason.")
@listing.listing_options
@pass_context
def list_command(context: Context, reason: str | None, as_json: bool, limit: int | None) -> None:
    """List the last refusals, the oldest first.

    The receiver keeps a thousand of them, without their bodies.
    """
    settings = context.settings()
    found = [_view(entry) for entry in read_refusals(settings.refusals_path)]
    rows = [row for row in found if reason in (None, row["reason"])][:limit]
    asyncio.run(listing.write(listing.several(rows), COLUMNS, as_json=as_json, nothing="No refusals."))


def _view(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "at": views.moment(entry["at"])}
