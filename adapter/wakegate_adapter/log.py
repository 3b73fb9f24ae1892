"""The adapter's log lines, given to the standard library's logging: a harness's stdout is its own."""

import logging

import structlog
from structlog.typing import EventDict, WrappedLogger

NAME = "wakegate_adapter"
"""The logger to configure; without that, warnings go to stderr and the rest nowhere."""


def _sentence(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """Return one printable line that reads well where no logging is configured: what is said, then its fields."""
    said = event.pop("event", "")
    fields = ", ".join(f"{name}={value}" for name, value in event.items() if value is not None)
    line = f"wakegate: {said} ({fields})" if fields else f"wakegate: {said}"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in line)


log: structlog.stdlib.BoundLogger = structlog.wrap_logger(
    logging.getLogger(NAME),
    processors=[structlog.stdlib.filter_by_level, _sentence],
    wrapper_class=structlog.stdlib.BoundLogger,
)
