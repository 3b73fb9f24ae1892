"""Resumers: whether the worker could import what `WAKEGATE_RESUMERS` names, found out as it would find out.

Each is imported in a process of its own that has what a resumer has, as the worker's user where root asks: importing
runs code of the harness, and a framework takes seconds.
"""

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from wakegate_console.doctor import access
from wakegate_console.doctor.probing import as_user
from wakegate_console.text import printable
from wakegate_worker import wake_entry, wake_programs

LIMIT_S: Final = 60.0
"""How long one import may take, in seconds: a framework on a cold disk takes some."""
SDK: Final = "agentapprovalprotocol"
_FOUND: Final = "found"
"""What the child says when nothing is wrong; its exit code says nothing, because a module may end the process."""
_LONGEST: Final = 500
"""Characters of a problem that are told, at most."""


async def probe(
    resumers: Mapping[str, str], directory: Path | None, user: int | None = None, limit_s: float = LIMIT_S
) -> Mapping[str, str]:
    """Return what is wrong with each resumer, by its framework; those that can be imported are not in it.

    Args:
        resumers: `module:function` by framework.
        directory: where they run, and are looked for first; None for `/`.
        user: as whom; None for this process's user. Only root can be another one.
        limit_s: seconds.
    """
    folder = _absolute(directory)
    found = await asyncio.gather(*(_probed(each, folder, user, limit_s) for each in resumers.values()))
    return {name: said for name, said in zip(resumers, found, strict=True) if said is not None}


async def _probed(entry_point: str, folder: str, user: int | None, limit_s: float) -> str | None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-B", "-P", "-m", __spec__.name, str(writing), entry_point, folder,
                pass_fds=(writing,), stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL, start_new_session=True, cwd=folder or "/",
                env={**wake_programs.environment(""), "HOME": access.home(user)}, **as_user(user),
            )  # fmt: skip
        except OSError as error:
            return f"no process could be started to import it: {error.strerror}"
        finally:
            os.close(writing)
        try:
            async with asyncio.timeout(limit_s):
                code = await process.wait()
        except TimeoutError:
            return f"importing it took longer than {limit_s:g} s"
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        os.set_blocking(pipe.fileno(), False)
        said = (pipe.read(_LONGEST) or b"").decode("utf-8", "replace").strip()
    if said == _FOUND:
        return None
    return printable(said) or f"importing it ended the process (exit code {code})"


def _absolute(directory: Path | None) -> str:
    return "" if directory is None else str(directory.absolute())


def _look(pipe: int, entry_point: str, directory: str) -> None:
    """In the child: import what is named; tell what was raised and where, as a resumer's process does."""
    if directory:
        sys.path.insert(0, directory)
    try:
        importlib.import_module(SDK)
        wake_entry.find(entry_point)
    except BaseException as error:  # noqa: BLE001 (a module may raise anything, SystemExit too)
        os.dup2(pipe, 2)
        wake_entry.tell(error, wake_entry.NOT_FOUND)
    else:
        os.write(pipe, _FOUND.encode())


if __name__ == "__main__":
    _look(int(sys.argv[1]), *sys.argv[2:])
    os._exit(0)  # a thread that was left behind keeps nobody waiting
