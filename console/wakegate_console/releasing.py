"""`wakegate execution release`: let go on what waits because the store has gone back in time."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence

import click

from wakegate_console import views
from wakegate_console.context import Context, pass_context
from wakegate_console.lookup import find_execution
from wakegate_console.parameters import CALLED, NAME, NOTE
from wakegate_console.person import actor
from wakegate_console.screen import screen, shown
from wakegate_schema import clock
from wakegate_schema.records import Execution
from wakegate_schema.states import OLDER_EPOCH
from wakegate_schema.store import NotAllowed, Store, open_store

PAGE = 500
AT_ONCE = 100
"""Releases that are committed together."""
SHOWN = 20
"""Calls that are told before they are released, at most."""


@click.command("release")
@click.argument("which", type=CALLED, nargs=-1, metavar="[EXECUTION]...")
@click.option("--all", "everything", is_flag=True, help="Everything that waits for it.")
@click.option("--by", type=NAME, metavar="NAME", help="Who says so; else the user who runs this.")
@click.option("--note", type=NOTE, required=True, metavar="TEXT", help="Why it is right; kept with each.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
@pass_context
def release_command(
    context: Context, which: tuple[str, ...], everything: bool, by: str | None, note: str, yes: bool
) -> None:
    """Let calls of an older epoch go on, on a person's word.

    They wait because the store was restored, and may have run in the time that it does not know of. Released, a call
    goes on as if it had never run: under a valid approval it runs, perhaps again. Find out first; what has run is
    abandoned instead.
    """
    if everything == bool(which):
        raise click.UsageError("Name the executions, or give '--all'.")
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="use") as store:
            records = [each async for each in every_held(store)] if everything else await _named(store, which)
            if not records:
                click.echo("Nothing waits for a release.")
                return
            _ask(records, yes)
            epoch = (await store.epoch()).number
            for begin in range(0, len(records), AT_ONCE):
                some = records[begin : begin + AT_ONCE]
                at = clock.now()
                await asyncio.gather(
                    *(store.release_held(each.execution_id, actor=actor(by), note=note, at=at) for each in some)
                )
                for each in some:
                    click.echo(f"{each.execution_id}: {each.state}, released into epoch {epoch}")

    asyncio.run(work())


async def every_held(store: Store) -> AsyncIterator[Execution]:
    """Yield every execution that waits for a release, oldest first."""
    after = 0
    while page := await store.held_executions(after, PAGE):
        for number, record in page:
            after = number
            yield record


async def _named(store: Store, which: Sequence[str]) -> list[Execution]:
    """Return those that are named, each once; all of them must be held, or nothing is released."""
    records = {record.execution_id: record for record in [await find_execution(store, text) for text in which]}
    for record in records.values():
        if record.problem != OLDER_EPOCH:
            raise NotAllowed(f"{record.execution_id} is {record.state} and waits for no release; nothing was changed")
    return list(records.values())


def _ask(records: Sequence[Execution], yes: bool) -> None:
    """Say what a release means, and have a person at a terminal agree."""
    one = len(records) == 1
    click.echo(
        f"{len(records)} {'call' if one else 'calls'} may have run in the time that the store does not know of."
        f" Released, {'it' if one else 'each'} may run again, and you answer for that:",
        err=True,
    )
    for record in records[:SHOWN]:
        view = views.execution(record, {})
        row = (screen().short_id(view["execution_id"]), view["tool"], view["key"], view["state"])
        click.echo(f"  {' '.join(map(shown, row))}", err=True)
    if len(records) > SHOWN:
        click.echo(f"  and {len(records) - SHOWN} more", err=True)
    if not yes and sys.stdin.isatty():
        click.confirm("Release?", abort=True, err=True)
