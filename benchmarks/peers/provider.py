"""A provider as fast as Python has one: answers made beforehand, over real HTTP, in a process of its own.

`python -m benchmarks.peers.provider PORT FILE`, where the file is a JSON object of request ids and bodies. It answers
`GET /v1/requests/ID` and, with how often it did so, `GET /served`.
"""

import asyncio
import json
import sys
from email.utils import formatdate
from pathlib import Path
from typing import Final, cast

import uvloop

_ASKED: Final = b"GET /v1/requests/"
_SERVED: Final = b"GET /served"
_HEAD: Final = (
    b"HTTP/1.1 %s\r\nContent-Type: application/json; charset=utf-8\r\nDate: %s\r\nContent-Length: %d\r\n\r\n%s"
)
_ID: Final = 36


class Provider:
    """The answers, and how many were given."""

    def __init__(self, bodies: dict[bytes, bytes]) -> None:
        self.served = 0
        self._bodies = bodies
        self._date = b""

    def answer(self, head: bytes) -> bytes:
        """The whole answer to a request's head."""
        if head.startswith(_ASKED):
            body = self._bodies.get(head[len(_ASKED) : len(_ASKED) + _ID])
            if body is not None:
                self.served += 1
                return _HEAD % (b"200 OK", self._date, len(body), body)
        if head.startswith(_SERVED):
            count = b"%d" % self.served
            return _HEAD % (b"200 OK", self._date, len(count), count)
        return _HEAD % (b"404 Not Found", self._date, 2, b"{}")

    def tick(self) -> None:
        """Keep the date of the answers right to the second."""
        self._date = formatdate(usegmt=True).encode()
        asyncio.get_running_loop().call_later(0.2, self.tick)


class Connection(asyncio.Protocol):
    """One client's; requests without bodies, one after the other."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where to write."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        """Answer every whole head."""
        *heads, self._held = (self._held + data).split(b"\r\n\r\n")
        for head in heads:
            self._transport.write(self._provider.answer(head))


async def serve(port: int, file: Path) -> None:
    """Serve until the process is ended."""
    bodies = json.loads(file.read_text(encoding="utf-8"))
    provider = Provider({name.encode(): body.encode() for name, body in bodies.items()})
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(provider), "127.0.0.1", port, backlog=1024)
    provider.tick()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
