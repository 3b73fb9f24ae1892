"""Persistence: work that outlives a cancellation, and verbs repeated in time or while the store cannot be reached."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from wakegate_schema.store import StoreUnavailable

_Result = TypeVar("_Result")

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 2.0


async def to_the_end(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Await `work` to its end even when cancelled meanwhile; only then let the cancellation go on.

    What `work` raised is the cancellation's cause, so that it is not lost.
    """
    task = asyncio.get_running_loop().create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled from (None if task.cancelled() else task.exception())
    return task.result()


async def patiently(verb: Callable[[], Awaitable[_Result]], patience: float) -> _Result:
    """Call `verb`, and again while the store is unavailable, for `patience` seconds.

    Only for verbs that may be repeated: reads, and writes the store recognises as the same.

    Raises:
        StoreUnavailable: it still is, or it was closed.
    """
    loop = asyncio.get_running_loop()
    until, pause = loop.time() + patience, FIRST_PAUSE
    while True:
        try:
            return await verb()
        except StoreUnavailable as error:
            if error.reason == "closed" or loop.time() + pause > until:
                raise
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


async def until_lost(
    renewed: Callable[[], Awaitable[bool]], seconds: float, failed: Callable[[StoreUnavailable], None]
) -> None:
    """Renew again and again, well within the `seconds` that it lasts; return when it was lost.

    Args:
        renewed: renews, and says whether it still held.
        seconds: how long it lasts without being renewed.
        failed: told of every time the store was unavailable; it is tried again sooner then.
    """
    pause = seconds / 3
    while True:
        await asyncio.sleep(pause)
        try:
            if not await renewed():
                return
            pause = seconds / 3
        except StoreUnavailable as error:
            pause = seconds / 15
            failed(error)


async def ended(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel background tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    await to_the_end(_all_done(tasks))


async def _all_done(tasks: "tuple[asyncio.Task[Any], ...]") -> None:
    await asyncio.wait(tasks)
