"""Clocks: the last look at the time, right before a call begins (DESIGN, start, step 7). Pure."""

from enum import StrEnum

from wakegate_schema import clock_mark
from wakegate_schema.clock import SECOND


class ClockVerdict(StrEnum):
    """What the clocks say of an approval; everything but `in_time` forbids the start."""

    IN_TIME = "in_time"
    LAPSED = "lapsed"
    """A clock has reached `expires_at`: final."""
    CLOCK_BEHIND = "clock_behind"
    """The wall clock went backwards: to be retried, and an operator's matter (the mark can be reset)."""
    NO_SERVER_DATE = "no_server_date"
    """The provider did not say what time it is: to be retried."""


def check_clocks(expires_at: int, *, now: int, highest: int, server_now: int | None) -> ClockVerdict:
    """Say whether an approval is still good by every clock there is; the latest of them counts.

    Called twice: before the permission is spent, where everything but `lapsed` is retried, and again right after,
    where everything but `in_time` means that the call is not begun.

    An answer without a Date leaves one clock of two, and that one unconfirmed: HTTP obliges a server that has a
    clock to send it (RFC 9110, 6.6.1), so its absence is a fault of the provider or of something between, and not
    a reason to rely on less.

    Args:
        expires_at: the end of the approval, µs.
        now: this host's wall clock, µs.
        highest: the highest wall clock reading this host had recorded before, µs; 0 for none.
        server_now: from `server_time`, µs.
    """
    if server_now is not None and server_now >= expires_at:
        return ClockVerdict.LAPSED
    if clock_mark.is_behind(now, highest):
        return ClockVerdict.CLOCK_BEHIND
    if max(now, highest) >= expires_at:
        return ClockVerdict.LAPSED
    return ClockVerdict.NO_SERVER_DATE if server_now is None else ClockVerdict.IN_TIME


def server_time(server_date: float | None, received_monotonic: float, monotonic: float) -> int | None:
    """Return what the provider's clock shows now, in µs, or None when it never said.

    Args:
        server_date: the answer's Date, Unix seconds.
        received_monotonic: the monotonic clock when the answer arrived, seconds.
        monotonic: the monotonic clock now, seconds.
    """
    if server_date is None:
        return None
    return int((server_date + max(0.0, monotonic - received_monotonic)) * SECOND)
