"""`wakegate db backup` and `db restore`: keep a copy of the store, and put one in its place."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wakegate_console.context import Context, pass_context
from wakegate_console.person import actor
from wakegate_console.releasing import every_held
from wakegate_schema import clock, timestamps
from wakegate_schema.store import BackupUnusable, open_store
from wakegate_schema.store.backup import Backup, back_up
from wakegate_schema.store.restore import Restored, restore
from wakegate_schema.store.verbs.epochs import CLOCKS_DIFFER

if TYPE_CHECKING:
    from rich.status import Status

    from wakegate_schema.settings import Settings

FILE = click.Path(path_type=Path)
MEBIBYTE = 1024 * 1024

_STEPS = {
    "copy": "copying",
    "check": "checking",
    "migrate": "bringing up to date",
    "raise": "beginning a new epoch",
    "move": "moving the old store aside",
}


@click.command("backup")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@pass_context
def backup_command(context: Context, file: Path, force: bool) -> None:
    """Copy the store into FILE while the services run.

    FILE is the store as it was when this began, checked, and marked as a backup: nothing works on it until
    `wakegate db restore` has restored it. The key files are not in it.
    """
    settings = context.settings()
    database = settings.database_path.absolute()
    _spare_keys(settings, file)

    async def work() -> Backup:
        async with await open_store(settings.database, mode="read"):
            with _told("backing up") as status:
                return await asyncio.to_thread(
                    back_up,
                    database,
                    file,
                    at=clock.now(),
                    force=force,
                    progress=lambda done, total: status.update(f"backing up: {100 * done // max(total, 1)} %"),
                )

    made = asyncio.run(work())
    click.echo(f"backed up {database} to {made.file}: {_mebibytes(made.size)}")
    if made.wal_after > made.wal_before:
        click.echo(f"meanwhile the store's WAL grew from {_mebibytes(made.wal_before)} to {_mebibytes(made.wal_after)}")
    keys = ", ".join(map(str, _key_files(settings)))
    click.echo(f"the key files are not in it; keep a copy of each somewhere else: {keys}")


@click.command("restore")
@click.argument("file", type=FILE, metavar="FILE")
@pass_context
def restore_command(context: Context, file: Path) -> None:
    """Put FILE in the place of the store, and start nothing again.

    FILE is a backup, or another store's file. Nobody may have the store open. What it holds and had not started may
    have run since FILE was made, so it waits for `wakegate execution release`. The store that was there is kept
    beside it.
    """
    settings = context.settings()
    database = settings.database_path.absolute()
    with _told("restoring") as status:
        done = restore(
            database,
            file,
            actor=actor(),
            at=clock.now(),
            step=lambda step: status.update(f"restoring: {_STEPS[step]}") if step in _STEPS else None,
        )
    made = "" if done.made_at is None else f", a backup of {timestamps.render(done.made_at)}"
    click.echo(f"restored {file.absolute()}{made}, as {database}; this is epoch {done.epoch.number}")
    if done.aside is not None:
        click.echo(f"the store that was there is kept as {done.aside}")
    _tell_of_held(asyncio.run(_held(settings)), done)


def _tell_of_held(count: int, done: Restored) -> None:
    if count:
        click.echo(
            f"{count} {'call' if count == 1 else 'calls'} had not started and may have run since: nothing runs again by"
            " itself. Look with `wakegate execution list`, then `wakegate execution release` or `abandon`"
        )
    until = timestamps.render(done.epoch.at + CLOCKS_DIFFER)
    click.echo(f"calls submitted before {until} wait for a release too: the provider may have known them before")


async def _held(settings: "Settings") -> int:
    async with await open_store(settings.database, mode="read") as store:
        return len([record async for record in every_held(store)])


def _key_files(settings: "Settings") -> list[Path]:
    paths = (settings.receiver_key_path, settings.worker_key_path, settings.wake_secret_path)
    return [path.absolute() for path in paths]


def _spare_keys(settings: "Settings", file: Path) -> None:
    if any(file.exists() and path.exists() and file.samefile(path) for path in _key_files(settings)):
        raise BackupUnusable(f"{file} is a key file; name another")


@contextmanager
def _told(what: str) -> "Iterator[Status]":
    """Show on a terminal that something is being done."""
    from rich.console import Console

    with Console(stderr=True).status(what) as status:
        yield status


def _mebibytes(size: int) -> str:
    return f"{size / MEBIBYTE:.1f} MiB"
