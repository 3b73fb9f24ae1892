"""The worker's log lines."""

from wakegate_schema.loggers import logger

NAME = "wakegate_worker"
"""The standard library's logger, where structlog is not configured."""

log = logger(NAME)
