"""Giving back: a claim whose claimer was cancelled meanwhile is recorded as not begun."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from wakegate_schema.calls.grant import Grant
from wakegate_schema.calls.persistence import to_the_end
from wakegate_schema.calls.standing import Taken
from wakegate_schema.records import Outcome

CANCELLED: Final = Outcome("not_begun", "cancelled_at_start", error="cancelled before it began")


async def given_back_if_cancelled(
    taking: Coroutine[Any, Any, Taken], finish: Callable[[Grant, Outcome], Awaitable[object]]
) -> Taken:
    """Await a claim to its end also when cancelled, and then finish what it took; only then be cancelled.

    Args:
        taking: the claim.
        finish: records how an attempt ended.
    """
    task = asyncio.get_running_loop().create_task(taking)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await to_the_end(_give_back(task, finish))
        raise


async def _give_back(task: "asyncio.Task[Taken]", finish: Callable[[Grant, Outcome], Awaitable[object]]) -> None:
    await asyncio.wait({task})
    if task.cancelled() or task.exception() is not None:
        return
    if (grant := task.result().grant) is not None:
        await finish(grant, CANCELLED)
