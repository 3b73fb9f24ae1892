"""The stream of resolutions over the control API: server-sent events, read strictly."""

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Final

from aiohttp import StreamReader
from aiohttp.http_exceptions import LineTooLong

from wakegate_adapter.control_answers import ResolutionAnswer, read
from wakegate_adapter.control_errors import not_understood
from wakegate_adapter.errors import ControlUnavailable
from wakegate_schema import strict_json
from wakegate_schema.calls.stream import place
from wakegate_schema.errors import WakegateError
from wakegate_schema.resolution import Resolution

READY: Final = "ready"
RESOLUTION: Final = "resolution"
_EVENT_LIMIT: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Event:
    """One event, as the stream has it (WHATWG HTML, server-sent events)."""

    kind: str
    cursor: str
    data: str = field(repr=False)

    def resolution(self) -> Resolution:
        """Return what it tells of. Raises `ControlUnavailable`."""
        try:
            strict_json.parse(self.data.encode(), max_bytes=_EVENT_LIMIT)
        except (strict_json.MalformedJson, UnicodeEncodeError):
            raise not_understood("an event whose data is not JSON") from None
        value = json.loads(self.data)
        if not isinstance(value, dict):
            raise not_understood("an event whose data is no object")
        return read(ResolutionAnswer, value).resolution()


async def events(content: StreamReader) -> AsyncGenerator[Event, None]:
    """Yield the events of a stream until it ends; comments are signs of life and pass by.

    Raises:
        ControlUnavailable: it is no such stream, or it has ended.
    """
    fields: dict[str, str] = {}
    size = 0
    async for line in _lines(content):
        size = size + len(line) if line else 0
        if size > _EVENT_LIMIT:
            raise not_understood("an event that is too long")
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name:
                fields[name] = f"{fields[name]}\n{value}" if name == "data" and "data" in fields else value
        elif "data" in fields:
            yield _event(fields)
            fields = {}
        else:
            fields = {}
    raise ControlUnavailable("the stream has ended; resume it", reason="control_lost")


async def _lines(content: StreamReader) -> AsyncGenerator[str, None]:
    while line := await _line(content):
        if not line.endswith(b"\n"):
            return  # broken off in the middle
        try:
            yield line.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError:
            raise not_understood("an event that is not UTF-8") from None


async def _line(content: StreamReader) -> bytes:
    try:
        return await content.readline()
    except LineTooLong:
        raise not_understood("an event that is too long") from None


def _event(fields: dict[str, str]) -> Event:
    event = Event(fields.get("event", "message"), fields.get("id", ""), fields["data"])
    try:
        place(event.cursor)
    except WakegateError:
        raise not_understood("an event without a cursor") from None
    return event
