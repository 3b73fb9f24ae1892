"""`wakegate db backup` and `db restore`: keep a copy of the store, and put one in its place."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wakegate_console.context import Context, pass_context
from wakegate_console.held import count_held, tell_of_held
from wakegate_console.person import actor
from wakegate_console.place import place
from wakegate_schema import clock, timestamps
from wakegate_schema.store import BackupUnusable, open_store
from wakegate_schema.store.progress import Progress
from wakegate_schema.store.sqlite.backup import Backup, back_up
from wakegate_schema.store.sqlite.restore import Restored, restore

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
    "mark": "shutting the new store",
    "write": "writing",
}


@click.command("backup")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("--force", is_flag=True, help="Replace FILE if it is there.")
@pass_context
def backup_command(context: Context, file: Path, force: bool) -> None:
    """Copy the store into FILE while the services run.

    FILE is the store as it was when this began, checked, and marked as a backup: nothing works on it until
    `wakegate db restore` has restored it. It is an SQLite file, whatever database the store is in. The key files are
    not in it.
    """
    settings = context.settings()
    _spare_keys(settings, file)

    async def work() -> Backup:
        async with await open_store(settings.store, mode="read"):
            with _told("backing up") as status:
                return await asyncio.to_thread(_back_up, settings, file, force, _shares(status, "backing up"))

    made = asyncio.run(work())
    click.echo(f"backed up {place(settings)} to {made.file}: {_mebibytes(made.size)}")
    if made.wal_after > made.wal_before:
        click.echo(f"meanwhile the store's WAL grew from {_mebibytes(made.wal_before)} to {_mebibytes(made.wal_after)}")
    keys = ", ".join(map(str, _key_files(settings)))
    click.echo(f"the key files are not in it; keep a copy of each somewhere else: {keys}")


def _back_up(settings: "Settings", file: Path, force: bool, progress: Progress) -> Backup:
    if settings.store.is_postgresql:
        from wakegate_schema.store.postgresql.backup import back_up_postgresql

        return back_up_postgresql(settings.store, file, at=clock.now(), force=force, progress=progress)
    database = settings.database_path.absolute()
    return back_up(database, file, at=clock.now(), force=force, progress=progress)


@click.command("restore")
@click.argument("file", type=FILE, metavar="FILE")
@click.option(
    "--epoch-above",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="The highest epoch that a store which is lost may have had.",
)
@pass_context
def restore_command(context: Context, file: Path, epoch_above: int) -> None:
    """Put FILE in the place of the store, and start nothing again.

    FILE is a backup, or another store's file. What it holds and had not started may have run since FILE was made, so it
    waits for `wakegate execution release`. With SQLite nobody may have the store open, and the store that was there is
    kept beside it. With PostgreSQL the database must be empty: make a new one, and let WAKEGATE_DATABASE name that.
    """
    settings = context.settings()
    with _told("restoring") as status:
        done = _restore(settings, file, epoch_above, status)
    made = "" if done.made_at is None else f", a backup of {timestamps.render(done.made_at)}"
    click.echo(f"restored {file.absolute()}{made}, as {place(settings)}; this is epoch {done.epoch.number}")
    if done.aside is not None:
        click.echo(f"the store that was there is kept as {done.aside}")
    tell_of_held(asyncio.run(_held(settings)), done.epoch)


def _restore(settings: "Settings", file: Path, above: int, status: "Status") -> Restored:
    def step(name: str) -> None:
        if name in _STEPS:
            status.update(f"restoring: {_STEPS[name]}")

    if settings.store.is_postgresql:
        from wakegate_schema.store.postgresql.restore import restore_into

        return restore_into(
            settings.store,
            file,
            actor=actor(),
            at=clock.now(),
            above=above,
            step=step,
            progress=_shares(status, "restoring"),
        )
    database = settings.database_path.absolute()
    return restore(database, file, actor=actor(), at=clock.now(), above=above, step=step)


async def _held(settings: "Settings") -> int:
    async with await open_store(settings.store, mode="read") as store:
        return await count_held(store)


def _shares(status: "Status", what: str) -> Progress:
    """Return what shows how much of something is done."""
    return lambda done, total: status.update(f"{what}: {100 * done // max(total, 1)} %")


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
