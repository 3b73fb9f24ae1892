"""The adapter's log lines, given to the standard library's logging: a harness's stdout is its own."""

import logging

import structlog

NAME = "wakegate_adapter"
"""The logger to configure; without that, warnings go to stderr and the rest nowhere."""

log: structlog.stdlib.BoundLogger = structlog.wrap_logger(
    logging.getLogger(NAME),
    processors=[
        structlog.stdlib.filter_by_level,
        structlog.processors.LogfmtRenderer(key_order=["event", "action"], drop_missing=True),
    ],
    wrapper_class=structlog.stdlib.BoundLogger,
)
