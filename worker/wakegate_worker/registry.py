"""The registry: which functions are tools, under which name and version, and how each is to be run."""

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from wakegate_schema.errors import WakegateError
from wakegate_worker.attempt import Attempt

DEFAULT_TIMEOUT = 60.0
"""Seconds a tool may run unless its decorator says otherwise."""
LONGEST_TIMEOUT = 86_400.0
"""The most seconds a tool may ask for: a day."""

Probe = Callable[[Attempt], bool | Awaitable[bool | None] | None]
"""Looks whether an attempt happened: True it did, False it did not, None nobody can say (yet)."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_ATTRIBUTE = "__wakegate_tool__"
_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class RegistryError(WakegateError):
    """A tool, or a module of tools, cannot be used."""

    reason = "registry"


class ArgumentsDoNotFit(WakegateError):
    """The saved arguments do not fit the tool's parameters."""

    reason = "arguments_do_not_fit"


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that a call may name, and how to run it."""

    name: str
    version: str
    timeout: float
    """Seconds one run may take."""
    failures: tuple[type[Exception], ...]
    """Exceptions that mean "it did not happen", beside ToolFailed."""
    function: Callable[..., Any]
    probe: Probe | None = None
    is_async: bool = False
    signature: inspect.Signature = field(default_factory=inspect.Signature, repr=False)

    def check_arguments(self, attempt: object, arguments: Mapping[str, Any]) -> None:
        """Raise `ArgumentsDoNotFit` unless the function can be called with these, before anything has begun.

        The message names what is missing, which is the function's own; of what was saved it names nothing.
        """
        try:
            self.signature.bind(attempt, **arguments)
        except TypeError:
            misfit = self._misfit(arguments)
            raise ArgumentsDoNotFit(
                f"the saved arguments do not fit tool {self.name!r}: {misfit}; correct the tool and restart the worker"
            ) from None

    def _misfit(self, arguments: Mapping[str, Any]) -> str:
        _, *parameters = self.signature.parameters.values()
        named = {one.name: one for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD}
        missing = [name for name, one in named.items() if one.default is one.empty and name not in arguments]
        if missing:
            return f"missing {', '.join(missing)}"
        return f"{len(arguments.keys() - named.keys())} that it does not take"


def tool(
    misplaced: None = None,
    /,
    *,
    version: str = "1",
    timeout: float = DEFAULT_TIMEOUT,
    failures: Iterable[type[Exception]] = (),
    probe: Probe | None = None,
    name: str | None = None,
) -> Callable[[_Function], _Function]:
    """Make a function a tool; it stays the function it was.

    The function, sync or async, takes an `Attempt` first and then the call's arguments by keyword. A normal return
    means the call happened; `ToolFailed` or one of `failures` that it did not; anything else that nobody knows.

    Args:
        misplaced: nothing. It is there to say what is wrong with `@tool`, written without its parentheses.
        version: kept with each call when it is submitted; a call is only run by the version it was submitted under.
        timeout: seconds one run may take, up to a day; after it nobody knows whether the call happened.
        failures: exceptions that mean "it did not happen". Not Exception itself: that would call doubt certainty.
        probe: asked later whether an attempt in doubt happened; see `Probe`.
        name: what calls name it by; the function's name unless given.

    Raises:
        RegistryError: one of these, or the function, cannot be used; the message names it.
    """

    if misplaced is not None:
        raise _misplaced(misplaced)

    def register(function: _Function) -> _Function:
        called = _checked_name(function, name)
        made = Tool(
            name=called,
            version=_checked_text(version, f"tool {called!r}: version"),
            timeout=_checked_timeout(timeout, called),
            failures=_checked_failures(failures, called),
            function=function,
            probe=_checked_probe(probe, called),
            is_async=inspect.iscoroutinefunction(function),
            signature=_checked_signature(function, called),
        )
        setattr(function, _ATTRIBUTE, made)
        return function

    return register


def has_tool(tools: Mapping[str, Tool], name: str, version: str | None) -> bool:
    """Return whether the tool that a call names is among these, at the version that the call declares, if any."""
    found = tools.get(name)
    return found is not None and version in (None, "", found.version)


def tool_of(value: object) -> Tool | None:
    """Return the tool that a function was made, if it was."""
    found = vars(value).get(_ATTRIBUTE) if inspect.isfunction(value) else None
    return found if isinstance(found, Tool) else None


def place(function: Callable[..., Any]) -> str:
    """Return where a function is, as people look for it."""
    return f"{function.__module__}.{function.__qualname__}"


def _misplaced(given: object) -> RegistryError:
    if inspect.isfunction(given):
        return RegistryError(f"{place(given)}: @tool is written with its parentheses: @tool()")
    return RegistryError('@tool takes its options by keyword: @tool(version="1")')


def _checked_name(function: object, name: str | None) -> str:
    if not inspect.isfunction(function):
        raise RegistryError("@tool() goes on a function, written with its parentheses: @tool()")
    called = _checked_text(function.__name__ if name is None else name, f"{place(function)}: name")
    inner = inspect.unwrap(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise RegistryError(f"tool {called!r} is a generator; a tool returns one value")
    if inspect.iscoroutinefunction(inner) and not inspect.iscoroutinefunction(function):
        raise RegistryError(f"tool {called!r}: a decorator hides that it is async; make its wrapper an async function")
    if _ATTRIBUTE in vars(function):
        raise RegistryError(f"tool {called!r} is decorated with @tool() twice", reason="tool_registered_twice")
    return called


def _checked_signature(function: Callable[..., Any], name: str) -> inspect.Signature:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters or not _takes_attempt(parameters[0]):
        raise RegistryError(
            f"tool {name!r} at {place(function)} must take the attempt as its first parameter, before the call's"
            f" arguments: def {function.__name__}(attempt: Attempt, ...)"
        )
    for parameter in parameters[1:]:
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise RegistryError(
                f"tool {name!r}: parameter {parameter.name!r} cannot be given by keyword, as arguments are"
            )
    return signature


def _takes_attempt(first: inspect.Parameter) -> bool:
    """Whether the first parameter is meant for the attempt, and is no argument of the call."""
    if first.kind not in _BY_POSITION:
        return False
    if first.annotation is first.empty:
        return first.name.strip("_") in ("", "attempt")
    if first.annotation in (Any, object):
        return True
    text = first.annotation if isinstance(first.annotation, str) else inspect.formatannotation(first.annotation)
    return "Attempt" in text


def _checked_text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value or not value.isprintable() or value != value.strip():
        raise RegistryError(f"{what} must be text that is not empty, printable and without blanks around it")
    return value


def _checked_timeout(timeout: object, name: str) -> float:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not math.isfinite(seconds := float(timeout)) or not 0 < seconds <= LONGEST_TIMEOUT:  # type: ignore[arg-type]
        raise RegistryError(f"tool {name!r}: timeout must be seconds, more than 0 and at most {LONGEST_TIMEOUT:.0f}")
    return seconds


def _checked_failures(failures: object, name: str) -> tuple[type[Exception], ...]:
    found = tuple(failures) if isinstance(failures, Iterable) else (None,)
    if all(isinstance(one, type) and issubclass(one, Exception) and one is not Exception for one in found):
        return found
    raise RegistryError(
        f"tool {name!r}: failures must be a tuple of exception classes narrower than Exception,"
        " each meaning that the call did not happen"
    )


def _checked_probe(probe: Probe | None, name: str) -> Probe | None:
    if probe is None:
        return None
    try:
        inspect.signature(probe).bind(None)
    except (TypeError, ValueError):
        raise RegistryError(f"tool {name!r}: probe must be a function that takes the attempt") from None
    return probe
