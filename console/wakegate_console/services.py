"""`wakegate receiver`, `worker` and `up`: run the services."""

import asyncio
import functools
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from wakegate_console.context import Context, pass_context
from wakegate_console.faults import SETTING_FAULTS, CannotStart
from wakegate_console.importing import importing
from wakegate_console.interrupts import deadly_interrupts
from wakegate_console.text import describe
from wakegate_schema.errors import WakegateError

if TYPE_CHECKING:
    from wakegate_schema.settings import Settings


class Serve(Protocol):
    """A service: it runs until SIGTERM or SIGINT, and calls `ready` once when it works."""

    def __call__(self, settings: "Settings", *, ready: Callable[..., Any] | None = None) -> Awaitable[None]:
        """Run the service."""


@click.command()
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    metavar="N",
    help="Run so many processes, which share its socket; unless given, as the settings say.",
)
@pass_context
@deadly_interrupts()
def receiver(context: Context, processes: int | None) -> None:
    """Run the receiver until it is told to stop.

    It proves and keeps the webhooks that come in.
    """
    settings = context.settings()
    with importing():
        from wakegate_receiver.service import serve
        from wakegate_receiver.sharing import Share

    count, share = processes or settings.processes, Share.take(os.environ)
    if share is not None:
        run_service(settings, functools.partial(serve, share=share), share.name, settings.store.file)
    elif count == 1:
        run_service(settings, serve, "receiver", settings.store.file)
    else:
        _run_receivers(settings, context.arguments(), count)


@click.command()
@click.option("--check", is_flag=True, hidden=True, help="Only import and check the tools modules.")
@pass_context
@deadly_interrupts()
def worker(context: Context, check: bool) -> None:
    """Run the worker until it is told to stop.

    It speaks with the providers and runs approved calls. Tool modules in the working directory are found. A stop
    waits for running tools.
    """
    settings = context.settings()
    with importing():
        from wakegate_worker.service import serve

    _import_from_here()
    if check:
        check_tools(settings)
        return
    run_service(settings, serve, "worker", settings.store.file)


@click.command()
@pass_context
@deadly_interrupts()
def up(context: Context) -> None:
    """Run receiver and worker together, restarting what crashes.

    The tools modules are looked at first, and the worker is started once the receiver is ready.
    A first SIGTERM or SIGINT stops both; a second one, half a second later or more, kills them. Ends with an error
    when one of them cannot start or crashes again and again.
    """
    settings = context.settings()
    with importing():
        from wakegate_console import child
        from wakegate_console.supervision import Program, supervise
        from wakegate_schema import logs

    check_folder(settings.store.file)
    logs.configure(settings.log_format, level=settings.log_level)
    arguments = context.arguments()
    checked = subprocess.run(child.command(*arguments, "worker", "--check"), check=False)  # noqa: S603 - our own program
    if checked.returncode:
        raise click.exceptions.Exit(checked.returncode)  # what is wrong, it has said itself
    programs = [Program(name, child.command(*arguments, name), announces=True) for name in ("receiver", "worker")]
    asyncio.run(supervise(programs))


def _run_receivers(settings: "Settings", arguments: Sequence[str], count: int) -> None:
    with importing():
        from wakegate_console import child
        from wakegate_console.receivers import run_receivers
        from wakegate_receiver.binding import CannotListen
        from wakegate_schema import logs
        from wakegate_schema.passed_sockets import PassedSocketUnusable

    announce = child.announcement()
    check_folder(settings.store.file)
    logs.configure(settings.log_format, level=settings.log_level, program="receivers")
    try:
        asyncio.run(run_receivers(settings, arguments, announce, count))
    except (CannotListen, PassedSocketUnusable) as error:
        raise CannotStart(describe(error), reason=error.reason) from error


def check_folder(database: Path | None) -> None:
    """Look at the folder of a database before anything else: keys, sockets and locks lie in it too.

    Args:
        database: its file; None for a store in PostgreSQL, where they lie in the working directory.

    Raises:
        StoreMisplaced: there is no such folder, a database may not lie in it, or this is root and it is another
            user's.
    """
    from wakegate_schema.store.sqlite import placement

    if database is not None:
        placement.check(database)
    placement.check_server(database or Path("wakegate.sock"))


def check_tools(settings: "Settings") -> None:
    """Import and check the tools modules, as the worker does when it starts.

    Raises:
        CannotStart: one of them is wrong; the message names it.
    """
    from wakegate_schema import logs
    from wakegate_worker.tool_modules import load_tools

    logs.configure(settings.log_format, level=settings.log_level, program="worker")
    try:
        load_tools(settings.tools)
    except (WakegateError, OSError) as error:
        raise CannotStart(describe(error), reason=getattr(error, "reason", None)) from error


def run_service(settings: "Settings", serve: Serve, name: str, database: Path | None) -> None:
    """Run a service to its end.

    Args:
        settings: its settings.
        serve: the service.
        name: what its log lines call it.
        database: its store's file; None for one in PostgreSQL.

    Raises:
        StoreMisplaced: the store's folder is not there.
        CannotStart: whatever kept it from becoming ready; the message names it. Not `StoreUnavailable`, which
            may be over in a moment, unless it is one of those that are wrong settings too.
    """
    import uvloop

    from wakegate_console import child
    from wakegate_schema import logs
    from wakegate_schema.store import StoreUnavailable

    announce = child.announcement()
    check_folder(database)
    logs.configure(settings.log_format, level=settings.log_level, program=name)
    started = False

    def ready(*_: object) -> None:
        nonlocal started
        started = True
        announce()

    async def run() -> None:
        await serve(settings, ready=ready)

    try:
        uvloop.run(run())
    except (WakegateError, OSError, BaseExceptionGroup) as caught:
        error = _first(caught)
        passing = isinstance(error, StoreUnavailable) and not isinstance(error, SETTING_FAULTS)
        if started or passing or not isinstance(error, WakegateError | OSError):
            raise error from caught
        raise CannotStart(describe(error), reason=getattr(error, "reason", None)) from caught


def _import_from_here() -> None:
    """Have the working directory looked at first by imports, as `python -m` does it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group of tasks."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
