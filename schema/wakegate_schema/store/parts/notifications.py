"""Notifications: recorded, looked at, and what cannot be."""

from wakegate_schema.records import (
    Anomaly,
    Arrival,
    Notification,
    Receipt,
)
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import (
    anomalies,
    notifications,
)


class Notifications(Part):
    """See the module."""

    async def record(self, arrival: Arrival) -> Receipt:
        """Record a verified notification and make the execution it names due. Durable when this returns."""
        receipt = await self._writer.do(notifications.record, arrival)
        if receipt.kind == "saved":
            self._ringer.ring()
        return receipt

    async def notification(self, event_id: str) -> list[Notification]:
        """Return the notifications with this event id: one per provider that used it."""
        return await self._reader.read(notifications.one, event_id)

    async def notifications(self, after: int = 0, limit: int = 500) -> list[tuple[int, Notification]]:
        """Return a page of notifications with their row numbers, in order of receipt, after row `after`."""
        return await self._reader.read(notifications.page, after, limit)

    async def latest_notifications(self, before: int | None = None, limit: int = 500) -> list[tuple[int, Notification]]:
        """Return a page of notifications with their row numbers, the latest first, before row `before`."""
        return await self._reader.read(notifications.latest, before, limit)

    async def notifications_called(self, prefix: str) -> list[Notification]:
        """Return up to 20 notifications whose event ids begin with `prefix`, which is in lower case."""
        return await self._reader.read(notifications.called, prefix)

    async def notified(self, provider: str, instance_id: str, request_id: str) -> bool:
        """Return whether a notification about this request came in that nothing has come of yet."""
        return await self._reader.read(notifications.unhandled, provider, instance_id, request_id)

    async def anomalies(self) -> list[Anomaly]:
        """Return what cannot be, oldest first."""
        return await self._reader.read(anomalies.every)
