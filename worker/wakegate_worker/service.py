"""The worker as a service: one process, one event loop, until it is told to stop."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import structlog

from wakegate_schema import clock, fault_points, ids
from wakegate_schema.service_keys import Sealed, ServiceKey
from wakegate_schema.settings import Settings
from wakegate_schema.signals import spaced
from wakegate_schema.states import OLDER_EPOCH
from wakegate_schema.store import Store, open_store
from wakegate_worker.outbound import open_session
from wakegate_worker.registry import Tool
from wakegate_worker.stopping import Stop
from wakegate_worker.tool_modules import load_tools
from wakegate_worker.wake_sender import WakeSender, ensure_wake_secrets
from wakegate_worker.worker import Worker

LEAVE_S = 3.0
"""Seconds after the stop in which the process ends by itself, or is ended."""

log = structlog.get_logger()


async def serve(settings: Settings, *, ready: Callable[[], None] | None = None) -> None:
    """Run the worker until SIGTERM or SIGINT; a second one stops it at once.

    Args:
        settings: the ones the worker uses.
        ready: called once when it works.

    Raises:
        WakegateError: it cannot start; one line names the setting, file or module at fault.
    """
    stop = Stop()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    requested = spaced(stop.request)
    for number in signals:
        loop.add_signal_handler(number, requested)
    try:
        async with running(settings, stop) as worker:
            _tell_ready(worker.tools)
            if ready is not None:
                ready()
            await stop.wait()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
    log.info("stopped", action="stopped")
    _leave_within(LEAVE_S)


def _tell_ready(tools: Mapping[str, Tool]) -> None:
    if not tools:
        log.warning(
            "no tools registered: only harness-run calls can run",
            action="load_tools",
            hint="name their modules in WAKEGATE_TOOLS",
        )
    names = ", ".join(f"{name}@{tools[name].version}" for name in sorted(tools))
    log.info("ready", action="ready", tools=names or "none")


async def _tell_of_held(store: Store) -> None:
    if await store.held_executions(limit=1):
        log.warning(
            "calls of an older epoch wait for a release: they may have run before the store was restored",
            action="hold",
            problem=OLDER_EPOCH,
            hint="`wakegate execution list` shows them; find out, then `wakegate execution release` or `abandon`",
        )


def _leave_within(seconds: float) -> None:
    """End the process even if a tool that was left running, in a task or a thread of its own, would keep it.

    Everything is closed by now and the tool's attempt is, or becomes, in doubt.
    """
    leaving = threading.Timer(seconds, os._exit, (0,))
    leaving.daemon = True
    leaving.start()


@asynccontextmanager
async def running(settings: Settings, stop: Stop | None = None) -> AsyncIterator[Worker]:
    """Run the worker for as long as the block lasts, then stop it as a signal would.

    Raises:
        WakegateError: as `serve`.
    """
    fault_points.arm(os.environ, log.warning)
    clock.warn_if_set_apart(log.warning)
    stop = stop or Stop()
    tools = load_tools(settings.tools)
    key = ServiceKey.worker(settings)
    key.check()
    wake_secrets = ensure_wake_secrets(settings.wake_secret_path)
    async with await open_store(settings.database, mode="service") as store, open_session() as session:
        worker = Worker(
            store,
            tools,
            sealer=key.open(Sealed.credentials(await store.instances())),
            session=session,
            sender=WakeSender(session, settings.wake_targets, wake_secrets),
            owner=f"worker-{ids.new()}",
            settings=settings,
            stop=stop,
        )
        await _tell_of_held(store)
        worker.begin()
        try:
            yield worker
        finally:
            if not stop.requested:
                stop.request()
            await worker.finish()
