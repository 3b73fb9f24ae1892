"""Tool run: one run of one tool, to its outcome, and past it."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wakegate_schema import fault_points
from wakegate_schema.records import Outcome
from wakegate_worker.attempt import Attempt
from wakegate_worker.outcomes import outcome_of_error, outcome_of_return, timed_out
from wakegate_worker.registry import Tool
from wakegate_worker.threads import NoThread, Threads

GRACE_S = 1.0
"""Seconds an async tool has to end after it was cancelled at its timeout."""


async def run_tool(
    tool: Tool,
    attempt: Attempt,
    arguments: Mapping[str, Any],
    *,
    threads: Threads,
    unfit: Callable[[], str | None],
    late: Callable[[Outcome], None],
) -> Outcome:
    """Run the tool once and return its outcome; never raises what the tool raised.

    At the tool's timeout an async tool is cancelled; a sync one cannot be. What then still runs is in doubt, and
    `late` is called once, in this loop, with its true outcome should it end after all. Cancelled itself, this cancels
    an async tool and waits for nothing.

    Args:
        tool: what to run.
        attempt: its first argument.
        arguments: the call's arguments, already checked to fit.
        threads: where sync tools run.
        unfit: asked right before the tool is called, in its task or thread, which may have waited for its turn:
            returns why it must not be called any more, or None.
        late: takes the late word of a run that was given up.
    """
    try:
        ending = _begin(_Run(tool, attempt, arguments, unfit), threads)
    except NoThread as error:
        return Outcome("not_begun", error.reason, error=str(error))
    try:
        ended = await _ended(ending, tool.timeout)
    except asyncio.CancelledError:  # the worker gives it up; its process may go on, and would keep the task
        if isinstance(ending, asyncio.Task):
            ending.cancel()
        raise
    if ended:
        return ending.result()
    if isinstance(ending, asyncio.Task):
        ending.cancel()
        if await _ended(ending, GRACE_S):
            outcome = ending.result()
            return timed_out(tool, running=False) if outcome.kind == "in_doubt" else outcome
    ending.add_done_callback(lambda ended: None if ended.cancelled() else late(ended.result()))
    return timed_out(tool, running=True)


@dataclass(frozen=True, slots=True)
class _Run:
    tool: Tool
    attempt: Attempt
    arguments: Mapping[str, Any]
    unfit: Callable[[], str | None]


def _begin(run: _Run, threads: Threads) -> "asyncio.Future[Outcome]":
    if run.tool.is_async:
        return asyncio.get_running_loop().create_task(_run_async(run))
    return threads.run(lambda: _run_sync(run))


async def _ended(ending: "asyncio.Future[Outcome]", seconds: float) -> bool:
    done, _ = await asyncio.wait({ending}, timeout=seconds)
    return bool(done)


async def _run_async(run: _Run) -> Outcome:
    reason = run.unfit()
    if reason is not None:
        return Outcome("not_begun", reason)
    try:
        await fault_points.passing("tool.begin", run.tool.name)
        value = await run.tool.function(run.attempt, **run.arguments)
        await fault_points.passing("tool.end", run.tool.name)
    except BaseException as error:  # noqa: BLE001 (whatever a tool raises is its outcome and must not end the worker)
        return outcome_of_error(run.tool, error)
    return outcome_of_return(value)


def _run_sync(run: _Run) -> Outcome:
    reason = run.unfit()
    if reason is not None:
        return Outcome("not_begun", reason)
    try:
        fault_points.reach("tool.begin", run.tool.name)
        value = run.tool.function(run.attempt, **run.arguments)
        fault_points.reach("tool.end", run.tool.name)
    except BaseException as error:  # noqa: BLE001 (as above)
        return outcome_of_error(run.tool, error)
    return outcome_of_return(value)
