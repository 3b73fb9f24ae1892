"""`wakegate db`: look after the store."""

import asyncio

import click

from wakegate_console.backups import backup_command, restore_command
from wakegate_console.checking import check_command
from wakegate_console.context import Context, pass_context
from wakegate_console.copying import copy_command
from wakegate_console.place import place
from wakegate_console.promotion import promoted_command
from wakegate_console.querying import query_command
from wakegate_console.reseal import reseal_command
from wakegate_schema import clock
from wakegate_schema.clock import DAY
from wakegate_schema.store import Store, migrate_store, open_store


@click.group()
def db() -> None:
    """Look after the store."""


for command in (
    check_command,
    backup_command,
    restore_command,
    copy_command,
    promoted_command,
    query_command,
    reseal_command,
):
    db.add_command(command)


@db.command("migrate")
@click.option("--force", is_flag=True, help="Also shut out workers of an older version that run.")
@pass_context
def migrate_command(context: Context, force: bool) -> None:
    """Make the store, or bring it up to date.

    With SQLite receiver and worker do the same when they start; with PostgreSQL nothing else does.
    """
    settings = context.settings()
    where = place(settings)

    async def work() -> list[str]:
        applied = await migrate_store(settings.store, force=force)
        async with await open_store(settings.store, mode="use") as store:
            await store.probe()
        return applied

    applied = asyncio.run(work())
    if not applied:
        click.echo(f"{where} is up to date")
    elif _made(settings.store.is_postgresql, applied):
        click.echo(f"made {where}")
    else:
        click.echo(f"{where} is brought up to date: {', '.join(applied)}")


def _made(postgresql: bool, applied: list[str]) -> bool:
    """Return whether there was nothing before."""
    from wakegate_schema.store import migrations
    from wakegate_schema.store.dialects import POSTGRESQL, SQLITE

    first, *_ = migrations.available(POSTGRESQL if postgresql else SQLITE).values()
    return first.name in applied


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
        async with await open_store(settings.store, mode="use") as store:
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
