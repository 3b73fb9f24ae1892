"""Tool modules: imported by name when the worker starts; what is wrong with one is said with its file and line."""

import importlib
import inspect
import shlex
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from wakegate_worker.registry import RegistryError, Tool, place, tool_of

_TELLING = (ImportError, NameError)
"""Errors whose messages name only parts of programs; of others the message may hold anything."""
_OURS = (__file__, importlib.__file__)


def load_tools(modules: Iterable[str], functions: Iterable[Callable[..., Any]] = ()) -> Mapping[str, Tool]:
    """Import the modules and return the tools they hold, and those given, by name.

    Args:
        modules: importable names (setting `TOOLS`). One that is there by import from another is counted once.
        functions: functions decorated with `@tool()`, beside those of the modules.

    Raises:
        RegistryError: a module is missing, fails on import or has no tool; a function is no tool; or two functions
            share a tool's name.
    """
    given = [_given(function) for function in _several(functions)]
    tools: dict[str, Tool] = {}
    for one in [*(found for name in modules for found in _tools_in(_import(name), name)), *given]:
        other = tools.setdefault(one.name, one)
        if other is not one:
            raise RegistryError(
                f"tool {one.name!r} is registered twice: {place(other.function)} and {place(one.function)};"
                " give one of them another name",
                reason="tool_registered_twice",
            )
    return MappingProxyType(tools)


def _several(functions: object) -> list[object]:
    if isinstance(functions, Iterable) and not isinstance(functions, str):
        return list(functions)
    raise RegistryError(f"tools: {_shown(functions)} is no list of functions", reason="not_a_tool")


def _given(value: object) -> Tool:
    one = _unwrapped(value)
    if one is None:
        raise RegistryError(
            f"tools: {_shown(value)} is no tool; decorate the function with @tool()", reason="not_a_tool"
        )
    return one


def _shown(value: object) -> str:
    return place(value) if inspect.isroutine(value) else f"a {type(value).__name__}"


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
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> RegistryError:
    return RegistryError(
        f"WAKEGATE_TOOLS: the module {name!r} cannot be imported: {_what(error)}{_where(error)}{_hint(name, error)}",
        reason="tools_module_broken",
    )


def _what(error: BaseException) -> str:
    if isinstance(error, RegistryError):
        return str(error)
    kind = type(error).__name__
    if isinstance(error, SyntaxError):
        return f"{kind}: {error.msg}"
    return f"{kind}: {error}" if isinstance(error, _TELLING) else kind


def _hint(name: str, error: BaseException) -> str:
    if isinstance(error, RegistryError):
        return ""
    if isinstance(error, ModuleNotFoundError):
        return f"; install it for {sys.executable}"
    return f"; to see more: {shlex.join([sys.executable, '-c', f'import {name}'])}"


def _where(error: BaseException) -> str:
    """Return the file and line at fault: in the file whose import failed, as deep as the error came there."""
    lines = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    lines = [(file, line) for file, line in lines if file not in _OURS and not file.startswith("<frozen ")]
    if isinstance(error, SyntaxError):
        lines = [(error.filename or "?", error.lineno or 0)]
    if not lines:
        return ""
    file, line = [found for found in lines if found[0] == lines[0][0]][-1]
    return f" ({Path(file).name}, line {line})"


def _tools_in(module: ModuleType, name: str) -> list[Tool]:
    found = []
    for value in vars(module).values():
        one = _unwrapped(value)
        if one is not None:
            found.append(one)
    if not found:
        raise RegistryError(
            f"WAKEGATE_TOOLS: the module {name!r} has no tool; decorate one with @tool()",
            reason="tools_module_empty",
        )
    return found


def _unwrapped(value: object) -> Tool | None:
    """Return the tool that a function is, if it is one."""
    one = tool_of(value)
    if one is not None and one.function is not value:
        raise RegistryError(
            f"tool {one.name!r} at {_shown(value)} is wrapped by another decorator, which would not be run;"
            " make @tool the outermost one",
            reason="tool_wrapped",
        )
    return one
