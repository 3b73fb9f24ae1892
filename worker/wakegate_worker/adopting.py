"""Adopting: notifications of requests that nobody saved here are looked through, each once."""

from collections.abc import Callable

from wakegate_schema.store import Store

PAGE = 100
"""Notifications of one step: it keeps every other writer of a PostgreSQL store waiting."""


class Adopting:
    """Takes on the requests that are unmatched; a worker without resumers leaves them as they are."""

    def __init__(self, store: Store, *, now: Callable[[], int]) -> None:
        """Take the store and the wall clock in µs."""
        self._store = store
        self._now = now

    async def step(self) -> None:
        """Look through all that has come since the last time."""
        while await self._store.unmatched_wait() and await self._store.adopt_unmatched(self._now(), PAGE) == PAGE:
            pass
