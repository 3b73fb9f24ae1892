"""The process of a resumer: `resume_entry.py MODULE:FUNCTION DIRECTORY`, handle and request on standard input.

The function is the harness's: called without arguments, it returns a resumer of the public SDK's, an awaitable of one,
or an async context manager of one. The resumer is called as the SDK's receiver calls it. Exit codes are those of
`wake_entry`. Nothing else of wakegate imports the SDK.
"""

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from wakegate_schema import timestamps
from wakegate_worker import wake_entry


def main(entry_point: str, directory: str) -> int:
    """Make the resumer and call it; return the exit code."""
    if directory:
        sys.path.insert(0, directory)  # the SDK may be there, too
    try:
        import agentapprovalprotocol  # noqa: F401 (the harness's own dependency)
    except ImportError as error:
        return wake_entry.tell(error, wake_entry.NOT_FOUND)
    return wake_entry.main(entry_point, "", _resume)


def _resume(function: Callable[[], Any], message: Mapping[str, Any]) -> None:
    asyncio.run(_resumed(function, message["handle"], request_of(message["request"])))


async def _resumed(function: Callable[[], Any], handle: Mapping[str, Any], request: Any) -> None:
    made = function()
    if inspect.isawaitable(made):
        made = await made
    if hasattr(made, "__aenter__"):
        async with made as resumer:
            await _call(resumer, handle, request)
    else:
        await _call(made, handle, request)


async def _call(resumer: Any, handle: Mapping[str, Any], request: Any) -> None:
    if not callable(resumer):
        raise TypeError
    returned = resumer(handle, request)
    if inspect.isawaitable(returned):
        await returned


def request_of(value: Mapping[str, Any]) -> Any:
    """Return the SDK's `Request` of an AAP request that the worker has checked."""
    from agentapprovalprotocol import Consumption, Decision, Outcome, Request

    decision, consumption = value.get("decision"), value.get("consumption")
    if decision is not None:
        decision = Decision(**_with_times(decision, "decided_at", "expires_at"))
    if consumption is not None:
        outcome = consumption.get("outcome")
        found = _with_times(consumption, "consumed_at")
        if outcome is not None:
            found["outcome"] = Outcome(**_with_times(outcome, "reported_at"))
        consumption = Consumption(**found)
    fields = _with_times(value, "created_at", "deadline_at")
    return Request(**{**fields, "decision": decision, "consumption": consumption})


def _with_times(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    times = {name: _moment(value[name]) for name in names if value.get(name) is not None}
    return {**{name: _exact(each) for name, each in value.items()}, **times}


def _moment(text: str) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=timestamps.parse(text))


def _exact(value: Any) -> Any:
    """Return JSON as the SDK reads it: numbers with a point are decimals."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}
    return [_exact(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    os._exit(code)  # a thread that was left behind keeps nobody waiting
