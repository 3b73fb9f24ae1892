"""`wakegate provider`: run the small approval provider, and decide in it."""

import asyncio
from typing import TYPE_CHECKING, Any, Literal, cast

import click

from wakegate_console import listing
from wakegate_console.context import Context, pass_context
from wakegate_console.listing import Column
from wakegate_console.parameters import DURATION, IDENTIFIER, NOTE
from wakegate_console.services import run_service

if TYPE_CHECKING:
    from wakegate_provider.model import Status

STATUSES = ("pending", "approved", "denied", "expired", "cancelled")
COLUMNS = (
    Column("request_id", "REQUEST", 36),
    Column("status", "STATUS", 9),
    Column("tool", "TOOL", 24),
    Column("created_at", "CREATED", 20, is_time=True),
    Column("deadline_at", "DEADLINE", 20, is_time=True),
    Column("event_id", "EVENT", 36),
)


@click.group(invoke_without_command=True)
@click.pass_context
def provider(ctx: click.Context) -> None:
    """Run the small approval provider, or decide in it.

    It listens on loopback only. Without a command this is `wakegate provider run`.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(run_command)


@provider.command("run")
@pass_context
def run_command(context: Context) -> None:
    """Run the provider until it is told to stop."""
    settings = context.settings()
    from wakegate_provider.service import serve

    run_service(settings, serve)


@provider.command("decide")
@click.argument("request_id", type=IDENTIFIER, metavar="REQUEST")
@click.argument("decision", type=click.Choice(["approve", "deny"]))
@click.option("--note", type=NOTE, metavar="TEXT", help="What to tell the agent.")
@click.option(
    "--expires-in", type=DURATION, metavar="DURATION", help="How long the approval lasts, like 10m; else by policy."
)
@pass_context
def decide_command(
    context: Context, request_id: str, decision: Literal["approve", "deny"], note: str | None, expires_in: int | None
) -> None:
    """Approve or deny a pending request.

    `wakegate provider show` tells what it asks for.
    """
    if decision == "deny" and expires_in is not None:
        raise click.UsageError("Option '--expires-in' is for approve: a denial does not expire.")
    settings = context.settings()
    from wakegate_provider.review import decide

    lasts = None if expires_in is None else f"{expires_in // 1_000_000}s"
    view = decide(settings, request_id, decision, note=note, expires_in=lasts)
    click.echo(f"{request_id} {view['status']}")


@provider.command("requests")
@click.option("--status", type=click.Choice(STATUSES), metavar="STATUS", help="Only those in this state.")
@listing.listing_options
@pass_context
def requests_command(context: Context, status: "Status | None", as_json: bool, limit: int | None) -> None:
    """List requests, the newest first.

    Their arguments are left out; `wakegate provider show` has them.
    """
    settings = context.settings()
    from wakegate_provider.review import list_requests

    rows = cast("Any", list_requests(settings, status=status, limit=limit))
    asyncio.run(listing.write(listing.several(rows), COLUMNS, as_json=as_json, nothing="No requests."))


@provider.command("show")
@click.argument("request_id", type=IDENTIFIER, metavar="REQUEST")
@pass_context
def show_command(context: Context, request_id: str) -> None:
    """Show a request, as one JSON object.

    It has everything that a reviewer must see, arguments included.
    """
    settings = context.settings()
    from wakegate_provider.review import show_request
    from wakegate_schema import strict_json

    click.echo(strict_json.dumps(show_request(settings, request_id)).decode())


@provider.command("redeliver")
@click.argument("event_id", type=IDENTIFIER, metavar="EVENT")
@pass_context
def redeliver_command(context: Context, event_id: str) -> None:
    """Deliver a notification once more.

    The receiver must take it as a repeat.
    """
    settings = context.settings()
    from wakegate_provider.review import redeliver

    redeliver(settings, event_id)
    click.echo(f"{event_id} will be delivered again")
