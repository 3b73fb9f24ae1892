"""What services log, caught."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from wakegate_schema import logs


@contextmanager
def captured_log(level: logs.Level = "debug") -> Iterator[io.StringIO]:
    """Catch every log line as JSON while the block runs."""
    root = logging.getLogger()
    handlers, before = list(root.handlers), root.level
    stream = io.StringIO()
    logs.configure("json", stream, level=level)
    try:
        yield stream
    finally:
        root.handlers[:] = handlers
        root.setLevel(before)
        structlog.reset_defaults()
