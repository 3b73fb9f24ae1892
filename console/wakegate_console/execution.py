"""`wakegate execution`: look at saved calls, give one up, settle one in doubt."""

import asyncio
from collections.abc import AsyncIterator

import click

from wakegate_console import advice, anomalies, listing, sheet, views
from wakegate_console.context import Context, pass_context
from wakegate_console.lookup import find_execution
from wakegate_console.parameters import CALLED, NAME, NOTE
from wakegate_console.person import actor
from wakegate_console.releasing import release_command
from wakegate_console.table import Column, Row
from wakegate_console.toolless import missing_now, shown
from wakegate_schema import clock
from wakegate_schema.records import Doubts, Execution
from wakegate_schema.states import State
from wakegate_schema.store import Store, open_store

COLUMNS = (
    Column("execution_id", "EXECUTION", "id"),
    Column("state", "STATE", least=10),
    Column("tool", "TOOL", least=12),
    Column("key", "KEY", least=10, keeps_end=True),
    Column("request_id", "REQUEST", "id", spare=True),
    Column("instance", "INSTANCE", spare=True),
    Column("created_at", "CREATED", "time"),
    Column("problem", "REASON", instead="reason", least=16),
)
TRANSITION_COLUMNS = (
    Column("at", "AT"),
    Column("from", "FROM"),
    Column("to", "TO"),
    Column("actor", "ACTOR"),
    Column("reason", "REASON", least=16),
)
WAKE_COLUMNS = (
    Column("wake_id", "WAKE", least=36),
    Column("group", "TELLS OF", instead="to"),
    Column("target", "TARGET"),
    Column("state", "STATE"),
    Column("tries", "TRIES"),
    Column("delivered_at", "DELIVERED", "time"),
    Column("problem", "PROBLEM", least=16),
)
ALL = 2**31
"""More than there are."""
FIRST = ("execution_id", "state", "reason", "problem", "next", "error", "note", "resolution_note", "release_note")
"""What is shown before everything else."""
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


execution.add_command(release_command)


@execution.command("list")
@click.option("--state", type=click.Choice(list(map(str, State))), metavar="STATE", help="Only those in this state.")
@click.option("--fail-if-in-doubt", is_flag=True, help="End with exit code 1 if any is in doubt, listed or not.")
@listing.listing_options
@pass_context
def list_command(context: Context, state: str | None, fail_if_in_doubt: bool, as_json: bool, limit: int | None) -> None:
    """List executions: those in doubt first, then all others, the latest first.

    How many are in doubt is said on standard error. Those that cannot go on are yellow and say why.
    """
    settings = context.settings()

    async def work() -> Doubts:
        async with await open_store(settings.store, mode="read") as store:
            doubts = await store.doubts(ALL)
            if doubts.count:
                click.echo(advice.of_doubts(doubts), err=True)
            await listing.write(
                _rows(store, None if state is None else State(state), limit),
                COLUMNS,
                as_json=as_json,
                nothing="No executions.",
                colour=_colour,
            )
            return doubts

    if asyncio.run(work()).count and fail_if_in_doubt:
        raise click.exceptions.Exit(1)


@execution.command("show")
@click.argument("which", type=CALLED, metavar="EXECUTION")
@click.option("--payload", is_flag=True, help="Also its arguments, context, reasoning and result.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def show_command(context: Context, which: str, payload: bool, as_json: bool) -> None:
    """Show an execution, with its history, its wakes and what was odd about it.

    EXECUTION is its id, the beginning of it, or the call's key.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            record = shown(await find_execution(store, which), await missing_now(store))
            instances = views.names(await store.instances())
            transitions = [views.transition(each) for each in await store.transitions(record.execution_id)]
            wakes = [
                views.wake(each, None if each.group_number is None else record.group)
                for each in await store.wakes(record.execution_id)
            ]
            odd = await anomalies.about(store, record.provider, record.execution_id)
        view = {**views.execution(record, instances), **views.execution_words(record)}
        if payload:
            view |= views.execution_payload(record)
        if as_json:
            sheet.write_object({**view, "transitions": transitions, "wakes": wakes, "anomalies": odd})
            return
        view["next"] = advice.for_execution(record, view["instance"] or record.instance_id)
        sheet.write_fields(view, FIRST, _colour(view))
        sheet.write_section("transitions", transitions, TRANSITION_COLUMNS)
        sheet.write_section("wakes", wakes, WAKE_COLUMNS)
        sheet.write_section("anomalies", odd, anomalies.COLUMNS)

    asyncio.run(work())


@execution.command("abandon")
@click.argument("which", type=CALLED, metavar="EXECUTION")
@click.option("--reason", type=NAME, required=True, metavar="TEXT", help="Why; kept with the execution.")
@pass_context
def abandon_command(context: Context, which: str, reason: str) -> None:
    """Give up an execution that has not started.

    The worker cancels its request at the provider.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="use") as store:
            before = await find_execution(store, which)
            record = await store.abandon(before.execution_id, reason, actor(), clock.now())
        if record.state is not State.ABANDONED:
            raise click.ClickException(f"{record.execution_id} is {record.state} already; nothing was changed")
        was = "abandoned before" if before.state is State.ABANDONED else f"{before.state} → abandoned"
        click.echo(f"{record.execution_id}: {was}")

    asyncio.run(work())


@execution.command("resolve")
@click.argument("which", type=CALLED, metavar="EXECUTION")
@click.option("--happened", is_flag=True, help="You found out that the call has happened.")
@click.option("--did-not-happen", is_flag=True, help="You found out that it has not happened.")
@click.option("--by", type=NAME, required=True, metavar="NAME", help="Who found it out.")
@click.option("--note", type=NOTE, required=True, metavar="TEXT", help="How.")
@pass_context
def resolve_command(context: Context, which: str, happened: bool, did_not_happen: bool, by: str, note: str) -> None:
    """Settle an execution in doubt, on a person's word.

    It becomes succeeded or failed, for good. Nothing is run.
    """
    if happened and did_not_happen:
        raise click.UsageError("Options '--happened' and '--did-not-happen' exclude each other; give the true one.")
    if not (happened or did_not_happen):
        raise click.UsageError("Missing option '--happened' or '--did-not-happen'.")
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="use") as store:
            before = await find_execution(store, which)
            record = await store.settle(before.execution_id, happened=happened, by=by, note=note, at=clock.now())
        word = "happened" if happened else "did not happen"
        click.echo(f"{record.execution_id}: in_doubt → {record.state} ({word}), by {by}")

    asyncio.run(work())


def _colour(row: Row) -> str | None:
    return "yellow" if row["problem"] is not None else COLOURS.get(State(row["state"]))


async def _rows(store: Store, state: State | None, limit: int | None) -> AsyncIterator[Row]:
    """Yield executions, each once: of all states, those in doubt first."""
    instances, missing = views.names(await store.instances()), await missing_now(store)
    doubtful: set[str] = set()
    count = 0
    for part in (State.IN_DOUBT, None) if state is None else (state,):

        async def page(before: int | None, wanted: int, part: State | None = part) -> list[tuple[int, Execution]]:
            return await store.latest_executions(before, wanted, part)

        async for record in listing.paged(page):
            if count == limit:
                return
            if record.execution_id in doubtful:  # settled meanwhile, perhaps
                continue
            if state is None and part is State.IN_DOUBT:
                doubtful.add(record.execution_id)
            yield views.execution(shown(record, missing), instances)
            count += 1
