"""The wall clock as every record counts it: whole microseconds since the Unix epoch."""

import os
import time
from collections.abc import Callable
from pathlib import Path

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

TEST_CLOCK = "WAKEGATE_TEST_CLOCK"
"""Names a file that sets this process's wall clock apart from its host's, for tests: see `set_apart`."""

_set_apart_by = os.environ.get(TEST_CLOCK)


def now() -> int:
    """Return this host's wall clock in microseconds since the Unix epoch."""
    wall = time.time_ns() // 1_000
    return wall if _set_apart_by is None else set_apart(wall, Path(_set_apart_by))


def warn_if_set_apart(warn: Callable[..., object]) -> None:
    """Say, with a structured logger's `warning`, that this process does not go by its host's clock, if so."""
    if _set_apart_by is not None:
        warn("the wall clock is set apart from the host's, as tests do", action="test_clock", file=_set_apart_by)


def set_apart(wall: int, file: Path) -> int:
    """Return the reading that a test clock's file makes of the host's.

    Args:
        wall: the host's reading, µs.
        file: holds `+N` or `-N` (so many µs fast or slow) or `=N` (stands still at N); none, or empty, changes
            nothing. It is read every time, so the clock can be set while the process runs.
    """
    try:
        text = file.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return wall
    if text.startswith("="):
        return int(text[1:])
    return wall + int(text or "0")
