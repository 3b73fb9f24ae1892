"""The process of a wake's entry point: `wake_entry.py MODULE:FUNCTION DIRECTORY`, the message on standard input.

A script of the standard library alone. Returning is exit code 0; what is raised is told by its type and place, because
messages hold anything, and is any other code.
"""

import asyncio
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


def main(entry_point: str, directory: str) -> int:
    """Import what is named and call it with the message; return the exit code."""
    message = json.load(sys.stdin)
    if directory:
        sys.path.insert(0, directory)
    try:
        function = _find(entry_point)
    except BaseException as error:  # noqa: BLE001 (a module may raise anything, SystemExit too)
        return _tell(error, NOT_FOUND)
    try:
        returned = function(message)
        if inspect.isawaitable(returned):
            asyncio.run(_await(returned))
    except BaseException as error:  # noqa: BLE001
        return _tell(error, RAISED)
    return 0


async def _await(returned: Any) -> None:
    await returned


def _find(entry_point: str) -> Callable[[Any], Any]:
    module, _, names = entry_point.partition(":")
    found: Any = importlib.import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    if not callable(found):
        raise TypeError
    function: Callable[[Any], Any] = found
    return function


def _tell(error: BaseException, code: int) -> int:
    kind = type(error).__name__
    if isinstance(error, ImportError | AttributeError) and code == NOT_FOUND:
        kind = f"{kind}: {error}"  # names only parts of programs
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    sys.stderr.write(f"{kind}{place}\n")
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    os._exit(code)  # a thread that was left behind keeps nobody waiting
