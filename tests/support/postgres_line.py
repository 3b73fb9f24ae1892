"""A line to a PostgreSQL server that breaks where a test says: a relay on loopback, with TLS if it is given a key."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from support.ports import free_port
from support.servers.postgresql import USER, PostgresServer

Moment = Literal["before", "after"]
"""Whether the line breaks before the server gets what was sent, or before its answer comes back."""

_ASKS_FOR_TLS = 80877103


@dataclass
class Line:
    """The relay. It carries everything until it is told to break."""

    target: Path
    """The server's socket."""
    tls: ssl.SSLContext | None = None
    port: int = field(default_factory=free_port)
    connections: int = 0
    """How many were made so far."""
    broken: list[bytes] = field(default_factory=list)
    """What was being sent when the line broke."""
    silent: bool = False
    """Whether nothing comes through any more, though the connections stay."""
    _breaks: tuple[int, Moment] | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def url(self, database: str) -> str:
        """The URL of a database at the other end; no TLS is spoken unless more is said."""
        return f"postgresql://{USER}@127.0.0.1:{self.port}/{database}"

    def break_at(self, message: int, moment: Moment) -> None:
        """Cut the connection at the message with this number from now on, counted from 0."""
        self._breaks = (message, moment)

    def cut(self) -> None:
        """Cut every connection that there is."""
        for writer in self._writers:
            writer.transport.abort()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection."""
        self.connections += 1
        self._writers.add(writer)
        server_reader, server_writer = await asyncio.open_unix_connection(str(self.target))
        try:
            begun = await self._begin(reader, writer)
            server_writer.write(begun)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._to_server(reader, server_writer, writer))
                both.create_task(self._to_client(server_reader, writer))
        except* (ConnectionError, asyncio.IncompleteReadError, _Ended):
            pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()
            server_writer.close()
            with suppress(ConnectionError):
                await server_writer.wait_closed()

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Return the first message; a request for TLS is answered here."""
        first = await reader.readexactly(8)
        if int.from_bytes(first[4:]) != _ASKS_FOR_TLS:
            return first
        writer.write(b"S" if self.tls else b"N")
        await writer.drain()
        if self.tls:
            await writer.start_tls(self.tls)
        return await reader.readexactly(8)

    async def _to_server(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, client: asyncio.StreamWriter
    ) -> None:
        while sent := await reader.read(1 << 20):
            while self.silent:
                await asyncio.sleep(0.05)
            moment = self._moment()
            if moment is not None:
                self.broken.append(sent)
            if moment != "before":
                server.write(sent)
                await server.drain()
            if moment == "after":
                self._writers.discard(client)
                await asyncio.sleep(0.1)  # time for the server to do it; its answer is not passed on
            if moment is not None:
                client.transport.abort()
                raise _Ended
        raise _Ended

    async def _to_client(self, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while answer := await server.read(1 << 20):
            while self.silent:
                await asyncio.sleep(0.05)
            if client in self._writers:
                client.write(answer)
                await client.drain()
        raise _Ended

    def _moment(self) -> Moment | None:
        if self._breaks is None:
            return None
        left, moment = self._breaks
        self._breaks = (left - 1, moment) if left else None
        return None if left else moment


class _Ended(Exception):
    """One side has closed."""


@asynccontextmanager
async def line(server: PostgresServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Line]:
    """Relay to a server."""
    relay = Line(server.folder / f".s.PGSQL.{server.port}", tls)
    carried: set[asyncio.Task[None]] = set()

    def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(relay.carry(reader, writer))
        carried.add(task)
        task.add_done_callback(carried.discard)

    listening = await asyncio.start_server(carry, "127.0.0.1", relay.port)
    try:
        yield relay
    finally:
        listening.close()
        relay.silent = False
        for task in carried:
            task.cancel()
        await asyncio.gather(*carried, return_exceptions=True)
