"""The process of a wake's entry point: `wake_entry.py MODULE:FUNCTION DIRECTORY`, the message on standard input.

A script of the standard library alone. Returning is exit code 0; what is raised is told by its type and place, because
messages hold anything, and is any other code.
"""

import asyncio
import contextlib
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

RAISED = 1
NOT_FOUND = 3
"""The module cannot be imported, or has no such function."""


def main(entry_point: str, directory: str, call: Callable[[Callable[..., Any], Any], None] | None = None) -> int:
    """Import what is named and call it with the message; return the exit code.

    Args:
        entry_point: `module:function`.
        directory: where it is looked for first; may be empty.
        call: what is done with the function and the message, when it is not just called.
    """
    message = json.load(sys.stdin)
    if directory:
        sys.path.insert(0, directory)
    try:
        function = find(entry_point)
    except BaseException as error:  # noqa: BLE001 (a module may raise anything, SystemExit too)
        return tell(error, NOT_FOUND)
    try:
        (call or _call)(function, message)
    except BaseException as error:  # noqa: BLE001
        return tell(error, RAISED)
    return 0


def tell(error: BaseException, code: int) -> int:
    """Write what was raised and where, and nothing that the program may have put into it; return the exit code."""
    kind = type.__dict__["__name__"].__get__(type(error))  # whatever its metaclass says
    if code == NOT_FOUND and isinstance(error, ImportError | AttributeError) and error.name is not None:
        kind = f"{kind}: {_text(error)}"  # Python's own words, which name only parts of programs
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    with contextlib.suppress(OSError):
        os.write(2, f"{kind}{place}\n".encode(errors="replace"))  # whatever has become of sys.stderr
    return code


def _call(function: Callable[[Any], Any], message: Any) -> None:
    returned = function(message)
    if inspect.isawaitable(returned):
        asyncio.run(_await(returned))
    elif inspect.isgenerator(returned) or inspect.isasyncgen(returned):
        raise TypeError  # nothing of it has run


async def _await(returned: Any) -> None:
    await returned


def find(entry_point: str) -> Callable[[Any], Any]:
    """Import the module and return the function; raises whatever that raises."""
    module, _, names = entry_point.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError
    function: Callable[[Any], Any] = found
    return function


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (a class of the program's)
        return "?"


if __name__ == "__main__":
    code = main(sys.argv[1], sys.argv[2])
    os._exit(code)  # a thread that was left behind keeps nobody waiting
