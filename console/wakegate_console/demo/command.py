"""`wakegate demo`: the command around the script."""

import asyncio
import shlex
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console

from wakegate_console.demo.audience import PLAIN_WIDTH, audience, put
from wakegate_console.demo.cases import KILLED
from wakegate_console.demo.elsewhere import Elsewhere, in_schema, prepared
from wakegate_console.demo.ledger import count_refunds
from wakegate_console.demo.report import Finding, judge, table
from wakegate_console.demo.script import Script
from wakegate_console.demo.stage import DemoFailed, Stage
from wakegate_console.parameters import SECRET_FILE
from wakegate_console.text import describe
from wakegate_schema.errors import WakegateError
from wakegate_schema.setting_types import is_postgresql, store_url
from wakegate_schema.setting_types import queue as queue_url
from wakegate_schema.settings import SettingsError
from wakegate_schema.store import open_store


def _database(_: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    """Take the URL of a PostgreSQL; what is SQLite's, the demo makes itself."""
    if url is None:
        return None
    if not is_postgresql(url):
        problem = "must be postgresql://USER@HOST/DATABASE; without it the store is an SQLite file"
        raise click.BadParameter(problem, param=parameter)
    try:
        in_schema(store_url(url), "any")
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None
    return url


def _queue(_: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    try:
        return None if url is None else queue_url(url)
    except ValueError as error:
        raise click.BadParameter(str(error), param=parameter) from None


@click.command()
@click.option(
    "--keep",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Run in this new or empty directory and keep it; else a temporary one.",
)
@click.option(
    "--database",
    callback=_database,
    metavar="URL",
    help="Keep the store in this PostgreSQL: in a schema of its own, removed at the end. Else in an SQLite file.",
)
@click.option("--database-password-file", type=SECRET_FILE, metavar="FILE", help="Holds the password for it.")
@click.option("--queue", callback=_queue, metavar="URL", help="Carry hints by this Redis. Else the store does it.")
@click.option("--queue-password-file", type=SECRET_FILE, metavar="FILE", help="Holds the password for it.")
def demo(
    keep: Path | None,
    database: str | None,
    database_password_file: Path | None,
    queue: str | None,
    queue_password_file: Path | None,
) -> None:
    """Run the whole loop on this machine and check it.

    Starts provider, receiver and worker, lets a harness save refund calls, and ends by itself. Exit code 0 only
    if every call ended as it must and every refund happened 0 or 1 times, as it must.
    """
    console = Console(width=None if Console().is_terminal else PLAIN_WIDTH, highlight=False)
    where = Elsewhere(database, database_password_file, queue, queue_password_file)
    with prepared(where, keep=keep is not None) as settings, _directory(keep) as directory:
        try:
            findings = asyncio.run(_perform(directory, settings, console))
        except asyncio.CancelledError:
            raise click.Abort from None
        effects = count_refunds(directory / "ledger.jsonl")
        problems = judge(findings, effects)
        click.echo()
        put(console, table(findings, effects))
        if problems:
            raise DemoFailed("\n".join(problems))
        click.echo(f"\n{_afterwards(findings, None if keep is None else directory)}")
        if keep is not None and where.told():
            click.echo(where.told())
        refunds = sum(effects.values())
    click.echo(
        f"All {len(findings)} calls ended as they must; {refunds} refunds were made, each once, and none beside them."
    )


def _afterwards(findings: list[Finding], kept: Path | None) -> str:
    """Say what a person would do next, and how to look around."""
    [killed] = [found.execution.execution_id for found in findings if found.case is KILLED]
    doubt = f"`{KILLED.tells}` waits for a person: it may have happened, so it is not run again."
    if kept is None:
        return f"{doubt}\nTo look around, and to settle it: wakegate demo --keep DIR"
    wakegate = f"wakegate --config {shlex.quote(str(kept / 'wakegate.toml'))}"
    return (
        f"{doubt}\nEverything is kept in {kept}:\n"
        f"  {wakegate} execution list\n"
        f"  {wakegate} execution resolve {killed[:8]} --happened --by NAME --note TEXT"
    )


async def _perform(directory: Path, settings: Mapping[str, str], console: Console) -> list[Finding]:
    """Play the script, end every process, and return the findings."""
    _cancel_on_signal()
    stage = Stage(directory, settings)
    with audience(console) as say:
        try:
            say("starting provider, receiver and worker")
            await stage.open()
            async with await open_store(stage.settings.store, mode="use") as store:
                script = Script(stage, store, say)
                await script.play()
                say("stopping provider, receiver and worker")
                await stage.processes.stop()
                late = stage.processes.stopped_well()
                if late:
                    raise DemoFailed(f"told to stop, these did not end well: {', '.join(late)}")
                return await script.findings()
        finally:
            await stage.processes.stop()


def _cancel_on_signal() -> None:
    """Have the first SIGTERM or SIGINT cancel this task. While the processes are being ended, more change nothing."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def cancel() -> None:
        if task is not None and not task.cancelling():
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, cancel)


@contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    """Give a directory; a temporary one is removed, unless the demo failed: its logs are worth reading then."""
    directory = _kept(keep) if keep is not None else Path(tempfile.mkdtemp(prefix="wakegate-demo-")).resolve()
    try:
        yield directory
    except SettingsError:
        _remove(directory, keep)
        raise
    except (WakegateError, OSError) as error:
        raise DemoFailed(f"{describe(error)}\nthe logs are in {directory}") from error
    except BaseException:
        _remove(directory, keep)
        raise
    _remove(directory, keep)


def _kept(directory: Path) -> Path:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_empty = not any(directory.iterdir())
    except OSError as error:
        raise click.BadParameter(
            f"the directory {directory} cannot be used: {error.strerror}; name another.", param_hint="'--keep'"
        ) from error
    if not is_empty:
        raise click.BadParameter(f"the directory {directory} is not empty.", param_hint="'--keep'")
    return directory.resolve()


def _remove(directory: Path, keep: Path | None) -> None:
    if keep is None:
        shutil.rmtree(directory)
