"""The embedded queue: the store itself. Its doorbell notices every commit, so there is nothing to ring."""

from wakegate_schema.queue.ringer import Living


class EmbeddedRinger:
    """Rings nothing."""

    def ring(self) -> None:
        """Do nothing: whoever waits polls the store for changes."""

    def follow(self, living: Living) -> None:
        """Do nothing: every worker on the store hears of every commit."""

    def state(self) -> None:
        """Return None: there are no hints to count."""

    async def close(self) -> None:
        """Do nothing."""
