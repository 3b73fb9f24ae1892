"""`python flood.py KIND HOST PORT COUNT`: a crowd of clients that mean no good, in a process of its own.

Each does one thing over and over, until the process is killed: what is cut comes back at once. The bytes of one
request are read from standard input first, up to its end. A line is written once all clients have connected once.
"""

import asyncio
import resource
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop

HOLD_S = 30.0
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Deed = Callable[[Stream, bytes], Awaitable[None]]


async def nothing(stream: Stream, data: bytes) -> None:
    """Say nothing; with TLS in front of it, not even hello."""
    await stream[0].read()


async def half_headers(stream: Stream, data: bytes) -> None:
    """Send headers that do not come to an end."""
    await _trickle(stream, data[: data.index(b"\r\n\r\n") - 20])


async def half_a_body(stream: Stream, data: bytes) -> None:
    """Send a body that does not come to an end."""
    await _trickle(stream, data[:-20])


async def over_and_over(stream: Stream, data: bytes) -> None:
    """Send the whole request again and again on one connection."""
    reader, writer = stream
    while True:
        writer.write(data)
        head = await reader.readuntil(b"\r\n\r\n")
        length = next((line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), b":0")
        await reader.readexactly(int(length.partition(b":")[2]))


async def once(stream: Stream, data: bytes) -> None:
    """Send the whole request once on each connection."""
    stream[1].write(data)
    await stream[0].readuntil(b"\r\n\r\n")


async def knock(stream: Stream, data: bytes) -> None:
    """Send the whole request, and leave without an answer."""
    stream[1].write(data)
    await stream[1].drain()


async def _trickle(stream: Stream, data: bytes) -> None:
    stream[1].write(data[:-10])
    for byte in data[-10:]:
        await asyncio.sleep(HOLD_S / 10)
        stream[1].write(bytes([byte]))
    await stream[0].read()


KINDS: dict[str, tuple[Deed, ...]] = {
    "silent": (nothing, half_headers, half_a_body),
    "mute": (nothing,),
    "junk": (over_and_over,),
    "churn": (once,),
    "knocks": (knock,),
}


async def main(kind: str, host: str, port: str, count: str) -> None:
    """Let the crowd loose."""
    data = sys.stdin.buffer.read()
    connected = asyncio.Semaphore(0)

    async def client(number: int) -> None:
        deed, first = KINDS[kind][number % len(KINDS[kind])], True
        while True:
            with suppress(OSError, EOFError, RuntimeError):  # uvloop's word for a connection that was cut
                stream = await asyncio.open_connection(host, int(port))
                if first:
                    connected.release()
                    first = False
                try:
                    await deed(stream, data)
                finally:
                    stream[1].transport.abort()
            if kind not in ("churn", "knocks"):
                await asyncio.sleep(0.05)

    clients = [asyncio.create_task(client(number)) for number in range(int(count))]
    for _ in clients:
        await connected.acquire()
    print("all there", flush=True)  # noqa: T201
    await asyncio.gather(*clients)


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(main(*sys.argv[1:]))
