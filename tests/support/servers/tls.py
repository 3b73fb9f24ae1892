"""TLS in front of a server that listens on a Unix socket: the Valkey and the PostgreSQL of the wheels have none."""

import asyncio
import ssl
import threading
from pathlib import Path
from typing import Self


class TlsFront:
    """Ends TLS on loopback and passes what comes on to a Unix socket; a context manager.

    `rediss://127.0.0.1:PORT/0` is the URL of a Redis behind it, and the chain what its clients trust.

    Args:
        socket: the server's.
        chain: of the front's certificate (`support.certificates`).
        key: the certificate's.
        clients: a chain that signed its clients' certificates; nothing lets clients in without one.
    """

    def __init__(self, socket: Path, chain: Path, key: Path, *, clients: Path | None = None) -> None:
        self.port = 0
        self._socket = socket
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients)
        self._context.load_cert_chain(chain, key)
        if clients is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0, ssl=self._context)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for each in others:
            each.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_unix_connection(str(self._socket))
        except OSError:
            writer.transport.abort()
            return
        ways = [asyncio.create_task(_pump(reader, back)), asyncio.create_task(_pump(there, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            writer.transport.abort()
            back.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        return  # the other end is gone
