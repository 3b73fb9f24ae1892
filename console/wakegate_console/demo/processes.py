"""The demo's processes: each started by us, known by its own id, and ended by us whatever happens."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from wakegate_console import child
from wakegate_schema.errors import WakegateError

STOP_S = 5.0
"""How long a process may take to end when it is told to."""


class ProcessFailed(WakegateError):
    """A process of the demo has failed."""

    reason = "process_failed"


class Processes:
    """What runs in one directory, with one log file each."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        """Take where they run and log, and what is added to their environment."""
        self._directory = directory
        self._environment = clean_environment() | dict(environment)
        self._running: dict[str, asyncio.subprocess.Process] = {}

    async def start(self, name: str, *arguments: str) -> int:
        """Start `wakegate …` and return its process id."""
        command = child.command(*arguments)
        with self._log(name).open("ab") as log:
            self._running[name] = await asyncio.create_subprocess_exec(
                *command, cwd=self._directory, env=self._environment, process_group=0, stdout=log, stderr=log
            )
        return self._running[name].pid

    def check(self) -> None:
        """Raise `ProcessFailed` when one that should run has ended."""
        for name, process in self._running.items():
            if process.returncode is not None:
                raise ProcessFailed(f"the {name} has ended by itself: {self._last_words(name)}")

    async def kill(self, name: str) -> None:
        """End a process with SIGKILL: it gets no chance to do anything more."""
        process = self._running.pop(name)
        process.kill()
        await process.wait()

    async def run_module(self, name: str, module: str, *arguments: str) -> str:
        """Run a module to its end and return what it wrote."""
        return await self._finish(name, [sys.executable, "-m", module, *arguments])

    async def stop(self) -> None:
        """Tell everything to end, and end what does not."""
        for process in self._running.values():
            if process.returncode is None:
                process.terminate()
        for process in self._running.values():
            try:
                await asyncio.wait_for(process.wait(), STOP_S)
            except TimeoutError:
                process.kill()
                await process.wait()

    def stopped_well(self) -> list[str]:
        """Return the names of those that did not end with exit code 0 when they were told to."""
        return [name for name, process in self._running.items() if process.returncode != 0]

    async def _finish(self, name: str, command: Sequence[str]) -> str:
        with self._log(name).open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self._directory,
                env=self._environment,
                process_group=0,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
            )
        try:
            out, _ = await process.communicate()
        except asyncio.CancelledError:
            if process.returncode is None:
                process.kill()
            await process.wait()
            raise
        if process.returncode != 0:
            raise ProcessFailed(f"{name} failed with exit code {process.returncode}: {self._last_words(name)}")
        return out.decode()

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text(errors="backslashreplace").splitlines()
        return lines[-1] if lines else "it said nothing"


def clean_environment() -> dict[str, str]:
    """Return this process's environment without any setting of another wakegate."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WAKEGATE_")}
