"""`wakegate receiver`, `worker` and `up`: run the services."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

import click

from wakegate_console.context import Context, pass_context
from wakegate_console.faults import CannotStart
from wakegate_console.text import describe
from wakegate_schema.errors import WakegateError

if TYPE_CHECKING:
    from wakegate_schema.settings import Settings


class Serve(Protocol):
    """A service: it runs until SIGTERM or SIGINT, and calls `ready` once when it works."""

    def __call__(self, settings: "Settings", *, ready: Callable[..., Any] | None = None) -> Awaitable[None]:
        """Run the service."""


@click.command()
@pass_context
def receiver(context: Context) -> None:
    """Run the receiver until it is told to stop.

    It proves and keeps the webhooks that come in.
    """
    settings = context.settings()
    from wakegate_receiver.service import serve

    run_service(settings, serve)


@click.command()
@pass_context
def worker(context: Context) -> None:
    """Run the worker until it is told to stop.

    It speaks with the providers and runs approved calls. A stop waits for running tools.
    """
    settings = context.settings()
    from wakegate_worker.service import serve

    run_service(settings, serve)


@click.command()
@pass_context
def up(context: Context) -> None:
    """Run receiver and worker together, restarting what crashes.

    A first SIGTERM or SIGINT stops both, a second kills them. Ends with an error when one of them cannot
    start or crashes again and again.
    """
    settings = context.settings()
    from wakegate_console import child
    from wakegate_console.supervision import Program, supervise
    from wakegate_schema import logs

    logs.configure(settings.log_format, level=settings.log_level)
    programs = [Program(name, child.command(*context.arguments(), name)) for name in ("receiver", "worker")]
    asyncio.run(supervise(programs))


def run_service(settings: "Settings", serve: Serve) -> None:
    """Run a service to its end.

    Raises:
        CannotStart: whatever kept it from becoming ready; the message names it. Not `StoreUnavailable`, which
            may be over in a moment.
    """
    import uvloop

    from wakegate_schema import logs
    from wakegate_schema.store import StoreUnavailable

    logs.configure(settings.log_format, level=settings.log_level)
    started = False

    def ready(*_: object) -> None:
        nonlocal started
        started = True

    async def run() -> None:
        await serve(settings, ready=ready)

    try:
        uvloop.run(run())
    except (WakegateError, OSError, BaseExceptionGroup) as caught:
        error = _first(caught)
        if started or not isinstance(error, WakegateError | OSError) or isinstance(error, StoreUnavailable):
            raise error from caught
        raise CannotStart(describe(error), reason=getattr(error, "reason", None)) from caught


def _first(error: BaseException) -> BaseException:
    """Return the first error of a group of tasks."""
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
