"""Probing: the tools modules imported in a process of their own, because importing runs code.

The worker's user does it where root asks: what its modules do at import is not root's to do.
"""

import asyncio
import json
import os
import pwd
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wakegate_console.doctor import access

LIMIT_S: Final = 20.0
"""How long the import of all modules may take, in seconds."""
_MOST: Final = 1_048_576
_LONGEST: Final = 2000
"""Characters of a problem that are told, at most."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of importing the tools modules."""

    tools: Mapping[str, str] = field(default_factory=dict)
    """Versions by tool."""
    problem: str | None = None
    """What is wrong with one of them; None where nothing is."""
    user: str | None = None
    """As whom they were imported, where it was another user than this one."""


async def load(
    modules: Sequence[str], user: int | None = None, folder: Path | None = None, limit_s: float = LIMIT_S
) -> Loaded:
    """Import the modules as the worker does, in a child process.

    Args:
        modules: their names.
        user: as whom; None for this process's user. Only root can be another one.
        folder: where; this process's unless given.
        limit_s: seconds.
    """
    if not modules:
        return Loaded()
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-B", "-P", "-m", __spec__.name, str(writing), *modules, pass_fds=(writing,),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL, start_new_session=True, cwd=folder,
                **as_user(user),
            )  # fmt: skip
        except OSError as error:
            return Loaded(problem=f"no process could be started to import them: {error.strerror}")
        finally:
            os.close(writing)
        try:
            async with asyncio.timeout(limit_s):
                told = await asyncio.to_thread(_listen, pipe.fileno(), limit_s)
                await process.wait()
        except TimeoutError:
            return Loaded(problem=f"importing them took longer than {limit_s:g} s", user=_name(user))
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return _loaded(told, process.returncode, user)


def _listen(pipe: int, limit_s: float) -> bytes:
    """Return what the child says, as far as it comes in time."""
    import select
    import time

    until, told = time.monotonic() + limit_s, b""
    while len(told) < _MOST and (left := until - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        more = os.read(pipe, 65_536)
        if not more:
            return told
        told += more
    raise TimeoutError


def _loaded(told: bytes, code: int | None, user: int | None) -> Loaded:
    """Return what the child has said, whose pipe the modules themselves can write to as well."""
    try:
        found = json.loads(told)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("tools", {}), dict):
        return Loaded(problem=f"importing them ended the process (exit code {code})", user=_name(user))
    tools = {name: str(version) for name, version in found.get("tools", {}).items()}
    problem = found.get("problem")
    return Loaded(tools, None if problem is None else str(problem)[:_LONGEST], _name(user))


def as_user(user: int | None) -> dict[str, Any]:
    """Return what makes the child another user's: with that user's groups and no other."""
    if user is None or user == os.geteuid():
        return {}
    try:
        entry = pwd.getpwuid(user)
    except KeyError:
        return {"user": user, "group": user, "extra_groups": []}
    return {"user": user, "group": entry.pw_gid, "extra_groups": os.getgrouplist(entry.pw_name, entry.pw_gid)}


def _name(user: int | None) -> str | None:
    return None if user is None or user == os.geteuid() else access.user_name(user)


def _tell(pipe: int, modules: Sequence[str]) -> None:
    """In the child: import the modules and write what they hold."""
    from wakegate_schema.errors import WakegateError
    from wakegate_worker.tool_modules import load_tools

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # as `wakegate worker` does it
    try:
        found: dict[str, object] = {"tools": {name: one.version for name, one in load_tools(modules).items()}}
    except WakegateError as error:
        found = {"problem": str(error)}
    with os.fdopen(pipe, "wb") as file:
        file.write(json.dumps(found).encode())


if __name__ == "__main__":
    _tell(int(sys.argv[1]), sys.argv[2:])
