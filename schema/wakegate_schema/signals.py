"""Stop signals: what a terminal or a supervisor sends twice at once is one wish."""

import time
from collections.abc import Callable

SAME_WISH_S = 0.5
"""A second signal within so many seconds says nothing new: Ctrl-C reaches a whole group, whose leader repeats it."""


def spaced(act: Callable[[], None], monotonic: Callable[[], float] = time.monotonic) -> Callable[[], None]:
    """Return a handler that acts, but not for a signal that comes within half a second after the first.

    Args:
        act: what a signal asks for.
        monotonic: seconds on a clock that never goes back.
    """
    first: float | None = None

    def handle() -> None:
        nonlocal first
        at = monotonic()
        if first is not None and at - first < SAME_WISH_S:
            return
        if first is None:
            first = at
        act()

    return handle
