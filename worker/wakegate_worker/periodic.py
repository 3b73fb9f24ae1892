"""Periodic work: again and again, whatever happened the last time."""

import asyncio
from collections.abc import Awaitable, Callable

from wakegate_schema.store import StoreUnavailable
from wakegate_worker.log import log
from wakegate_worker.stopping import Interrupted, Stop


async def every(
    seconds: float,
    action: str,
    job: Callable[[], Awaitable[float | None]],
    *,
    stop: Stop,
    wake: asyncio.Event | None = None,
) -> None:
    """Do a job at once and then every so many seconds, until a stop is asked for.

    Args:
        seconds: between two times; fewer if the job returns fewer.
        action: the job's name in the log.
        job: what to do.
        stop: ends it.
        wake: set when the job is to be done now.
    """
    events = () if wake is None else (wake,)
    while not stop.requested:
        sooner: float | None = None
        try:
            with stop.interruptible():
                sooner = await job()
        except Interrupted:
            return
        except StoreUnavailable as error:
            log.warning("the store cannot be used", action=action, reason=error.reason)
        except Exception as error:
            log.exception("unforeseen error", action=action, error=type(error).__name__)
        await stop.pause(seconds if sooner is None else min(seconds, sooner), *events)
