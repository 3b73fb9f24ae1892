"""Reading a request's body: counted while it comes, within the request's time."""

import asyncio

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from aiohttp.web import RequestPayloadError

from wakegate_receiver.answers import Refused


async def read_body(content: StreamReader, max_bytes: int, deadline: float) -> bytes:
    """Return the whole body.

    Args:
        content: the request's stream.
        max_bytes: the largest body that is read.
        deadline: in the loop's time, when reading stops.

    Raises:
        Refused: `body_too_large` with the first byte too many, `request_timeout`, `disconnected`, or
            `malformed_http` when its chunks are not framed as HTTP has it.
    """
    try:
        if content.is_eof():
            return _bounded(content.read_nowait(), max_bytes)
        async with asyncio.timeout_at(deadline):
            return await _read(content, max_bytes)
    except TimeoutError:
        raise Refused("request_timeout") from None
    except (RequestPayloadError, HttpProcessingError):
        raise Refused("malformed_http") from None
    except (OSError, RuntimeError):  # aiohttp's stream raises RuntimeError once its connection is gone
        raise Refused("disconnected") from None


async def _read(content: StreamReader, max_bytes: int) -> bytes:
    body = b""
    while chunk := await content.readany():
        body = _bounded(body + chunk if body else chunk, max_bytes)
    return body


def _bounded(body: bytes, max_bytes: int) -> bytes:
    if len(body) > max_bytes:
        raise Refused("body_too_large")
    return body
