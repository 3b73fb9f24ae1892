"""`wakegate execution`: look at saved calls, give one up, settle one in doubt."""

import asyncio
from collections.abc import AsyncIterator

import click

from wakegate_console import listing, views
from wakegate_console.context import Context, pass_context
from wakegate_console.listing import Column
from wakegate_console.parameters import IDENTIFIER, NAME, NOTE
from wakegate_console.person import actor
from wakegate_schema import clock
from wakegate_schema.records import Execution
from wakegate_schema.states import State
from wakegate_schema.store import Store, open_store

COLUMNS = (
    Column("execution_id", "EXECUTION", 36),
    Column("state", "STATE", 10),
    Column("tool", "TOOL", 24),
    Column("created_at", "SAVED", 20, is_time=True),
    Column("reason", "REASON", 20),
)
TRANSITION_COLUMNS = (
    Column("at", "AT", 27),
    Column("from", "FROM", 10),
    Column("to", "TO", 10),
    Column("actor", "ACTOR", 24),
    Column("reason", "REASON", 20),
)
WAKE_COLUMNS = (
    Column("wake_id", "WAKE", 36),
    Column("to", "TELLS OF", 10),
    Column("target", "TARGET", 16),
    Column("state", "STATE", 11),
    Column("tries", "TRIES", 5),
    Column("delivered_at", "DELIVERED", 20, is_time=True),
    Column("problem", "PROBLEM", 20),
)
COLOURS = {
    State.IN_DOUBT: "red",
    State.STARTED: "yellow",
    State.SUCCEEDED: "green",
    State.FAILED: "magenta",
    State.UNOBTAINED: "magenta",
    State.REFUSED: "magenta",
}


@click.group()
def execution() -> None:
    """Look at saved calls, and settle them by hand."""


@execution.command("list")
@click.option("--state", type=click.Choice(list(map(str, State))), metavar="STATE", help="Only those in this state.")
@listing.listing_options
@pass_context
def list_command(context: Context, state: str | None, as_json: bool, limit: int | None) -> None:
    """List executions, the oldest first.

    A table begins with those in doubt.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.database, mode="read") as store:
            await listing.write(
                _rows(store, None if state is None else State(state), limit, doubtful_first=not as_json),
                COLUMNS,
                as_json=as_json,
                nothing="No executions.",
                colour=lambda row: COLOURS.get(State(row["state"])),
            )

    asyncio.run(work())


@execution.command("show")
@click.argument("execution_id", type=IDENTIFIER, metavar="EXECUTION_ID")
@click.option("--payload", is_flag=True, help="Also its arguments, context, reasoning and result.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def show_command(context: Context, execution_id: str, payload: bool, as_json: bool) -> None:
    """Show an execution, with its history and its wakes."""
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.database, mode="read") as store:
            record = await store.execution(execution_id)
            transitions = [views.transition(each) for each in await store.transitions(execution_id)]
            wakes = [views.wake(each) for each in await store.wakes(execution_id)]
        view = {**views.execution(record), **views.execution_words(record)}
        if payload:
            view |= views.execution_payload(record)
        if as_json:
            listing.write_object({**view, "transitions": transitions, "wakes": wakes})
            return
        listing.write_fields(view)
        listing.write_section("transitions", transitions, TRANSITION_COLUMNS)
        listing.write_section("wakes", wakes, WAKE_COLUMNS)

    asyncio.run(work())


@execution.command("abandon")
@click.argument("execution_id", type=IDENTIFIER, metavar="EXECUTION_ID")
@click.option("--reason", type=NAME, required=True, metavar="TEXT", help="Why; kept with the execution.")
@pass_context
def abandon_command(context: Context, execution_id: str, reason: str) -> None:
    """Give up an execution that has not started.

    The worker cancels its request at the provider.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.database, mode="use") as store:
            record = await store.abandon(execution_id, reason, actor(), clock.now())
        if record.state is not State.ABANDONED:
            raise click.ClickException(f"{execution_id} is {record.state} already; nothing was changed")
        click.echo(f"{execution_id} abandoned")

    asyncio.run(work())


@execution.command("resolve")
@click.argument("execution_id", type=IDENTIFIER, metavar="EXECUTION_ID")
@click.option("--happened/--did-not-happen", default=None, help="What you found out about the call.")
@click.option("--by", type=NAME, required=True, metavar="NAME", help="Who found it out.")
@click.option("--note", type=NOTE, required=True, metavar="TEXT", help="How.")
@pass_context
def resolve_command(context: Context, execution_id: str, happened: bool | None, by: str, note: str) -> None:
    """Settle an execution in doubt, on a person's word.

    It becomes succeeded or failed.
    """
    if happened is None:
        raise click.UsageError("Missing option '--happened' or '--did-not-happen'.")
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.database, mode="use") as store:
            record = await store.settle(execution_id, happened=happened, by=by, note=note, at=clock.now())
        click.echo(f"{execution_id} {record.state}")

    asyncio.run(work())


async def _rows(
    store: Store, state: State | None, limit: int | None, *, doubtful_first: bool
) -> AsyncIterator[listing.Row]:
    """Yield executions; those in doubt first and then not again, where that is wanted."""
    count = 0
    apart = doubtful_first and state is None
    for part in (State.IN_DOUBT, None) if apart else (state,):
        left = None if limit is None else limit - count
        if left == 0:
            return

        async def page(after: int, wanted: int, part: State | None = part) -> list[tuple[int, Execution]]:
            return await store.executions(after, wanted, part)

        async for record in listing.paged(page, None if apart else left):
            if apart and part is None and record.state is State.IN_DOUBT:
                continue
            yield views.execution(record)
            count += 1
            if count == limit:
                return
