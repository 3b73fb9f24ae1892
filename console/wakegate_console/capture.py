"""A captured delivery: read from files as the receiver would read it from its socket."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser, HttpVersion11
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader
from aiohttp.web import RequestPayloadError
from multidict import CIMultiDict, CIMultiDictProxy

from wakegate_receiver.protocol import MAX_FIELD, MAX_HEADERS, MAX_LINE
from wakegate_receiver.screening import declared_length
from wakegate_schema.errors import WakegateError

MAX_BYTES: Final = 16_777_216
"""The largest file that is read."""


class MalformedCapture(WakegateError):
    """The capture cannot be read."""

    reason = "malformed_capture"


@dataclass(frozen=True, slots=True)
class Capture:
    """One delivery, its body still to be read."""

    method: str
    target: str
    """The request target; empty where only headers were captured."""
    version: tuple[int, int]
    raw: Sequence[tuple[bytes, bytes]] = field(repr=False)
    """Every header as received."""
    headers: CIMultiDictProxy[str] = field(repr=False)
    content: StreamReader = field(repr=False)
    surplus: int = 0
    """Bytes that came after the end of the body as its length declares it; fewer than none where some are missing."""

    @property
    def whole(self) -> bool:
        """Whether the request line was captured too."""
        return bool(self.target)


def from_parts(lines: Iterable[str], body: bytes) -> Capture:
    """Return a capture of a body and some headers, each `name: value`. Needs a running loop.

    Raises:
        MalformedCapture: a line is no header.
    """
    raw = [_header(line) for line in lines]
    content = StreamReader(BaseProtocol(asyncio.get_running_loop()), 2 * MAX_BYTES)
    content.feed_data(body)
    content.feed_eof()
    return Capture("POST", "", HttpVersion11, raw, _multi(raw), content)


def from_request(data: bytes) -> Capture | None:
    """Return a capture of a whole request, or None where its head is not HTTP as the receiver takes it.

    aiohttp's parser reads it with the receiver's bounds. Lines of the head may end as an editor leaves them, in a
    line feed alone. Needs a running loop.
    """
    loop = asyncio.get_running_loop()
    parser = HttpRequestParser(
        BaseProtocol(loop),
        loop,
        2 * MAX_BYTES,
        max_line_size=MAX_LINE,
        max_field_size=MAX_FIELD,
        max_headers=MAX_HEADERS,
        payload_exception=RequestPayloadError,
        auto_decompress=False,
    )
    try:
        requests, _, _ = parser.feed_data(_as_sent(data))
    except HttpProcessingError:
        return None
    if not requests:
        return None
    message, content = requests[0]
    length = declared_length(message.headers)
    surplus = 0 if length is None else len(_HEAD_END.split(data, maxsplit=1)[-1]) - length
    return Capture(
        message.method, message.path, message.version, message.raw_headers, message.headers, content, surplus
    )


def header_lines(data: bytes) -> list[str]:
    """Return the lines of a block of headers, up to its first empty line."""
    block = _HEAD_END.split(data.lstrip(b"\r\n"), maxsplit=1)[0]
    return [line.decode("latin-1") for line in re.split(rb"\r?\n", block.rstrip(b"\r\n")) if line]


def _as_sent(data: bytes) -> bytes:
    """Return the request with the line endings of HTTP in its head, and its body untouched."""
    found = _HEAD_END.search(data)
    if found is None:
        return data
    head = re.sub(rb"\r?\n", b"\r\n", data[: found.start()])
    return head + b"\r\n\r\n" + data[found.end() :]


def _header(line: str) -> tuple[bytes, bytes]:
    name, colon, value = line.partition(":")
    if not colon or _NAME.fullmatch(name.strip()) is None:
        raise MalformedCapture("a header is not `name: value`; give a whole request with --request")
    return name.strip().encode("latin-1"), value.strip(" \t").encode("utf-8" if not _latin(value) else "latin-1")


def _latin(text: str) -> bool:
    return all(ord(character) < 256 for character in text)


def _multi(raw: Sequence[tuple[bytes, bytes]]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(
        CIMultiDict((name.decode("ascii"), value.decode("utf-8", "surrogateescape")) for name, value in raw)
    )


_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
