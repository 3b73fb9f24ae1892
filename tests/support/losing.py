"""A line on which answers are lost: a relay on a Unix socket that passes every request on, and not every answer."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

How = Literal["drop", "cut", "garble", "stall"]
"""What becomes of an answer: nothing of it comes, a part of it, something else, or nothing and the line stays open."""

GARBLED = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{"kept": 1}'


@dataclass
class Line:
    """The relay. What is asked for goes through in every case: only answers are lost."""

    socket: Path
    target: Path
    _losses: list[tuple[str, How]] = field(default_factory=list)
    delay: dict[str, float] = field(default_factory=dict)
    """Seconds for which answers to paths that end so are held back."""
    altered: dict[str, tuple[bytes, bytes]] = field(default_factory=dict)
    """What stands for what else, of the same length, in answers to paths that end so."""
    lost: list[str] = field(default_factory=list)
    """The paths whose answers were lost."""
    asked: list[str] = field(default_factory=list)
    """Every path that was asked for."""

    def lose(self, path: str, how: How = "drop", times: int = 1) -> None:
        """Lose the next answers to requests whose path ends so."""
        self._losses += [(path, how)] * times

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one request, and its answer or not."""
        try:
            await self._carry(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            return  # whoever asked has gone
        finally:
            await _close(writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode().partition("?")[0]
        self.asked.append(path)
        lines = head.decode("latin-1").lower().split("\r\n")
        length = next((int(line.split(":")[1]) for line in lines if line.startswith("content-length:")), 0)
        answer = await self._answer(head + await reader.readexactly(length))
        for end in self.altered:
            answer = answer.replace(*self.altered[end]) if path.endswith(end) else answer
        await asyncio.sleep(next((self.delay[end] for end in self.delay if path.endswith(end)), 0))
        await self._send(writer, answer, self._loss(path))

    async def _answer(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(str(self.target))
        try:
            writer.write(request)
            return await reader.read()
        finally:
            await _close(writer)

    def _loss(self, path: str) -> How | None:
        for index, (end, how) in enumerate(self._losses):
            if path.endswith(end):
                del self._losses[index]
                self.lost.append(path)
                return how
        return None

    async def _send(self, writer: asyncio.StreamWriter, answer: bytes, how: How | None) -> None:
        if how == "stall":
            await asyncio.sleep(60)
        if how in (None, "cut", "garble"):
            writer.write({None: answer, "cut": answer[: len(answer) - 20], "garble": GARBLED}[how])
            await writer.drain()


@asynccontextmanager
async def losing(target: Path) -> AsyncIterator[Line]:
    """Relay to a control socket."""
    folder = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))
    line = Line(folder / "l.sock", target)
    carried: set[asyncio.Task[None]] = set()

    def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(line.carry(reader, writer))
        carried.add(task)
        task.add_done_callback(carried.discard)

    server = await asyncio.start_unix_server(carry, str(line.socket))
    try:
        yield line
    finally:
        server.close()
        for task in carried:
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)
        shutil.rmtree(folder)


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
