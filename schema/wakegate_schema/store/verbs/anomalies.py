"""Anomalies: what cannot be, kept for a person."""

from wakegate_schema.records import Anomaly
from wakegate_schema.store.transaction import Transaction
from wakegate_schema.store.verbs.mapping import record


def every(tx: Transaction) -> list[Anomaly]:
    """Return all of them, oldest first."""
    return [record(Anomaly, row) for row in tx.all("anomalies")]


def note(tx: Transaction, *, kind: str, provider: str, instance_id: str, subject_id: str, detail: str, at: int) -> None:
    """Keep one; the same again only raises its count."""
    tx.change(
        "anomaly_note",
        {
            "kind": kind, "provider": provider, "instance_id": instance_id, "subject_id": subject_id,
            "detail": detail, "at": at,
        },
    )  # fmt: skip
