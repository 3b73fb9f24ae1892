"""Silence: whether an attempt in doubt may still be running somewhere, told without comparing any two clocks."""

import math
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final

from wakegate_schema.records import Execution

ENDED: Final = frozenset({"tool_raised", "tool_timed_out", "tool_cancelled", "tool_not_awaited"})
"""Reasons of a doubt that say that the tool has come to an end; with any other it may still be going on."""
HARNESS_LEASE_S: Final = 30.0
"""The lease of a call that a harness runs, in seconds, whatever this worker's lease is: the adapter's `LEASE_S`."""


@dataclass(frozen=True, slots=True)
class _Seen:
    sign: int | None
    first: float
    changed: float


class Silence:
    """Watches signs of life. Whoever runs a tool gives one every third of a lease, also in doubt.

    A sign is only compared with the one before it, and time is this process's own monotonic clock: the wall clocks of
    two workers may be apart, and one may step. Only time in which the store took writes counts: in any other nobody
    could give a sign.
    """

    def __init__(self, *, lease_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Take a lease's length and the monotonic clock, in seconds."""
        self._lease_s = lease_s
        self._monotonic = monotonic
        self._seen: dict[str, _Seen] = {}
        self._taking_since = self._taken_at = -math.inf

    def expect(self, lease_s: float) -> None:
        """Say how long a lease is at most, in seconds: others may give signs less often than this worker would."""
        self._lease_s = lease_s

    def store_took(self) -> None:
        """Say that the store has just taken a write; of a gap of more than half a lease nothing is known."""
        now = self._monotonic()
        if not self._takes(now):
            self._taking_since = now
        self._taken_at = now

    def look(self, execution: Execution) -> float:
        """Note the sign of life that an execution in doubt shows; return how many seconds it was seen for."""
        now, sign = self._monotonic(), execution.lease_until
        seen = self._seen.setdefault(execution.execution_id, _Seen(sign, now, now))
        if seen.sign != sign:
            self._seen[execution.execution_id] = replace(seen, sign=sign, changed=now)
        return now - seen.first

    def left_s(self, execution: Execution) -> float:
        """Return how many more seconds without a sign there must be before the attempt counts as over."""
        if execution.reason in ENDED:
            return 0.0
        now, lease_s = self._monotonic(), self._lease_s
        if execution.runs == "harness":
            lease_s = max(lease_s, HARNESS_LEASE_S)
        since = max(self._seen[execution.execution_id].changed, self._taking_since if self._takes(now) else now)
        return max(0.0, since + lease_s - now)

    def keep(self, ids: Collection[str]) -> None:
        """Forget all others."""
        self._seen = {key: seen for key, seen in self._seen.items() if key in ids}

    def _takes(self, now: float) -> bool:
        return now - self._taken_at <= self._lease_s / 2
