"""`wakegate db`: look after the store."""

import asyncio

import click

from wakegate_console.backups import backup_command, restore_command
from wakegate_console.checking import check_command
from wakegate_console.context import Context, pass_context
from wakegate_console.reseal import reseal_command
from wakegate_schema import clock
from wakegate_schema.clock import DAY
from wakegate_schema.store import Store, open_store


@click.group()
def db() -> None:
    """Look after the store."""


for command in (check_command, backup_command, restore_command, reseal_command):
    db.add_command(command)


@db.command("migrate")
@pass_context
def migrate_command(context: Context) -> None:
    """Make the store, or bring it up to date.

    Receiver and worker do the same when they start.
    """
    settings = context.settings()
    path = settings.database_path.absolute()
    was_there = path.exists()

    async def work() -> None:
        async with await open_store(settings.database, mode="service") as store:
            await store.probe()

    asyncio.run(work())
    click.echo(f"{path} is up to date" if was_there else f"made {path}")


@db.command("prune")
@pass_context
def prune_command(context: Context) -> None:
    """Remove what is past its time, now.

    The worker does the same bit by bit. Notifications go eight days after their receipt, payloads of finished
    executions after WAKEGATE_RETENTION_DAYS.
    What guards against running a call twice is never removed.
    """
    settings = context.settings()

    async def work() -> int:
        async with await open_store(settings.database, mode="use") as store:
            return await _prune(store, settings.retention_days * DAY)

    click.echo(f"pruned: {asyncio.run(work())}")


async def _prune(store: Store, keep: int) -> int:
    """Take steps of retention until nothing is left to do, and show how far it is on a terminal."""
    from rich.console import Console

    total = 0
    with Console(stderr=True).status("pruning") as status:
        while True:
            at = clock.now()
            done = (await store.prune(at, at - keep)).total
            if not done:
                return total
            total += done
            status.update(f"pruning: {total} rows")
