"""`wakegate wake`: look at what harnesses are told, and tell them again."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import click

from wakegate_console import listing, sheet, views
from wakegate_console.context import Context, pass_context
from wakegate_console.lookup import find_wake
from wakegate_console.parameters import CALLED, NAME
from wakegate_console.table import Column, Row
from wakegate_schema import clock
from wakegate_schema.records import Wake, WakeState
from wakegate_schema.store import Store, open_store

STATES: tuple[WakeState, ...] = ("owed", "undelivered", "delivered")
COLUMNS = (
    Column("wake_id", "WAKE", "id"),
    Column("state", "STATE", least=11),
    Column("target", "TARGET", least=10),
    Column("group", "TELLS OF", instead="to", least=10),
    Column("tries", "TRIES"),
    Column("created_at", "CREATED", "time"),
    Column("problem", "PROBLEM", least=16),
)
GROUP_COLUMNS = (
    Column("group", "GROUP", least=10, keeps_end=True),
    Column("instance", "INSTANCE", spare=True),
    Column("wake", "TARGET", least=10),
    Column("calls", "CALLS"),
    Column("resolved", "RESOLVED"),
    Column("created_at", "CREATED", "time"),
)
CALL_COLUMNS = (
    Column("execution_id", "EXECUTION", "id"),
    Column("state", "STATE", least=10),
    Column("tool", "TOOL", least=12),
    Column("key", "KEY", least=10, keeps_end=True),
)
FIRST = ("wake_id", "state", "problem", "next", "target", "to", "group", "execution_id")
MANY = 1000
"""Groups that wait for a seal are counted up to here."""
AT_ONCE = 100
"""Replays that are committed together."""


@click.group()
def wake() -> None:
    """Look at what harnesses are told, and tell them again."""


@wake.command("list")
@click.option("--state", type=click.Choice(STATES), metavar="STATE", help="Only those in this state.")
@listing.listing_options
@pass_context
def list_command(context: Context, state: WakeState | None, as_json: bool, limit: int | None) -> None:
    """List wakes, the latest first. Those that were given up are red, those that are tried again yellow.

    How many groups wake nobody for want of a seal is said on standard error.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            await _tell_of_stuck(store)
            await listing.write(
                _rows(store, state, limit), COLUMNS, as_json=as_json, nothing="No wakes.", colour=_colour
            )

    asyncio.run(work())


