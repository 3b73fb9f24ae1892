"""`wakegate notification`: look at the notifications received."""

import asyncio
from collections.abc import AsyncIterator

import click

from wakegate_console import listing, views
from wakegate_console.context import Context, pass_context
from wakegate_console.listing import Column
from wakegate_console.parameters import IDENTIFIER, PROVIDER_URL
from wakegate_schema.records import Notification
from wakegate_schema.store import NotFound, Store, open_store

STATES = ("received", "handled", "discarded")
COLUMNS = (
    Column("event_id", "EVENT", 36),
    Column("request_id", "REQUEST", 36),
    Column("state", "STATE", 9),
    Column("received_at", "RECEIVED", 20, is_time=True),
    Column("duplicates", "DUPLICATES", 10),
    Column("reason", "REASON", 20),
)


@click.group()
def notification() -> None:
    """Look at the notifications received."""


@notification.command("list")
@click.option("--state", type=click.Choice(STATES), metavar="STATE", help="Only those in this state.")
@listing.listing_options
@pass_context
def list_command(context: Context, state: str | None, as_json: bool, limit: int | None) -> None:
    """List notifications in the order of their receipt."""
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.database, mode="read") as store:
            await listing.write(_rows(store, state, limit), COLUMNS, as_json=as_json, nothing="No notifications.")

    asyncio.run(work())


@notification.command("show")
@click.argument("event_id", type=IDENTIFIER, metavar="EVENT_ID")
@click.option(
    "--provider-url", type=PROVIDER_URL, metavar="URL", help="Which provider's, if two have used the event id."
)
@click.option("--payload", is_flag=True, help="Also its body.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def show_command(context: Context, event_id: str, provider_url: str | None, payload: bool, as_json: bool) -> None:
    """Show a notification and its execution."""
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.database, mode="read") as store:
            record = await _find(store, event_id, provider_url)
            execution = await store.find_execution(record.provider, record.instance_id, record.request_id)
        view = {
            **views.notification(record),
            "execution_id": None if execution is None else execution.execution_id,
        }
        if payload:
            view |= views.notification_payload(record)
        (listing.write_object if as_json else listing.write_fields)(view)

    asyncio.run(work())


async def _rows(store: Store, state: str | None, limit: int | None) -> AsyncIterator[listing.Row]:
    count = 0
    async for record in listing.paged(store.notifications, limit if state is None else None):
        if state in (None, record.state):
            yield views.notification(record)
            count += 1
            if count == limit:
                return


async def _find(store: Store, event_id: str, provider: str | None) -> Notification:
    found = [record for record in await store.notification(event_id) if provider in (None, record.provider)]
    if not found:
        raise NotFound(f"there is no notification {event_id}; see `wakegate notification list`")
    if len(found) > 1:
        raise click.UsageError(f"{len(found)} providers have used {event_id}: name one by --provider-url.")
    return found[0]
