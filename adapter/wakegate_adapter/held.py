"""Held functions: what a harness calls as a function, and is held for approval each time."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, ParamSpec

from wakegate_adapter.callee import Failures, Run, check_runs
from wakegate_schema.calls import Call, CallRefused
from wakegate_schema.resolution import Resolution

P = ParamSpec("P")
_BY_NAME: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Terms:
    """How the calls of one function are held."""

    hold: Callable[[Call, Run, float, Failures], Awaitable[Resolution]]
    tool: str
    instance: str | None
    timeout: str
    wait_limit: float
    failures: Failures
    version: str | None
    key: str | None = None
    reasoning: str | None = None
    context: Mapping[str, Any] | None = None
    group: str | None = None


class Held(Generic[P]):
    """A function whose every call is saved, waited for and run once when it is permitted; see `Adapter.held`."""

    __name__: str
    is_held: Final = True
    """What runs it again would have every call approved twice."""

    def __init__(self, function: Callable[P, Any], terms: Terms) -> None:
        """Take a function whose arguments all have names. Raises `CallRefused`."""
        self._function = function
        self._terms = terms
        self._signature = _signature(function)
        functools.update_wrapper(self, function)

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Resolution:
        """Hold one call of the function; return how it ended, and never raise what it raised.

        Raises as `Adapter.hold`.
        """
        terms = self._terms
        key = {} if terms.key is None else {"key": terms.key}
        call = Call(
            terms.tool, self._bound(*args, **kwargs), instance=terms.instance, timeout=terms.timeout,
            reasoning=terms.reasoning, context=terms.context, group=terms.group, version=terms.version, **key,
        )  # fmt: skip
        return await terms.hold(call, self._function, terms.wait_limit, terms.failures)

    def calling(
        self,
        *,
        key: str | None = None,
        reasoning: str | None = None,
        context: Mapping[str, Any] | None = None,
        group: str | None = None,
    ) -> "Held[P]":
        """Return the same function for one call: under this key, and with this said to the approver.

        `await issue_refund.calling(key="run-7:call-5", reasoning="charged twice")(payment_id="pay_1", amount=4900)`
        """
        return Held(self._function, replace(self._terms, key=key, reasoning=reasoning, context=context, group=group))

    def _bound(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return every argument by its name, defaults included: what is approved is the whole call."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise CallRefused(
                "arguments", f"the function does not take these: {error}", reason="arguments_do_not_fit"
            ) from None
        bound.apply_defaults()
        return dict(bound.arguments)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    check_runs(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise CallRefused("run", "it must be a function whose arguments have names", reason="bad_run") from None
    if any(parameter.kind not in _BY_NAME for parameter in signature.parameters.values()):
        raise CallRefused("run", "every argument must have a name: no *args, **kwargs or /", reason="bad_run")
    return signature
