"""A harness's programs, each a process of its own in the harness's folder."""

import asyncio
import json
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path

from frameworks.support.harness import RunState
from support import warm
from support.processes import clean_environment

PATIENCE_S = 300.0
"""How long a program may take on a machine that has other things to do."""


class Programs:
    """What is run of one harness."""

    def __init__(self, framework: str, folder: Path) -> None:
        self.framework, self.folder = framework, folder

    async def begin(self, program: str, *arguments: str) -> Process:
        """Start a program; what it writes to standard error is kept in the file `log`."""
        with (self.folder / "log").open("ab") as log:
            return await warm.start(
                program, *arguments, env=clean_environment(), cwd=self.folder, stdout=PIPE, stderr=log,
                server=("frameworks.support.warm_server", self.framework),
            )  # fmt: skip

    async def run(self, *arguments: str) -> bytes:
        """Run a verb of the harness to its end and return what it wrote."""
        process = await self.begin("harness", *arguments)
        async with asyncio.timeout(PATIENCE_S):
            written, _ = await process.communicate()
        assert process.returncode == 0, (self.folder / "log").read_text()
        return written

    async def state(self) -> RunState:
        """What the harness has saved of its run."""
        found = json.loads(await self.run("state"))
        return RunState(found["ended"], tuple(found["waits"]), found["told"])


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.05)


async def end(process: Process) -> None:
    """Kill a program, if it still runs."""
    if process.returncode is None:
        process.send_signal(signal.SIGKILL)
    await process.communicate()
