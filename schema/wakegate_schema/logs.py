"""Log lines: one line an event, bounded, escaped, for people or as JSON."""

import json
import logging
import math
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from wakegate_schema.errors import WakegateError

LINE_LIMIT = 4096
"""The longest log line, in bytes, its line ending included."""

Level = Literal["debug", "info", "warning", "error"]

_FIRST = ("timestamp", "level", "event", "program", "action")
_SQUEEZES = ((1024, 40), (256, 24), (64, 12), (16, 8))
"""Characters a value and fields a line, tried in this order until the line fits."""
_FRAMES = 12
_QUOTING_LOGGERS = ("aiohttp", "asyncio")
"""Libraries whose log messages quote what a peer sent or what an exception holds."""
_WHOLE_NUMBER_LIMIT = 2**63


def configure(
    log_format: Literal["console", "json"],
    stream: TextIO | None = None,
    *,
    level: Level = "info",
    program: str | None = None,
) -> None:
    """Send structlog's events and stdlib logging to one stream, one bounded line each, without an access log.

    Args:
        log_format: `console` for people, `json` for machines.
        stream: where to; stderr unless given.
        level: the least level that is written.
        program: what runs, such as `receiver`; on every line that names none itself.
    """
    least = logging.getLevelNamesMapping()[level.upper()]
    render = _json_line if log_format == "json" else _console_line
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _exception_fields,
            _Bounded(render, program),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=_LineWriters(stream or sys.stderr),
        cache_logger_on_first_use=False,
    )
    _route_stdlib(least)


def _route_stdlib(least: int) -> None:
    root = logging.getLogger()
    for handler in [found for found in root.handlers if isinstance(found, _Forward)]:
        root.removeHandler(handler)
    root.addHandler(_Forward())
    root.setLevel(least)
    access = logging.getLogger("aiohttp.access")
    access.disabled = True
    access.propagate = False


class _Forward(logging.Handler):
    """Hands a stdlib record to structlog."""

    def emit(self, record: logging.LogRecord) -> None:
        log: FilteringBoundLogger = structlog.get_logger()
        log.log(
            record.levelno if record.levelno in _LEVELS else _nearest_level(record.levelno),
            _message(record),
            action="library",
            logger=record.name,
            exc_info=record.exc_info,
        )


_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)


def _nearest_level(level: int) -> int:
    return max((known for known in _LEVELS if known <= level), default=logging.DEBUG)


def _message(record: logging.LogRecord) -> str:
    """Return what the record says; of libraries that quote their input only the template's first line."""
    if record.name.split(".")[0] in _QUOTING_LOGGERS:
        return (str(record.msg).splitlines() or [""])[0]
    try:
        return record.getMessage()
    except (TypeError, ValueError, KeyError):
        return str(record.msg)


def _exception_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Replace an exception by its type, its place and, where it is known to hold no input, its message."""
    info = event.pop("exc_info", None)
    error = sys.exception() if info is True else info[1] if isinstance(info, tuple) else info
    if isinstance(error, BaseException):
        event["exception"] = type(error).__name__
        message = _safe_message(error)
        if message:
            event["exception_message"] = message
        origin = error.__cause__ or error.__context__
        if origin is not None:
            event["exception_cause"] = type(origin).__name__
        event["traceback"] = " < ".join(_frames(error))
    return event


def _safe_message(error: BaseException) -> str | None:
    """Return the message of errors that never quote a body, an argument or a secret."""
    if isinstance(error, WakegateError | sqlite3.Error):
        return str(error)
    return error.strerror if isinstance(error, OSError) else None


def _frames(error: BaseException) -> Iterator[str]:
    """Yield the innermost frames, the place of the error first; names and lines only, no values."""
    for frame in reversed(traceback.extract_tb(error.__traceback__, limit=-_FRAMES)):
        yield f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}"


class _Bounded:
    """Renders an event within the line limit, cutting values, then leaving fields out."""

    def __init__(self, render: Callable[[EventDict], str], program: str | None) -> None:
        self._render = render
        self._program = program

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> str:
        if self._program is not None:
            event.setdefault("program", self._program)
        event.setdefault("action", "log")
        ordered = {key: event[key] for key in _FIRST if key in event} | dict(event)
        line = ""
        for characters, fields in _SQUEEZES:
            line = self._render(_squeezed(ordered, characters, fields))
            if (len(line) if line.isascii() else len(line.encode("utf-8", "backslashreplace"))) < LINE_LIMIT:
                break
        return line


def _squeezed(event: EventDict, characters: int, fields: int) -> EventDict:
    kept = islice(event.items(), fields)
    squeezed = {_cut(str(key), characters): _plain(value, characters) for key, value in kept}
    if len(event) > fields:
        squeezed["fields_left_out"] = len(event) - fields
    return squeezed


def _plain(value: object, characters: int) -> str | int | float | bool | None:
    """Return the value as JSON has it in one piece; bytes are only counted, because they may be a body."""
    if type(value) is str:  # nearly all of them
        return _cut(value, characters)
    if value is None or isinstance(value, bool) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, int) and -_WHOLE_NUMBER_LIMIT < value < _WHOLE_NUMBER_LIMIT:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    try:
        text = json.dumps(value, default=str) if isinstance(value, list | tuple | dict) else str(value)
    except (TypeError, ValueError, RecursionError):
        text = f"a {type(value).__name__} that has no text"
    return _cut(text, characters)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"


def _json_line(event: EventDict) -> str:
    """Return one JSON object in ASCII: whatever is in a value, it cannot end the line."""
    return json.dumps(event, allow_nan=False)


def _console_line(event: EventDict) -> str:
    fields = dict(event)
    if str(fields.get("action")).replace("_", " ") == fields.get("event"):
        del fields["action"]
    head = [str(fields.pop("timestamp", "")), f"{fields.pop('level', ''):<8}", str(fields.pop("event", ""))]
    return " ".join([*map(_escaped, head), *(f"{_escaped(key)}={_quoted(value)}" for key, value in fields.items())])


def _quoted(value: object) -> str:
    text = str(value)
    return f'"{_escaped(text.replace(chr(34), chr(39)))}"' if _needs_quotes(text) else _escaped(text)


def _needs_quotes(text: str) -> bool:
    return not text or any(map(text.__contains__, " ='\""))


def _escaped(text: str) -> str:
    """Return the text with every character that is not printable written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


class _LineWriters:
    """Makes the writer of a stream: structlog asks for one for every logger."""

    def __init__(self, stream: TextIO) -> None:
        self._writer = _LineWriter(stream)

    def __call__(self, *_names: Any) -> "_LineWriter":
        return self._writer


class _LineWriter:
    """Writes whole lines; a line that cannot be written is counted and never stops the work it tells of."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0

    def msg(self, line: str) -> None:
        try:
            self._stream.write(line + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self.lost += 1

    debug = info = warning = error = critical = fatal = log = exception = msg