@wake.command("groups")
@listing.listing_options
@pass_context
def groups_command(context: Context, as_json: bool, limit: int | None) -> None:
    """List the groups that are not sealed, the latest first: nobody is told of them as a whole yet.

    Those that are yellow wait for nothing else: all of their calls are resolved.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            await listing.write(
                _groups(store, limit),
                GROUP_COLUMNS,
                as_json=as_json,
                nothing="No groups that are not sealed.",
                colour=lambda row: "yellow" if row["awaits_seal"] else None,
            )

    asyncio.run(work())


@wake.command("show")
@click.argument("which", type=CALLED, metavar="WAKE")
@click.option("--message", is_flag=True, help="Only the message as the target gets it, so as to try a program by hand.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def show_command(context: Context, which: str, message: bool, as_json: bool) -> None:
    """Show a wake and the calls that it tells of.

    WAKE is its id or the beginning of it.
    """
    if message and as_json:
        raise click.UsageError("Options '--message' and '--json' exclude each other; the message is JSON.")
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read") as store:
            record = await find_wake(store, which)
            if message:
                await _write_message(store, record)
                return
            view, calls = views.wake(record, await _group(store, record)), await _calls(store, record)
        if as_json:
            sheet.write_object({**view, "calls": calls})
            return
        sheet.write_fields({**view, "next": _next(record)}, FIRST, _colour(view))
        sheet.write_section("calls", calls, CALL_COLUMNS)

    asyncio.run(work())


@wake.command("replay")
@click.argument("which", type=CALLED, nargs=-1, metavar="[WAKE]...")
@click.option("--undelivered", is_flag=True, help="Every wake that was given up.")
@click.option("--target", type=NAME, metavar="NAME", help="With '--undelivered': only those of this target.")
@pass_context
def replay_command(context: Context, which: tuple[str, ...], undelivered: bool, target: str | None) -> None:
    """Tell harnesses again: each wake is owed anew, for a whole day, with the id that it has.

    WAKE is an id or the beginning of one. Either all that are named are owed anew or none. What a harness has
    acknowledged before it is told twice.
    """
    if undelivered == bool(which):
        raise click.UsageError("Name the wakes, or give '--undelivered'.")
    if target is not None and not undelivered:
        raise click.UsageError("Option '--target' goes with '--undelivered'.")
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="use") as store:
            records = await _given_up(store, target) if undelivered else await _named(store, which)
            if not records:
                click.echo("No wakes were given up.")
            for begin in range(0, len(records), AT_ONCE):
                some = records[begin : begin + AT_ONCE]
                await asyncio.gather(*(store.replay_wake(each.wake_id, clock.now()) for each in some))
                for each in some:
                    was = each.state if each.problem is None else f"{each.state} ({each.problem})"
                    click.echo(f"{each.wake_id}: {was} → owed, to {each.target}")

    asyncio.run(work())


async def _rows(store: Store, state: WakeState | None, limit: int | None) -> AsyncIterator[Row]:
    async def page(before: int | None, wanted: int) -> list[tuple[int, Wake]]:
        return await store.latest_wakes(before, wanted, state)

    async for record in listing.paged(page, limit):
        yield views.wake(record, await _group(store, record))


async def _groups(store: Store, limit: int | None) -> AsyncIterator[Row]:
    instances = views.names(await store.instances())
    async for record in listing.paged(store.open_groups, limit):
        yield views.group(record, instances)


async def _group(store: Store, record: Wake) -> str | None:
    return None if record.group_number is None else await store.group_name(record.group_number)


async def _calls(store: Store, record: Wake) -> list[Row]:
    if record.group_number is None:
        found = [await store.execution(record.execution_id)]
    else:
        found, after = [], 0
        while page := await store.group_executions(record.group_number, after):
            after = page[-1][0]
            found += [execution for _, execution, _ in page]
    return [
        {
            "execution_id": each.execution_id,
            "key": each.idempotency_key,
            "tool": each.tool,
            "state": str(each.state),
            "erased_at": views.moment(each.erased_at),
        }
        for each in found
    ]


async def _write_message(store: Store, record: Wake) -> None:
    from wakegate_worker.wake_message import message_of
    from wakegate_worker.waking import told_by

    try:
        click.echo(message_of(record, await told_by(store, record)))
    except ValueError:
        raise click.ClickException("the stored result holds a number that JSON cannot; there is no message") from None


async def _named(store: Store, which: Sequence[str]) -> list[Wake]:
    """Return those that are named, each once."""
    records = {record.wake_id: record for record in [await find_wake(store, text) for text in which]}
    return list(records.values())


async def _given_up(store: Store, target: str | None) -> list[Wake]:
    """Return what was given up, oldest first."""

    async def page(before: int | None, wanted: int) -> list[tuple[int, Wake]]:
        return await store.latest_wakes(before, wanted, "undelivered")

    found = [record async for record in listing.paged(page) if target in (None, record.target)]
    return found[::-1]


async def _tell_of_stuck(store: Store) -> None:
    if count := await store.stuck_groups(MANY):
        one = count == 1
        click.echo(
            f"{count}{' or more' if count == MANY else ''} {'group is' if one else 'groups are'} not sealed though"
            f" every call of {'it' if one else 'theirs'} is resolved, so nobody is woken:"
            " `wakegate wake groups` shows them, their harness seals them",
            err=True,
        )


def _next(record: Wake) -> str | None:
    if record.state == "undelivered":
        return f"nothing by itself; once the target works: `wakegate wake replay {record.wake_id}`"
    if record.state == "owed" and record.problem is not None:
        return "it is tried again, for a day in all; `wakegate wake replay` makes that at once"
    return None


def _colour(row: Row) -> str | None:
    if row["state"] == "undelivered":
        return "red"
    return "yellow" if row["state"] == "owed" and row["problem"] is not None else None
