"""The nursery from the test's side: starts programs, and knows how they ended."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.processes import clean_environment
from wakegate_schema.clock import TEST_CLOCK

TESTS = Path(__file__).parents[1]


@dataclass
class Process:
    """One program that was started."""

    pid: int
    ended: "asyncio.Future[int]"
    """Its exit status, the negative signal's number if it was killed."""


@dataclass
class Nursery:
    """Starts programs."""

    _server: asyncio.subprocess.Process
    _asked: "list[asyncio.Future[Process]]" = field(default_factory=list)
    _living: dict[int, Process] = field(default_factory=dict)

    async def start(self, folder: Path, program: str, *arguments: str, **environment: str) -> Process:
        """Start a program in a folder."""
        order: dict[str, Any] = {
            "folder": str(folder),
            "program": program,
            "arguments": arguments,
            "environment": environment,
        }
        begun: asyncio.Future[Process] = asyncio.get_running_loop().create_future()
        self._asked.append(begun)
        self._order(order)
        return await begun

    def kill(self, process: Process, by: signal.Signals = signal.SIGKILL) -> None:
        """Kill a program, or send it another signal, unless it has ended."""
        self._order({"kill": process.pid, "by": by})

    def _order(self, order: dict[str, Any]) -> None:
        if self._server.stdin is None:
            raise LookupError("the nursery has no input")
        self._server.stdin.write(json.dumps(order).encode() + b"\n")

    async def listen(self) -> None:
        """Take what the nursery tells, until it ends."""
        if self._server.stdout is None:
            raise LookupError("the nursery has no output")
        async for line in self._server.stdout:
            told = json.loads(line)
            if "status" in told:
                self._living.pop(told["pid"]).ended.set_result(told["status"])
            else:
                process = Process(told["pid"], asyncio.get_running_loop().create_future())
                self._living[process.pid] = process
                self._asked.pop(0).set_result(process)


@asynccontextmanager
async def nursery() -> AsyncIterator[Nursery]:
    """Run a nursery; what it started ends with it. Its children's clocks are set apart by `clock` in their folders."""
    kept = clean_environment()
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "faults.nursery",
        env=kept | {"PYTHONPATH": str(TESTS), TEST_CLOCK: "clock"},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    found = Nursery(server)
    listening = asyncio.create_task(found.listen())
    try:
        yield found
    finally:
        if server.stdin is not None:
            server.stdin.close()
        await server.wait()
        await listening
