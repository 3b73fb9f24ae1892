"""`wakegate clock`: the highest time each host has shown, and its reset."""

import asyncio
from collections.abc import Sequence

import click

from wakegate_console import sheet, views
from wakegate_console.context import Context, pass_context
from wakegate_console.parameters import CALLED, NAME
from wakegate_console.person import actor
from wakegate_console.table import Column
from wakegate_schema import clock as clocks
from wakegate_schema import clock_mark
from wakegate_schema.records import ClockMark
from wakegate_schema.store import Store, open_store

MARK_COLUMNS = (
    Column("host", "HOST"),
    Column("highest_at", "HIGHEST", "time"),
    Column("ahead_s", "AHEAD (s)"),
)
RESET_COLUMNS = (
    Column("host", "HOST"),
    Column("from", "FROM", "time"),
    Column("to", "TO", "time"),
    Column("actor", "ACTOR"),
)


@click.group()
def clock() -> None:
    """Look at the hosts' clock marks, and reset one.

    A clock that shows less than its host has shown before is not believed: no call starts by it.
    """


@clock.command("show")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def show_command(context: Context, as_json: bool) -> None:
    """Show this host's time, the highest time each host has shown, and every reset of one.

    Exit code 1 if this host's clock is behind its mark.
    """
    settings = context.settings()

    async def work() -> bool:
        async with await open_store(settings.store, mode="read") as store:
            marks, resets = await store.clock_marks(), await store.clock_resets()
        host, now = clock_mark.host_name(), clocks.now()
        behind = clock_mark.is_behind(now, _highest(marks, host))
        view = {"host": host, "now": views.moment(now), "behind": behind}
        tables = {
            "marks": [views.clock_mark(mark, now) for mark in marks],
            "resets": [views.clock_reset(reset) for reset in resets],
        }
        if as_json:
            sheet.write_object({**view, **tables})
            return behind
        if behind:
            view["next"] = "correct this clock; if it is right now: wakegate clock reset --by NAME"
        sheet.write_fields(view, ("host", "now", "behind", "next"), "red" if behind else None)
        sheet.write_section("marks", tables["marks"], MARK_COLUMNS)
        sheet.write_section("resets", tables["resets"], RESET_COLUMNS)
        return behind

    if asyncio.run(work()):
        raise click.exceptions.Exit(1)


@clock.command("reset")
@click.option("--host", type=CALLED, metavar="NAME", help="Which host's, as `clock show` names it; else this one's.")
@click.option("--by", type=NAME, required=True, metavar="NAME", help="Who says that the clock is right now.")
@pass_context
def reset_command(context: Context, host: str | None, by: str) -> None:
    """Lower a host's mark to the time of this host, which must be right.

    For a clock that was ahead and is correct again. Workers and harnesses take it up without a restart, and what that
    clock had put off for more than an hour is due at once. Kept for good, with the name.
    """
    settings = context.settings()
    name = host or clock_mark.host_name()

    async def work() -> None:
        async with await open_store(settings.store, mode="use") as store:
            now = clocks.now()
            reset = await store.reset_clock(name, actor(by), now)
            brought = await _bring_forward(store, now)
        if reset is None:
            click.echo(f"{name}: the mark is not ahead of this clock; nothing was reset")
        else:
            click.echo(f"{name}: {views.moment(reset.from_at)} → {views.moment(reset.to_at)}, by {by}")
        if brought:
            click.echo(f"calls that were put off for more than an hour and are due now: {brought}")

    asyncio.run(work())


async def _bring_forward(store: Store, now: int) -> int:
    count, step = 0, await store.bring_forward(now)
    while step is not None:
        count, step = step.count, await store.bring_forward(now, step)
    return count


def _highest(marks: Sequence[ClockMark], host: str) -> int:
    return max((mark.highest_at for mark in marks if mark.host == host), default=0)
