"""Times and durations as AAP writes them, read strictly (AAP, conventions)."""

import functools
import re
from datetime import date, datetime, timedelta
from typing import Final

from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND
from wakegate_schema.errors import WakegateError

PATTERN: Final = r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,64}))?Z"
"""The whole form of a timestamp, as a regular expression; that its date exists is looked at besides."""
MAX_DURATION: Final = 36_500 * DAY


class MalformedTime(WakegateError):
    """The text is not an RFC 3339 UTC timestamp such as 2026-09-16T12:02:00Z."""

    reason = "bad_timestamp"


@functools.lru_cache(1024)  # an object's times are checked in form first, and read again where they count
def parse(text: str) -> int:
    """Read an RFC 3339 UTC timestamp.

    Args:
        text: `2026-09-16T12:02:00Z`, upper-case T and Z, years 0001 to 9999, any fraction of up to 64 digits;
            a leap second (`:60`) is refused.

    Returns:
        Microseconds since the Unix epoch, rounded down, so never later than what was written.

    Raises:
        MalformedTime: the text has another form, or names no real moment.
    """
    found = _TIMESTAMP.fullmatch(text)
    day = _day(found[1]) if found else None
    if found is None or day is None:
        raise MalformedTime
    second = (int(found[2]) * 60 + int(found[3])) * 60 + int(found[4])
    fraction = found[5]
    return day * DAY + second * SECOND + (int(fraction[:6].ljust(6, "0")) if fraction else 0)


def render(at: int) -> str:
    """Write a moment as RFC 3339 UTC, with a fraction (six digits) only where it is not zero.

    Args:
        at: microseconds since the Unix epoch.

    Raises:
        MalformedTime: the moment is outside the years 0001 to 9999.
    """
    try:
        return (_EPOCH + timedelta(microseconds=at)).isoformat() + "Z"
    except OverflowError:
        raise MalformedTime("The moment is outside the years 0001 to 9999.") from None


def render_known(at: int | None) -> str | None:
    """Write a moment as `render` does; None for one that is not known, or never was."""
    return None if at is None else render(at)


def duration(text: str) -> int:
    """Read a duration: a whole number without leading zeros and `s`, `m` or `h`.

    Returns:
        Microseconds, at most 36,500 days.

    Raises:
        MalformedTime: with the reason `bad_duration`.
    """
    found = _LENGTH.fullmatch(text)
    length = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < length <= MAX_DURATION:
        raise MalformedTime(
            "A duration is a whole number and s, m or h, such as 30m, of at most 36500 days.",
            reason="bad_duration",
        )
    return length


_TIMESTAMP: Final = re.compile(PATTERN)
_LENGTH: Final = re.compile(r"([1-9][0-9]{0,11})([smh])")
_UNITS: Final = {"s": SECOND, "m": MINUTE, "h": HOUR}
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = _EPOCH.toordinal()


def _day(text: str) -> int | None:
    """Return the days from the epoch to a calendar date, None for one that does not exist."""
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
