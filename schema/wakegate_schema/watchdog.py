"""The watchdog: the service manager hears that a service lives only while its loop turns and its store takes writes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from wakegate_schema.errors import WakegateError
from wakegate_schema.loggers import logger
from wakegate_schema.service_manager import ServiceManager

PROBE_S: Final = 10.0
"""How long a write may take at the most, in seconds."""
AGAIN_S: Final = 2.0
"""How soon it is tried again after it failed, in seconds: once the trouble is over, nothing is killed for it."""

_log = logger("wakegate_schema")

Probe = Callable[[], Awaitable[None]]
"""Makes a real write in the store, or raises why not."""


@asynccontextmanager
async def watched(manager: ServiceManager, probe: Probe, doing: str) -> AsyncIterator[None]:
    """Tell the manager for the length of the block how the service is.

    It is told READY=1 after the first write that worked, and from then on every half period of the watchdog, from this
    loop and after another real write, that the service lives. While writes fail it is told why, and nothing else.

    Args:
        manager: nothing at all is done where it does not listen.
        probe: the store's.
        doing: what the service does once it is ready, in one line.
    """
    if not manager.listens:
        yield
        return
    task = asyncio.create_task(_Watchdog(manager, probe, doing).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


class _Watchdog:
    def __init__(self, manager: ServiceManager, probe: Probe, doing: str) -> None:
        self._manager = manager
        self._probe = probe
        self._doing = doing
        self._ready = False
        self._problem: str | None = None
        """Why the last write failed; None when it worked."""

    async def run(self) -> None:
        period = self._manager.watchdog_s
        bound = PROBE_S if period is None else min(PROBE_S, period / 4)
        while True:
            problem = await self._look(bound)
            if problem is None:
                self._tell_well()
            elif problem != self._problem:
                self._tell_ill(problem)
            self._problem = problem
            if problem is not None:
                await asyncio.sleep(AGAIN_S if period is None else min(AGAIN_S, period / 8))
            elif period is None:
                return  # it is ready, and nobody asks for more
            else:
                await asyncio.sleep(period / 2)

    async def _look(self, bound: float) -> str | None:
        """Return why nothing can be written now, or None."""
        try:
            async with asyncio.timeout(bound):
                await self._probe()
        except TimeoutError:
            return "store_timeout"
        except WakegateError as error:
            return error.reason
        except Exception as error:  # noqa: BLE001 - whatever it is, the watchdog is not fed, and a line says why
            _log.exception("unforeseen error", action="watchdog", error=type(error).__name__)
            return type(error).__name__
        return None

    def _tell_well(self) -> None:
        if not self._ready:
            self._manager.ready(self._doing)
        elif self._problem is not None:
            _log.info("the store can be used again", action="watchdog")
            self._manager.status(self._doing)
        self._ready = True
        self._manager.alive()

    def _tell_ill(self, problem: str) -> None:
        what = "watchdog not fed" if self._ready else "not ready"
        _log.error("the store cannot be used", action="watchdog", reason=problem, so=what)
        self._manager.status(f"{what}: the store cannot be used ({problem})")
