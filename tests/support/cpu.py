"""A bound on the processor's time that holds for code that never comes back, and on however busy a machine."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class TookTooLong(AssertionError):
    """The code used more of the processor's time than it may."""


@contextmanager
def cpu_bound(seconds: float) -> Iterator[None]:
    """Raise `TookTooLong` out of the block once this process has computed for so long in it; main thread only.

    Regular expressions, too, look for signals while they match.
    """
    before = signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _too_long(_number: int, _frame: FrameType | None) -> None:
    raise TookTooLong
