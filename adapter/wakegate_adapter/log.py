"""The adapter's log lines, given to the standard library's logging: a harness's stdout is its own."""

import logging

import structlog

from wakegate_schema.loggers import sentence

NAME = "wakegate_adapter"
"""The logger to configure; without that, warnings go to stderr and the rest nowhere."""

log: structlog.stdlib.BoundLogger = structlog.wrap_logger(
    logging.getLogger(NAME),
    processors=[structlog.stdlib.filter_by_level, sentence],
    wrapper_class=structlog.stdlib.BoundLogger,
)
