"""The worker as a service: one process, one event loop, until it is told to stop."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog

from wakegate_schema import ids
from wakegate_schema.keys import ensure_key
from wakegate_schema.settings import Settings
from wakegate_schema.store import open_store
from wakegate_worker.outbound import open_session
from wakegate_worker.registry import load_tools
from wakegate_worker.stopping import Stop
from wakegate_worker.waking import WakeSender, ensure_wake_secret
from wakegate_worker.worker import Worker

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
    for number in signals:
        loop.add_signal_handler(number, stop.request)
    try:
        async with running(settings, stop):
            log.info("ready", action="ready")
            if ready is not None:
                ready()
            await stop.wait()
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
    log.info("stopped", action="stopped")


@asynccontextmanager
async def running(settings: Settings, stop: Stop | None = None) -> AsyncIterator[Worker]:
    """Run the worker for as long as the block lasts, then stop it as a signal would.

    Raises:
        WakegateError: as `serve`.
    """
    stop = stop or Stop()
    tools = load_tools(settings.tools)
    sealer = ensure_key(settings.worker_key_path)
    secret = ensure_wake_secret(settings.wake_secret_path)
    async with await open_store(settings.database, mode="service") as store, open_session() as session:
        worker = Worker(
            store,
            tools,
            sealer=sealer,
            session=session,
            sender=WakeSender(session, settings.wake_targets, secret),
            owner=f"worker-{ids.new()}",
            settings=settings,
            stop=stop,
        )
        worker.begin()
        try:
            yield worker
        finally:
            if not stop.requested:
                stop.request()
            await worker.finish()
