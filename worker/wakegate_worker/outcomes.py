"""Outcomes: what the end of a tool's run means. Pure; nothing here runs anything."""

import asyncio
import inspect
import json

from wakegate_schema import strict_json
from wakegate_schema.outcome_texts import RESULT_LIMIT, place_of, said
from wakegate_schema.records import Outcome
from wakegate_worker.attempt import ToolFailed
from wakegate_worker.registry import Tool

STILL_RUNNING = "tool_still_running"
"""The reason of a run that was given up while it went on; its late word settles it."""


def outcome_of_return(value: object) -> Outcome:
    """Return the outcome of a normal return: the call happened, whatever the value looks like.

    A value that is no JSON, or over `RESULT_LIMIT` bytes of it, is not kept and the error says so. The one exception
    is an awaitable that nobody awaited: what it would have done is unknown.
    """
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        return Outcome("in_doubt", "tool_not_awaited", error="the tool returned something to await, and is not async")
    try:
        result = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
        if len(result) > RESULT_LIMIT:
            return Outcome("succeeded", "result_too_large", error=f"the result is over {RESULT_LIMIT} bytes of JSON")
        strict_json.parse(result, max_bytes=RESULT_LIMIT)
    except Exception as error:  # noqa: BLE001 (a value's own methods may raise anything; the call happened all the same)
        return Outcome("succeeded", "result_not_json", error=f"the result is not JSON ({type(error).__name__})")
    return Outcome("succeeded", "returned", result=result)


def outcome_of_error(tool: Tool, error: BaseException) -> Outcome:
    """Return the outcome of a run that raised.

    `ToolFailed` and the tool's declared failures mean that it did not happen; their messages were written for the
    agent and are kept, as one line. Anything else leaves it in doubt, and only the exception's type and place are
    kept: messages of libraries hold URLs, tokens and arguments.
    """
    if isinstance(error, ToolFailed):
        return Outcome("failed", "tool_failed", error=said(error))
    if tool.failures and isinstance(error, tool.failures):
        return Outcome("failed", "tool_failed", error=said(error, type(error).__name__))
    if isinstance(error, asyncio.CancelledError):
        return Outcome("in_doubt", "tool_cancelled", error="the tool was cancelled while it ran")
    return Outcome("in_doubt", "tool_raised", error=place_of(error, "somewhere in the tool"))


def timed_out(tool: Tool, *, running: bool) -> Outcome:
    """Return the outcome of a run that took longer than the tool may, and may be `running` still."""
    reason = STILL_RUNNING if running else "tool_timed_out"
    return Outcome("in_doubt", reason, error=f"the tool did not end within {tool.timeout:g} s")
