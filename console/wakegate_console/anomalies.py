"""Anomalies: what cannot be, shown beside the notification or execution it is about."""

from wakegate_console import views
from wakegate_console.table import Column
from wakegate_schema.store import Store

COLUMNS = (
    Column("kind", "KIND"),
    Column("count", "COUNT"),
    Column("last_at", "LAST SEEN", "time"),
    Column("detail", "DETAIL", least=24),
)


async def about(store: Store, provider: str, subject_id: str) -> list[views.View]:
    """Return what is on record about one event or execution, oldest first."""
    return [
        views.anomaly(record)
        for record in await store.anomalies()
        if (record.provider, record.subject_id) == (provider, subject_id)
    ]
