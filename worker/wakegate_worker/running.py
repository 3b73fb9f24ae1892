"""Running: one run of one tool, to its outcome, and past it."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from wakegate_schema.records import Outcome
from wakegate_worker.attempt import Attempt
from wakegate_worker.outcomes import outcome_of_error, outcome_of_return, timed_out
from wakegate_worker.registry import Tool
from wakegate_worker.threads import NoThread, Threads

GRACE = 1.0
"""Seconds an async tool has to end after it was cancelled at its timeout."""


async def run_tool(
    tool: Tool,
    attempt: Attempt,
    arguments: Mapping[str, Any],
    *,
    threads: Threads,
    late: Callable[[Outcome], None],
) -> Outcome:
    """Run the tool once and return its outcome; never raises what the tool raised.

    At the tool's timeout an async tool is cancelled; a sync one cannot be. What then still runs is in doubt, and
    `late` is called once, in this loop, with its true outcome should it end after all.

    Args:
        tool: what to run.
        attempt: its first argument.
        arguments: the call's arguments, already checked to fit.
        threads: where sync tools run.
        late: takes the late word of a run that was given up.
    """
    try:
        ending = _begin(tool, attempt, arguments, threads)
    except NoThread as error:
        return Outcome("not_begun", error.reason, error=str(error))
    if await _ended(ending, tool.timeout):
        return ending.result()
    if isinstance(ending, asyncio.Task):
        ending.cancel()
        if await _ended(ending, GRACE):
            outcome = ending.result()
            return timed_out(tool, running=False) if outcome.kind == "in_doubt" else outcome
    ending.add_done_callback(lambda ended: None if ended.cancelled() else late(ended.result()))
    return timed_out(tool, running=True)


def _begin(tool: Tool, attempt: Attempt, arguments: Mapping[str, Any], threads: Threads) -> "asyncio.Future[Outcome]":
    if tool.is_async:
        return asyncio.get_running_loop().create_task(_run_async(tool, attempt, arguments))
    return threads.run(lambda: _run_sync(tool, attempt, arguments))


async def _ended(ending: "asyncio.Future[Outcome]", seconds: float) -> bool:
    done, _ = await asyncio.wait({ending}, timeout=seconds)
    return bool(done)


async def _run_async(tool: Tool, attempt: Attempt, arguments: Mapping[str, Any]) -> Outcome:
    try:
        value = await tool.function(attempt, **arguments)
    except BaseException as error:  # noqa: BLE001 (whatever a tool raises is its outcome and must not end the worker)
        return outcome_of_error(tool, error)
    return outcome_of_return(value)


def _run_sync(tool: Tool, attempt: Attempt, arguments: Mapping[str, Any]) -> Outcome:
    try:
        value = tool.function(attempt, **arguments)
    except BaseException as error:  # noqa: BLE001 (as above)
        return outcome_of_error(tool, error)
    return outcome_of_return(value)
