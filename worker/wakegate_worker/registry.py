"""The registry: which functions are tools, under which name and version, and how each is to be run."""

import importlib
import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, ModuleType
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
        """Raise `ArgumentsDoNotFit` unless the function can be called with these, before anything has begun."""
        try:
            self.signature.bind(attempt, **arguments)
        except TypeError:
            raise ArgumentsDoNotFit(f"the saved arguments do not fit the parameters of tool {self.name!r}") from None


def tool(
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
        version: kept with each call when it is submitted; a call is only run by the version it was submitted under.
        timeout: seconds one run may take, up to a day; after it nobody knows whether the call happened.
        failures: exceptions that mean "it did not happen". Not Exception itself: that would call doubt certainty.
        probe: asked later whether an attempt in doubt happened; see `Probe`.
        name: what calls name it by; the function's name unless given.

    Raises:
        RegistryError: one of these, or the function, cannot be used; the message names it.
    """

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


def load_tools(modules: Iterable[str]) -> Mapping[str, Tool]:
    """Import the modules and return the tools they hold, by name.

    Args:
        modules: importable names (setting `TOOLS`). One that is there by import from another is counted once.

    Raises:
        RegistryError: a module is missing, fails on import or has no tool; or two functions share a tool's name.
    """
    tools: dict[str, Tool] = {}
    for module_name in modules:
        found = _tools_in(_import(module_name), module_name)
        for one in found:
            other = tools.setdefault(one.name, one)
            if other is not one:
                raise RegistryError(
                    f"tool {one.name!r} is registered twice: {_place(other.function)} and {_place(one.function)};"
                    " give one of them another name",
                    reason="tool_registered_twice",
                )
    return MappingProxyType(tools)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise RegistryError(
                f"WAKEGATE_TOOLS: there is no module {name!r}; check its name and PYTHONPATH",
                reason="tools_module_missing",
            ) from error
        raise _broken(name, error) from error
    except Exception as error:
        raise _broken(name, error) from error


def _broken(name: str, error: Exception) -> RegistryError:
    return RegistryError(
        f"WAKEGATE_TOOLS: the module {name!r} cannot be imported: {type(error).__name__};"
        f" try: python -c 'import {name}'",
        reason="tools_module_broken",
    )


def _tools_in(module: ModuleType, name: str) -> list[Tool]:
    found = []
    for value in vars(module).values():
        one = vars(value).get(_ATTRIBUTE) if inspect.isfunction(value) else None
        if not isinstance(one, Tool):
            continue
        if one.function is not value:
            raise RegistryError(
                f"tool {one.name!r} at {_place(value)} is wrapped by another decorator, which would not be run;"
                " make @tool the outermost one",
                reason="tool_wrapped",
            )
        found.append(one)
    if not found:
        raise RegistryError(
            f"WAKEGATE_TOOLS: the module {name!r} has no tool; decorate one with @tool()",
            reason="tools_module_empty",
        )
    return found


def _checked_name(function: object, name: str | None) -> str:
    if not inspect.isfunction(function):
        raise RegistryError("@tool() goes on a function, written with its parentheses: @tool()")
    called = _checked_text(function.__name__ if name is None else name, f"{_place(function)}: name")
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
    if not parameters or parameters[0].kind not in _BY_POSITION:
        raise RegistryError(f"tool {name!r} must take the attempt as its first parameter")
    for parameter in parameters[1:]:
        if parameter.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL):
            raise RegistryError(
                f"tool {name!r}: parameter {parameter.name!r} cannot be given by keyword, as arguments are"
            )
    return signature


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


def _place(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
