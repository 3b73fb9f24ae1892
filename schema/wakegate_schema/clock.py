"""The wall clock as every record counts it: whole microseconds since the Unix epoch."""

import time

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def now() -> int:
    """Return this host's wall clock in microseconds since the Unix epoch."""
    return time.time_ns() // 1_000
