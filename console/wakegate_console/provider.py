"""`wakegate provider`: run the small approval provider, and decide in it."""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import click

from wakegate_console import listing, sheet
from wakegate_console.context import Context, pass_context
from wakegate_console.importing import importing
from wakegate_console.parameters import BEGINNING, DURATION, NOTE
from wakegate_console.services import run_service
from wakegate_console.table import Column, Row

if TYPE_CHECKING:
    from wakegate_provider.model import Status
    from wakegate_schema.settings import Settings

STATUSES = ("pending", "approved", "denied", "expired", "cancelled")
COLUMNS = (
    Column("request_id", "REQUEST", "id"),
    Column("status", "STATUS", least=10),
    Column("decided_by", "BY", spare=True),
    Column("tool", "TOOL", least=12),
    Column("created_at", "CREATED", "time"),
    Column("deadline_at", "DEADLINE", "time"),
    Column("event_id", "EVENT", "id"),
    Column("last_result", "DELIVERY", spare=True),
)
PAYLOAD_COLUMNS = (
    *COLUMNS[:4],
    Column("arguments", "ARGUMENTS", least=24),
    Column("agent_reasoning", "REASONING", least=16),
)
FIRST = ("request_id", "status", "next", "tool", "arguments", "agent_reasoning", "context", "timeout")


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
    with importing():
        from wakegate_provider.service import serve

    run_service(settings, serve, "provider", settings.provider_database_path)


@provider.command("decide")
@click.argument("request_id", type=BEGINNING, metavar="REQUEST")
@click.argument("decision", type=click.Choice(["approve", "deny"]), metavar="DECISION")
@click.option("--note", type=NOTE, metavar="TEXT", help="What to tell the agent.")
@click.option(
    "--expires-in", type=DURATION, metavar="DURATION", help="How long the approval lasts, like 10m; else by policy."
)
@pass_context
def decide_command(
    context: Context, request_id: str, decision: Literal["approve", "deny"], note: str | None, expires_in: int | None
) -> None:
    """Approve or deny a pending request.

    REQUEST is its id or the beginning of it, DECISION is approve or deny. `wakegate provider show` tells what the
    request asks for.
    """
    if decision == "deny" and expires_in is not None:
        raise click.UsageError("Option '--expires-in' is for approve: a denial does not expire.")
    settings = context.settings()
    from wakegate_provider.review import decide

    lasts = None if expires_in is None else f"{expires_in // 1_000_000}s"
    view = decide(settings, request_id, decision, note=note, expires_in=lasts)
    click.echo(f"{view['id']} {view['status']}")


@provider.command("requests")
@click.option("--state", "--status", "status", type=click.Choice(STATUSES), metavar="STATE", help="Only those in it.")
@click.option("--payload", is_flag=True, help="Also their arguments, contexts, reasonings and timeouts.")
@listing.listing_options
@pass_context
def requests_command(
    context: Context, status: "Status | None", payload: bool, as_json: bool, limit: int | None
) -> None:
    """List requests, the latest first.

    What they ask for is left out unless --payload is given; `wakegate provider show` has it too.
    """
    settings = context.settings()
    rows = _rows(settings, status, limit, payload=payload)
    columns = PAYLOAD_COLUMNS if payload else COLUMNS
    asyncio.run(listing.write(listing.several(rows), columns, as_json=as_json, nothing="No requests.", colour=_colour))


@provider.command("show")
@click.argument("request_id", type=BEGINNING, metavar="REQUEST")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, numbers exactly as they were submitted.")
@pass_context
def show_command(context: Context, request_id: str, as_json: bool) -> None:
    """Show a request with everything that a reviewer must see, arguments included.

    REQUEST is its id or the beginning of it.
    """
    settings = context.settings()
    from wakegate_provider.review import show_request
    from wakegate_schema import strict_json

    view = show_request(settings, request_id)
    if as_json:
        click.echo(strict_json.dumps(view).decode())
        return
    pending = view["status"] == "pending"
    decide = f"wakegate provider decide {str(view['request_id'])[:8]} approve|deny --note TEXT"
    sheet.write_fields({**_flat(view), "next": decide if pending else None}, FIRST, "yellow" if pending else None)


@provider.command("redeliver")
@click.argument("event_id", type=BEGINNING, metavar="EVENT")
@pass_context
def redeliver_command(context: Context, event_id: str) -> None:
    """Deliver a notification once more.

    EVENT is its id or the beginning of it. The receiver must take it as a repeat.
    """
    settings = context.settings()
    from wakegate_provider.review import redeliver

    click.echo(f"{redeliver(settings, event_id)} will be delivered again")


def _rows(settings: "Settings", status: "Status | None", limit: int | None, *, payload: bool) -> Iterator[Row]:
    from wakegate_provider.review import list_requests

    return map(_flat, list_requests(settings, status=status, limit=limit, payload=payload))


def _flat(view: Any) -> dict[str, Any]:
    """Return a request whose JSON objects are their exact text."""
    from wakegate_schema import strict_json

    return {
        name: strict_json.dumps(value).decode() if isinstance(value, dict | list) else value
        for name, value in view.items()
    }


def _colour(row: Row) -> str | None:
    return "yellow" if row["status"] == "pending" else None
