"""`wakegate notification`: look at the notifications received."""

import asyncio
from collections.abc import AsyncIterator

import click

from wakegate_console import advice, anomalies, listing, sheet, views
from wakegate_console.context import Context, pass_context
from wakegate_console.lookup import find_notification
from wakegate_console.parameters import BEGINNING, PROVIDER_URL
from wakegate_console.table import Column, Row
from wakegate_schema.records import Adoption, Notification
from wakegate_schema.store import Store, open_store

ADOPTED = "adopted"
"""The reason of a notification whose request a framework waits for."""
STATES = ("received", "handled", "discarded")
COLUMNS = (
    Column("event_id", "EVENT", "id"),
    Column("request_id", "REQUEST", "id"),
    Column("state", "STATE", least=10),
    Column("received_at", "RECEIVED", "time"),
    Column("duplicates", "DUPLICATES", spare=True),
    Column("adoption", "ADOPTION"),
    Column("framework", "FRAMEWORK", spare=True),
    Column("problem", "REASON", instead="reason", least=16),
)
FIRST = ("event_id", "state", "reason", "next", "duplicates", "request_id", "execution_id")
ADOPTION_FIRST = ("adoption", "reason", "problem", "framework", "thread", "due_at", "runs", "last_end")


@click.group()
def notification() -> None:
    """Look at the notifications received."""


@notification.command("list")
@click.option("--state", type=click.Choice(STATES), metavar="STATE", help="Only those in this state.")
@click.option("--unmatched", is_flag=True, help="Only those whose request nobody saved here, adopted or not.")
@listing.listing_options
@pass_context
def list_command(context: Context, state: str | None, unmatched: bool, as_json: bool, limit: int | None) -> None:
    """List notifications, the latest first.

    Those that wait for something are yellow and say for what.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            rows = _rows(store, state, limit, unmatched=unmatched)
            await listing.write(rows, COLUMNS, as_json=as_json, nothing="No notifications.", colour=_colour)

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
    """Show a notification, its execution or its adoption, and what was odd about it.

    EVENT is its event id or the beginning of it.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            record = await find_notification(store, event_id, provider_url)
            execution = await store.find_execution(record.provider, record.instance_id, record.request_id)
            adoption = await store.adoption(record.provider, record.instance_id, record.request_id)
            odd = await anomalies.about(store, record.provider, record.event_id)
        view = {
            **views.notification(record),
            "execution_id": None if execution is None else execution.execution_id,
        }
        adopted = None if adoption is None else views.adoption(adoption)
        if payload:
            view |= views.notification_payload(record)
        if as_json:
            sheet.write_object({**view, "adoption": adopted, "anomalies": odd})
            return
        view["next"] = advice.for_unmatched(record, adoption) if execution is None else None
        sheet.write_fields(view, FIRST)
        if adopted is not None:
            click.echo()
            sheet.write_fields({"adoption": adopted.pop("state"), **adopted}, ADOPTION_FIRST)
        sheet.write_section("anomalies", odd, anomalies.COLUMNS)

    asyncio.run(work())


async def _rows(store: Store, state: str | None, limit: int | None, *, unmatched: bool) -> AsyncIterator[Row]:
    count = 0
    is_filtered = unmatched or state is not None
    async for record in listing.paged(store.latest_notifications, None if is_filtered else limit):
        if state not in (None, record.state) or (unmatched and not await _is_unmatched(store, record)):
            continue
        yield _row(record, await _adoption(store, record))
        count += 1
        if count == limit:
            return


async def _adoption(store: Store, record: Notification) -> Adoption | None:
    """Return the adoption of its request; not asked for where there can be none."""
    if record.state != "received" and record.reason != ADOPTED:
        return None
    return await store.adoption(record.provider, record.instance_id, record.request_id)


async def _is_unmatched(store: Store, record: Notification) -> bool:
    if record.state != "received":
        return record.reason == ADOPTED
    return await store.find_execution(record.provider, record.instance_id, record.request_id) is None


def _row(record: Notification, adoption: Adoption | None) -> Row:
    return {
        **views.notification(record),
        "adoption": None if adoption is None else adoption.state,
        "framework": None if adoption is None else adoption.framework,
        "adoption_reason": None if adoption is None else adoption.reason,
        "problem": None if adoption is None else adoption.problem or adoption.reason,
    }


def _colour(row: Row) -> str | None:
    return "yellow" if row["problem"] not in (None, "consumed", "denied", "expired", "cancelled") else None
