"""The clock mark: a clock that shows less than its host has shown before is not believed (DESIGN, the start, 7)."""

import platform
from typing import Final

from wakegate_schema.clock import SECOND

TOLERANCE: Final = 5 * SECOND
"""How far the wall clock may be behind the host's highest reading before it is disbelieved, in µs.

Readings wait their turn to be stored, so one taken a moment earlier may be stored later. Within the tolerance
nothing is gained by a slow clock: the highest reading then counts as the time.
"""


def host_name() -> str:
    """Return the name under which this host's readings are on record, whichever process takes them."""
    return platform.node() or "localhost"


def is_behind(now: int, highest: int) -> bool:
    """Say whether a wall clock went back.

    Args:
        now: what it shows, µs.
        highest: the highest reading of this host on record, µs; 0 for none.
    """
    return now < highest - TOLERANCE
