"""`wakegate notification`: look at the notifications received."""

import asyncio
from collections.abc import AsyncIterator

import click

from wakegate_console import anomalies, listing, sheet, views
from wakegate_console.context import Context, pass_context
from wakegate_console.lookup import find_notification
from wakegate_console.parameters import BEGINNING, PROVIDER_URL
from wakegate_console.table import Column, Row
from wakegate_schema.store import Store, open_store

STATES = ("received", "handled", "discarded")
COLUMNS = (
    Column("event_id", "EVENT", "id"),
    Column("request_id", "REQUEST", "id"),
    Column("state", "STATE", least=10),
    Column("received_at", "RECEIVED", "time"),
    Column("duplicates", "DUPLICATES"),
    Column("reason", "REASON", least=16),
)
FIRST = ("event_id", "state", "reason", "duplicates", "request_id", "execution_id")


@click.group()
def notification() -> None:
    """Look at the notifications received."""


@notification.command("list")
@click.option("--state", type=click.Choice(STATES), metavar="STATE", help="Only those in this state.")
@listing.listing_options
@pass_context
def list_command(context: Context, state: str | None, as_json: bool, limit: int | None) -> None:
    """List notifications, the latest first."""
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            await listing.write(_rows(store, state, limit), COLUMNS, as_json=as_json, nothing="No notifications.")

    asyncio.run(work())


@notification.command("show")
@click.argument("event_id", type=BEGINNING, metavar="EVENT")
@click.option(
    "--provider-url", type=PROVIDER_URL, metavar="URL", help="Which provider's, if two have used the event id."
)
@click.option("--payload", is_flag=True, help="Also its body.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def show_command(context: Context, event_id: str, provider_url: str | None, payload: bool, as_json: bool) -> None:
    """Show a notification, its execution and what was odd about it.

    EVENT is its event id or the beginning of it.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            record = await find_notification(store, event_id, provider_url)
            execution = await store.find_execution(record.provider, record.instance_id, record.request_id)
            odd = await anomalies.about(store, record.provider, record.event_id)
        view = {
            **views.notification(record),
            "execution_id": None if execution is None else execution.execution_id,
        }
        if payload:
            view |= views.notification_payload(record)
        if as_json:
            sheet.write_object({**view, "anomalies": odd})
            return
        sheet.write_fields(view, FIRST)
        sheet.write_section("anomalies", odd, anomalies.COLUMNS)

    asyncio.run(work())


async def _rows(store: Store, state: str | None, limit: int | None) -> AsyncIterator[Row]:
    count = 0
    async for record in listing.paged(store.latest_notifications, limit if state is None else None):
        if state in (None, record.state):
            yield views.notification(record)
            count += 1
            if count == limit:
                return
