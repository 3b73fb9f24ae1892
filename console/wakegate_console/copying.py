"""`wakegate db copy`: move the store to another database."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wakegate_console import sheet, views
from wakegate_console.context import Context, pass_context
from wakegate_console.held import count_held, tell_of_held
from wakegate_console.parameters import SECRET_FILE, STORE_URL
from wakegate_console.person import actor
from wakegate_schema import clock
from wakegate_schema.errors import WakegateError
from wakegate_schema.store import StoreLocation, open_store
from wakegate_schema.store.copying.copying import Copied, copy, reopen

if TYPE_CHECKING:
    from wakegate_schema.settings import Settings

_STEPS = {"look": "looking", "mark": "shutting the new store", "close": "closing the old store", "write": "copying"}


@click.command("copy")
@click.argument("source", type=STORE_URL, metavar="FROM")
@click.argument("target", type=STORE_URL, metavar="TO")
@click.option("--from-password-file", type=SECRET_FILE, metavar="FILE", help="The password of FROM, in PostgreSQL.")
@click.option("--to-password-file", type=SECRET_FILE, metavar="FILE", help="The password of TO, in PostgreSQL.")
@click.option("--reopen", "give_up", is_flag=True, help="Give up a copy that has not ended, and open FROM again.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@pass_context
def copy_command(
    context: Context,
    source: str,
    target: str,
    from_password_file: Path | None,
    to_password_file: Path | None,
    give_up: bool,
    as_json: bool,
) -> None:
    """Move the store FROM one database TO another, empty one, and start nothing again.

    Both are URLs, sqlite:///FILE or postgresql://…. FROM is closed first and for good: nothing works on it any more.
    Everything in it is written to TO and compared, and TO begins a new epoch: what had not started waits for
    `wakegate execution release`. Interrupted, the same command goes on.
    """
    settings = context.settings()
    here = _location(settings, source, from_password_file)
    there = _location(settings, target, to_password_file)
    if give_up:
        _give_up(here, there, as_json)
        return
    done = _copy(here, there)
    if done is None:
        _tell_of_before(source, target, as_json)
        return
    held = asyncio.run(_held(there))
    if as_json:
        sheet.write_object(_view(done, held, source, target))
        return
    rows = sum(content.rows for content in done.contents.values())
    click.echo(f"copied {source} to {target}: {rows} rows, compared row by row; this is epoch {done.epoch.number}")
    click.echo(f"{source} is closed for good. Set WAKEGATE_DATABASE to the new URL wherever it is set, for services,")
    click.echo("harnesses and this command; name the key files too, which are looked for beside an SQLite file")
    tell_of_held(held, done.epoch)


def _tell_of_before(source: str, target: str, as_json: bool) -> None:
    if as_json:
        sheet.write_object({"from": source, "to": target, "copied": False})
    else:
        click.echo(f"{source} was copied to {target} before, and that is whole; nothing was changed")


def _copy(here: StoreLocation, there: StoreLocation) -> Copied | None:
    from rich.console import Console

    reached: list[str] = []
    with Console(stderr=True).status("copying") as status:

        def step(name: str) -> None:
            reached.append(name)
            status.update(_STEPS[name])

        def progress(done: int, total: int) -> None:
            status.update(f"copying: {100 * done // max(total, 1)} % of {total} rows")

        try:
            return copy(here, there, actor=actor(), at=clock.now(), step=step, progress=progress)
        except WakegateError:
            _say_what_now(reached, here.url, there.url)
            raise


def _say_what_now(reached: list[str], source: str, target: str) -> None:
    if "close" in reached:
        click.echo(
            f"{source} is closed, and {target} has nothing in it yet: run the same command again once this is mended,"
            " or give it up with --reopen",
            err=True,
        )


def _give_up(here: StoreLocation, there: StoreLocation, as_json: bool) -> None:
    was_closed = reopen(here, there)
    if as_json:
        sheet.write_object({"from": here.url, "to": there.url, "was_closed": was_closed})
    else:
        click.echo(f"{here.url} {'is open again' if was_closed else 'was not closed'}; {there.url} is empty")


async def _held(there: StoreLocation) -> int:
    async with await open_store(there, mode="read") as store:
        return await count_held(store)


def _view(done: Copied, held: int, source: str, target: str) -> dict[str, object]:
    return {
        "from": source,
        "to": target,
        "copied": True,
        "epoch": done.epoch.number,
        "epoch_began_at": views.moment(done.epoch.at),
        "held": held,
        "rows": {table: content.rows for table, content in done.contents.items()},
        "sha256": {table: content.digest for table, content in done.contents.items()},
    }


def _location(settings: "Settings", url: str, password_file: Path | None) -> StoreLocation:
    """Return a store's place; the settings' own password is for the settings' own database alone."""
    own = settings.database_password_file if url == settings.database else None
    return StoreLocation(url, password_file or own)
