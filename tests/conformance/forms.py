"""The forms of a hold: each saves a call, waits for its approval, runs it, and returns how it ended."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from wakegate_adapter import Adapter, Call, Resolution

Run = Callable[..., Awaitable[Any]]


class Hold(Protocol):
    """One of them."""

    async def __call__(self, adapter: Adapter, call: Call, run: Run, *, wait_limit: float = 120) -> Resolution:
        """Hold the call; `run` takes its arguments by name."""


async def by_function(adapter: Adapter, call: Call, run: Run, *, wait_limit: float = 120) -> Resolution:
    """`await adapter.hold(call, run=…)`."""
    return await adapter.hold(call, run=run, wait_limit=wait_limit)


async def by_context_manager(adapter: Adapter, call: Call, run: Run, *, wait_limit: float = 120) -> Resolution:
    """`async with adapter.holding(call) as attempt`."""
    async with adapter.holding(call, wait_limit) as attempt:
        if attempt.permitted:
            attempt.succeed(await run(**attempt.arguments))
    return await adapter.get(attempt.execution_id)


async def by_decorator(adapter: Adapter, call: Call, run: Run, *, wait_limit: float = 120) -> Resolution:
    """`@adapter.held(…)` over a function that has the call's arguments as its own."""

    async def function(**arguments: Any) -> Any:
        return await run(**arguments)

    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in call.arguments]
    function.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    held = adapter.held(tool=call.tool, instance=call.instance, timeout=call.timeout, wait_limit=wait_limit)(function)
    once = held.calling(key=call.key, reasoning=call.reasoning, context=call.context)
    return await once(**call.arguments)


FORMS: Final[dict[str, Hold]] = {
    "function": by_function,
    "context manager": by_context_manager,
    "decorator": by_decorator,
}
