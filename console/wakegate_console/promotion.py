"""`wakegate db promoted`: say that the database may have lost its last commits."""

import asyncio
import sys

import click

from wakegate_console.context import Context, pass_context
from wakegate_console.held import count_held, tell_of_held
from wakegate_console.parameters import NAME
from wakegate_console.person import actor
from wakegate_console.place import place
from wakegate_schema import clock
from wakegate_schema.records import Epoch
from wakegate_schema.store import open_store
from wakegate_schema.store.verbs.epochs import PROMOTED, check_clock


@click.command("promoted")
@click.option("--by", type=NAME, metavar="NAME", help="Who says so; else the user who runs this.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal.")
@pass_context
def promoted_command(context: Context, by: str | None, yes: bool) -> None:
    """Say that the database may have lost its last commits, and start nothing again.

    For a replica that was promoted without them, or a server that was set back in any other way. A new epoch begins:
    what had not started may have run, so it waits for `wakegate execution release`. The services may run meanwhile;
    run it before they start, if you can.
    """
    settings = context.settings()
    if not yes and sys.stdin.isatty():
        click.confirm(f"Have every call in {place(settings)} that has not started wait for a release?", abort=True)

    async def work() -> tuple[Epoch, int]:
        async with await open_store(settings.store, mode="use") as store:
            at = clock.now()
            for mark in await store.clock_marks():
                check_clock(mark.highest_at, at, f"the store at {place(settings)} was used")
            epoch = await store.raise_epoch(PROMOTED, actor(by), at)
            return epoch, await count_held(store)

    epoch, held = asyncio.run(work())
    click.echo(f"this is epoch {epoch.number} of {place(settings)}")
    tell_of_held(held, epoch)
