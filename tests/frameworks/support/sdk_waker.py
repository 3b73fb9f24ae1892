"""The SDK's `Receiver` as a waker: one process, which keeps nothing."""

import asyncio
import json
from asyncio.subprocess import Process

from frameworks.support.programs import PATIENCE_S, Programs, end, until
from frameworks.support.sdk_receiver import ACKNOWLEDGED, SAVED, WAKES
from frameworks.support.waker import At, Instance
from support.ports import lasting_port


class SdkReceiver:
    """A waker whose wakes are lost when it dies."""

    NAME = "SDK `Receiver`"

    def __init__(self, programs: Programs, provider: At) -> None:
        self._programs, self._provider = programs, provider
        self._port = lasting_port()
        self._process: Process | None = None
        self._instance: Instance | None = None

    async def begin(self) -> Instance:
        """Serve; the first time, provision."""
        for name in (ACKNOWLEDGED, WAKES):
            (self._programs.folder / name).unlink(missing_ok=True)
        self._process = await self._programs.begin(
            "sdk_receiver", str(self._port), self._provider.url, str(self._provider.token_file)
        )
        assert self._process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            line = await self._process.stdout.readline()
        assert line == b"listening\n", (self._programs.folder / "log").read_text()
        saved = json.loads((self._programs.folder / SAVED).read_text())
        self._instance = Instance(saved["instance_id"], saved["token"])
        return self._instance

    async def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            await end(self._process)

    async def fell(self) -> None:
        """Start it anew: it was killed with what it had resumed."""
        assert self._process is not None
        async with asyncio.timeout(PATIENCE_S):
            await self._process.wait()
        await self.begin()

    async def woken(self, request_id: str) -> None:
        """Wait until a wake for this request is over."""
        await until(lambda: request_id in self._lines(WAKES))

    async def idle(self) -> bool:
        """Whether it has no wake in its memory and none is on its way: nothing else ever comes of one."""
        assert self._instance is not None
        delivered = self._provider.delivered(self._instance.instance_id)
        return delivered and len(self._lines(ACKNOWLEDGED)) == len(self._lines(WAKES))

    def _lines(self, name: str) -> list[str]:
        file = self._programs.folder / name
        return file.read_text().split() if file.exists() else []
