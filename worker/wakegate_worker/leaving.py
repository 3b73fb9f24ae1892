"""Leaving: a worker is brought to its end inside a process that goes on, whatever happens meanwhile."""

import asyncio

from wakegate_worker.stopping import Stop
from wakegate_worker.worker import Worker


async def leave(worker: Worker, stop: Stop, within: float | None) -> None:
    """End a worker, and never leave it half ended.

    Cancelled meanwhile, it gives up what still runs, ends, and is cancelled then.

    Args:
        worker: was begun in this loop.
        stop: its stop; asked for here unless it was before.
        within: seconds that calls which have started are waited for; None for as long as their tools may take.
    """
    if not stop.requested:
        stop.request()
    finishing = asyncio.get_running_loop().create_task(worker.finish())
    cancelled: asyncio.CancelledError | None = None
    patience = within
    while not finishing.done():
        try:
            await asyncio.wait({finishing}, timeout=patience)
        except asyncio.CancelledError as error:
            cancelled = error
        if not finishing.done() and not stop.forced.is_set():
            stop.request()
        patience = None
    finishing.result()
    if cancelled is not None:
        raise cancelled
