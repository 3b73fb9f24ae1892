"""The doorbell: who waits for a change of the store hears of it, whoever made it."""

from typing import Protocol


class Doorbell(Protocol):
    """Counts the changes it noticed; used in one event loop."""

    async def wait(self, since: int, timeout: float) -> int:
        """Return the latest change's number as soon as it is not `since`, at the latest after `timeout` seconds.

        Raises `StoreUnavailable` once closed, and in a fork.
        """

    def close(self) -> None:
        """Let go of the database; whoever still waits hears that it is closed. Repeats are no-ops."""
