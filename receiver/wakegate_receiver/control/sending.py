"""Sending an answer, or a part of one, in the time that a client has for reading it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

SEND_S: Final = 10.0
"""The longest that a client may not read what it is sent, in seconds."""


async def send_all(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Send all of an answer. Raises ConnectionError for a client that does not read it. Repeats are no-ops."""
    async with _reading():
        await response.prepare(request)
        await response.write_eof()


async def send_part(response: web.StreamResponse, data: bytes) -> None:
    """Send part of an answer. Raises ConnectionError for a client that does not read it."""
    async with _reading():
        await response.write(data)


@asynccontextmanager
async def _reading() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(SEND_S):
            yield
    except TimeoutError:
        raise ConnectionAbortedError("the client does not read") from None
