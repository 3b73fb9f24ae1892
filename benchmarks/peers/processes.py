"""A peer's process: started, waited for, and ended with the block."""

import asyncio
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from benchmarks import ROOT
from benchmarks.figures import Failed
from benchmarks.scale.grounds import Service
from support.ports import free_port
from support.processes import clean_environment

_PATIENCE_S = 30.0


@asynccontextmanager
async def serving(
    *command: str, port: int | None = None, environment: Mapping[str, str] = MappingProxyType({})
) -> AsyncIterator[Service]:
    """Run `python COMMAND…`, in which `{port}` stands for a free port, until the block ends.

    Args:
        command: the arguments of Python.
        port: the one it will listen on; a free one unless given.
        environment: beside this process's own.

    Raises:
        Failed: it ended, or does not listen within half a minute.
    """
    port = port or free_port()
    with tempfile.TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, *(each.format(port=port) for each in command), cwd=ROOT, stdout=log, stderr=log,
            env=clean_environment() | {"PYTHONPATH": str(ROOT)} | dict(environment),
        )  # fmt: skip
        try:
            fault = await _listening(process, port)
            if fault is not None:
                log.seek(0)
                raise Failed(f"{fault}: {' '.join(command)}\n{log.read().decode(errors='replace')[-2000:]}")
            yield Service(process, port)
        finally:
            await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    """End a process by SIGTERM, and by SIGKILL when that does not."""
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(_PATIENCE_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


async def _listening(process: asyncio.subprocess.Process, port: int) -> str | None:
    """Wait until it does; return what is wrong otherwise."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except ConnectionRefusedError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    return None
    except TimeoutError:
        return "it does not listen"
    return "it ended at once"
