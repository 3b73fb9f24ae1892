"""The worker as a service of its own, until it is told to stop, or inside another program."""

import asyncio
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from wakegate_schema import clock, fault_points, ids
from wakegate_schema.service_keys import Sealed, ServiceKey
from wakegate_schema.service_manager import ServiceManager
from wakegate_schema.settings import Settings, SettingsError
from wakegate_schema.signals import spaced
from wakegate_schema.states import OLDER_EPOCH
from wakegate_schema.store import Store, open_store
from wakegate_schema.store.group_commit import PATIENCE_S
from wakegate_schema.watchdog import watched
from wakegate_worker.hints.opening import open_source
from wakegate_worker.leaving import leave
from wakegate_worker.log import log
from wakegate_worker.outbound import open_session
from wakegate_worker.registry import Tool
from wakegate_worker.stopping import Stop
from wakegate_worker.tool_modules import load_tools
from wakegate_worker.wake_sender import WakeSender, ensure_wake_secrets
from wakegate_worker.worker import Worker

LEAVE_S = 3.0
"""Seconds after the stop in which the process ends by itself, or is ended."""
YOUNG = 10_000
"""Objects after which the collector looks for cycles among the young ones; calls make few, and many objects."""
LEAVE_WITHIN_S = 30.0
"""Seconds for which leaving `running` waits for calls that have started, unless it is told another time."""


async def serve(settings: Settings, *, ready: Callable[[], None] | None = None) -> None:
    """Run the worker until SIGTERM or SIGINT; a second one stops it at once.

    Tells systemd, if that started it, when it works, how it is, and how long its stop may take.

    Args:
        settings: the ones the worker uses.
        ready: called once when it works.

    Raises:
        WakegateError: it cannot start; one line names the setting, file or module at fault.
    """
    stop, manager = Stop(), ServiceManager.take(os.environ)
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    requested = spaced(stop.request)
    for number in signals:
        loop.add_signal_handler(number, requested)
    try:
        async with working(settings, stop) as worker, watched(manager, worker.probe, _doing(worker.tools)):
            _tell_ready(worker.tools, settings.resumers)
            _spare_collector()
            if ready is not None:
                ready()
            await stop.wait()
            longest = longest_stop(worker)
            manager.stopping(f"stopping: waiting up to {longest:.0f} s for calls that have started", longest)
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
    log.info("stopped", action="stopped")
    _leave_within(LEAVE_S)


def longest_stop(worker: Worker) -> float:
    """Return after how many seconds the process of a worker that was asked to stop has surely ended."""
    return worker.longest_stop + PATIENCE_S + LEAVE_S


def _doing(tools: Mapping[str, Tool]) -> str:
    return f"working; tools: {', '.join(sorted(tools)) or 'none'}"


def _tell_ready(tools: Mapping[str, Tool], resumers: Iterable[str]) -> None:
    resumed = ", ".join(sorted(resumers))
    if not tools and not resumed:
        log.warning(
            "no tools registered: only harness-run calls can run",
            action="load_tools",
            hint="name their modules in WAKEGATE_TOOLS",
        )
    names = ", ".join(f"{name}@{tools[name].version}" for name in sorted(tools))
    log.info("ready", action="ready", tools=names or "none", **({"resumers": resumed} if resumed else {}))


async def _tell_of_held(store: Store) -> None:
    if await store.held_executions(limit=1):
        log.warning(
            "calls of an older epoch wait for a release: they may have run before the store was restored",
            action="hold",
            problem=OLDER_EPOCH,
            hint="`wakegate execution list` shows them; find out, then `wakegate execution release` or `abandon`",
        )


def _spare_collector() -> None:
    """Have the collector pass over all that a service holds to its end, and look at the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG)


def _leave_within(seconds: float) -> None:
    """End the process even if a tool that was left running, in a task or a thread of its own, would keep it.

    Everything is closed by now and the tool's attempt is, or becomes, in doubt.
    """
    leaving = threading.Timer(seconds, os._exit, (0,))
    leaving.daemon = True
    leaving.start()


@asynccontextmanager
async def running(
    settings: Settings, *, tools: Iterable[Callable[..., Any]] = (), leave_within: float = LEAVE_WITHIN_S
) -> AsyncIterator[None]:
    """Run a worker inside this process for as long as the block lasts: wakegate as a library, without a service.

    It works in this event loop, beside everything else there. It makes the store and the keys that are missing, sets
    up neither signals nor logging, and never ends the process. The process holds the instances' credentials then,
    and is fully trusted.

    Leaving, by whatever way, takes nothing new and waits for the calls that have started. What still runs after
    `leave_within` seconds, or at a second cancellation, is in doubt: an async tool is cancelled, a thread goes on and
    its word is not heard any more.

    Args:
        settings: from `load_settings`.
        tools: functions decorated with `@tool()`, beside those in the modules of setting `TOOLS`.
        leave_within: seconds.

    Raises:
        WakegateError: it cannot start; the message names the setting, file, module or function at fault.
    """
    if not leave_within >= 0:
        raise SettingsError("leave_within: must be seconds, 0 or more")
    async with working(settings, Stop(), tools=tools, leave_within=leave_within):
        yield


@asynccontextmanager
async def working(
    settings: Settings, stop: Stop, *, tools: Iterable[Callable[..., Any]] = (), leave_within: float | None = None
) -> AsyncIterator[Worker]:
    """Run a worker for as long as the block lasts, then stop it as a signal would.

    Args:
        settings: the ones the worker uses.
        stop: asks it to stop, also from within the block.
        tools: as `running`.
        leave_within: as `running`; None to wait for tools as long as they may take.

    Raises:
        WakegateError: as `running`.
    """
    fault_points.arm(os.environ, log.warning)
    clock.warn_if_set_apart(log.warning)
    found = load_tools(settings.tools, tools)
    key = ServiceKey.worker(settings)
    key.check()
    wake_secrets = ensure_wake_secrets(settings.wake_secret_path)
    hints = open_source(settings.store.queue)
    async with await open_store(settings.store, mode="service") as store, open_session() as session:
        worker = Worker(
            store,
            found,
            sealer=key.open(Sealed.credentials(await store.instances())),
            session=session,
            sender=WakeSender(session, settings.wake_targets, wake_secrets),
            owner=f"worker-{ids.new()}",
            settings=settings,
            stop=stop,
            hints=hints,
        )
        await _tell_of_held(store)
        try:
            await worker.begin()
            yield worker
        finally:
            await leave(worker, stop, leave_within)
