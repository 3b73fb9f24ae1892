"""Loggers: of code that may run in somebody else's process, whose standard output and logging are its own."""

import logging
from typing import Any, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger


def logger(name: str) -> FilteringBoundLogger:
    """Return a logger that looks, at every line, where lines go in this process.

    Where structlog is configured, by a service of ours or by the program itself, they go there; elsewhere to the
    standard library's logger of that name. Without any configuration, warnings then go to stderr and the rest nowhere.
    """
    return cast("FilteringBoundLogger", _Chosen(name))


def sentence(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """Return one printable line that reads well where no logging is configured: what is said, then its fields."""
    said = event.pop("event", "")
    fields = ", ".join(f"{name}={value}" for name, value in event.items() if value is not None)
    line = f"wakegate: {said} ({fields})" if fields else f"wakegate: {said}"
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in line)


class _Chosen:
    def __init__(self, name: str) -> None:
        self._plain = structlog.wrap_logger(
            logging.getLogger(name),
            processors=[
                structlog.stdlib.filter_by_level,
                structlog.contextvars.merge_contextvars,
                sentence,
            ],
            wrapper_class=structlog.stdlib.BoundLogger,
        )

    def __getattr__(self, method: str) -> Any:
        if structlog.is_configured():
            return getattr(structlog.get_logger(), method)
        # The standard library would write the exception out, and its message may quote what a peer sent.
        return getattr(self._plain, "error" if method == "exception" else method)
