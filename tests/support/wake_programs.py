"""Programs that wakes run in tests, and processes that are looked for outside of everything."""

import asyncio
import contextlib
import sys
import time
from pathlib import Path

from wakegate_schema.wake_targets import WakeTarget

SHELL = "/bin/sh"


def command(*argv: str, timeout: float = 60.0, directory: Path | None = None) -> WakeTarget:
    """A target that runs a program."""
    return WakeTarget("mine", "command", argv=argv, timeout=timeout, directory=directory)


def shell(script: str, *arguments: Path | str, timeout: float = 60.0) -> WakeTarget:
    """A target that runs a line of shell, with `$1`, `$2` …"""
    return command(SHELL, "-c", script, "wake", *map(str, arguments), timeout=timeout)


def program(folder: Path, text: str, *arguments: str, timeout: float = 60.0) -> WakeTarget:
    """A target that runs a Python program of its own, which nothing of wakegate starts."""
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    return command(sys.executable, "-I", "-S", str(path), *arguments, timeout=timeout)


def entry(folder: Path, text: str, function: str = "woken", timeout: float = 60.0) -> WakeTarget:
    """A target that calls a function of the module `agent` in the folder."""
    (folder / "agent.py").write_text(text, encoding="utf-8")
    return WakeTarget("mine", "python", entry_point=f"agent:{function}", directory=folder, timeout=timeout)


def is_running(pid: int) -> bool:
    """Whether there is such a process, and it is more than what waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def parent(pid: int) -> int:
    """The parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])


def children(pid: int) -> list[int]:
    """The children of a process."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if parent(int(folder.name)) == pid:
                found.append(int(folder.name))
    return found


async def written(path: Path, seconds: float = 60.0) -> str:
    """Wait until a file has a whole line, and return what is in it."""
    async with asyncio.timeout(seconds):
        while not path.exists() or not path.read_text().endswith("\n"):
            await asyncio.sleep(0.01)
    return path.read_text()


async def gone(pid: int, seconds: float = 30.0) -> bool:
    """Wait for a process to be gone; return whether it is."""
    until = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < until:
        await asyncio.sleep(0.01)
    return not is_running(pid)


def open_descriptors() -> set[str]:
    """What this process has open."""
    return {path.name for path in Path("/proc/self/fd").iterdir()}
