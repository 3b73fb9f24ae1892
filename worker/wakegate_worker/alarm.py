"""The alarm: says at error level how much is in doubt, for as long as anything is."""

from collections.abc import Callable

from wakegate_schema.clock import SECOND
from wakegate_schema.store import Store
from wakegate_worker.log import log

ALARM_EVERY_S = 3600.0
"""How often it is said, in seconds, beginning with the worker's start."""


class Alarm:
    """Tells of what waits for a person. What comes into doubt meanwhile has a line of its own when it does."""

    def __init__(self, store: Store, *, now: Callable[[], int]) -> None:
        """Take the store and the wall clock in µs."""
        self._store = store
        self._now = now

    async def sound(self) -> None:
        """Say how many executions are in doubt and for how long the first of them, if any is."""
        doubts = await self._store.doubts()
        if doubts.since is None:
            return
        log.error(
            "calls are in doubt, and nobody runs them again: find out whether they happened, then"
            " `wakegate execution resolve`; `wakegate execution list` shows them",
            action="in_doubt",
            count=doubts.count,
            oldest_s=max(0, self._now() - doubts.since) // SECOND,
        )
