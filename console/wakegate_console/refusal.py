"""`wakegate refusal`: look at what the receiver has refused."""

import asyncio
import difflib
from typing import Any

import click

from wakegate_console import listing, views
from wakegate_console.context import Context, pass_context
from wakegate_console.table import Column
from wakegate_receiver.answers import ANSWERS
from wakegate_receiver.refusals_file import read_refusals
from wakegate_schema.settings import Settings
from wakegate_schema.store import open_store

COLUMNS = (
    Column("at", "AT", "time"),
    Column("status", "STATUS"),
    Column("reason", "REASON", least=24),
    Column("bytes", "BYTES"),
    Column("remote", "REMOTE"),
    Column("instance_id", "INSTANCE", "id", spare=True),
)


@click.group()
def refusal() -> None:
    """Look at what the receiver has refused."""


def _known(_: click.Context, parameter: click.Parameter, reason: str | None) -> str | None:
    if reason is None or reason in ANSWERS:
        return reason
    close = difflib.get_close_matches(reason, ANSWERS, n=1)
    hint = f"did you mean {close[0]}?" if close else "docs/answers.md lists them."
    raise click.BadParameter(f"the receiver refuses nothing for this reason; {hint}", param=parameter)


@refusal.command("list")
@click.option("--reason", callback=_known, metavar="REASON", help="Only those with this machine reason.")
@listing.listing_options
@pass_context
def list_command(context: Context, reason: str | None, as_json: bool, limit: int | None) -> None:
    """List the last refusals, the latest first.

    The receiver keeps a thousand of them, without their bodies.
    """
    settings = context.settings()
    asyncio.run(_check_place(settings))
    found = [_view(entry) for entry in reversed(read_refusals(settings.refusals_path))]
    rows = [row for row in found if reason in (None, row["reason"])][:limit]
    asyncio.run(listing.write(listing.several(rows), COLUMNS, as_json=as_json, nothing="No refusals."))


async def _check_place(settings: Settings) -> None:
    """Raise `StoreMissing` where there are neither refusals nor a store: a receiver has never run there."""
    if not settings.refusals_path.exists():
        await (await open_store(settings.store, mode="read")).close()


def _view(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, "at": views.moment(entry["at"])}
