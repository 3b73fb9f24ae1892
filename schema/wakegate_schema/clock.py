"""The wall clock as every record counts it: whole microseconds since the Unix epoch."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wakegate_schema.errors import WakegateError

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


class ClockMalformed(WakegateError):
    """WAKEGATE_TEST_CLOCK names no file that holds +N, -N or =N in µs."""

    reason = "clock_malformed"


def warn_if_set_apart(warn: Callable[..., object]) -> None:
    """Say, with a structured logger's `warning`, that this process does not go by its host's clock, if so.

    Raises:
        ClockMalformed: and what it should go by cannot be read.
    """
    if _set_apart_by is not None:
        now()
        warn("the wall clock is set apart from the host's, as tests do", action="test_clock", file=_set_apart_by)


def set_apart(wall: int, file: Path) -> int:
    """Return the reading that a test clock's file makes of the host's.

    Args:
        wall: the host's reading, µs.
        file: holds `+N` or `-N` (so many µs fast or slow) or `=N` (stands still at N); none, or empty, changes
            nothing. It is read every time, so the clock can be set while the process runs.

    Raises:
        ClockMalformed: it holds something else, or cannot be read; no other time is gone by then.
    """
    try:
        text = file.read_bytes().strip()
    except FileNotFoundError:
        return wall
    except OSError as error:
        raise _malformed(file, error.strerror or type(error).__name__) from error
    found = _FORM.fullmatch(text or b"+0")
    if found is None:
        raise _malformed(file, "it holds something else")
    return int(found[2]) if found[1] == b"=" else wall + int(found[1] + found[2])


def _malformed(file: Path, why: str) -> ClockMalformed:
    return ClockMalformed(
        f"{TEST_CLOCK} names {str(file)!r}, not a file that holds +N, -N or =N in µs ({why}); unset it unless you test"
        " wakegate itself"
    )


_FORM: Final = re.compile(rb"([+=-]?)([0-9]{1,16})")
