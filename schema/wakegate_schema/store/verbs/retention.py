"""Retention: bounded steps that remove what is old and keep the tombstones."""

from collections.abc import Sequence

from wakegate_schema.records import Pruned
from wakegate_schema.store.transaction import Transaction, each
from wakegate_schema.store.verbs.notifications import KEPT


def probe(tx: Transaction, items: Sequence[None]) -> Sequence[None]:
    """Write something real."""
    tx.change("probe")
    return items


@each
def prune(tx: Transaction, item: tuple[int, int, int]) -> Pruned:
    """Take one step (DESIGN, "Retention")."""
    at, erase_finished_before, limit = item
    old = {"before": at - KEPT, "limit": limit}
    return Pruned(
        notifications=tx.change("prune_notifications", {"at": at, "limit": limit}),
        payloads=tx.change("erase_payloads", {"at": at, "before": erase_finished_before, "limit": limit}),
        secrets=tx.change("erase_secrets", {"before": at - KEPT}),
        anomalies=tx.change("prune_anomalies", old),
        resolutions=tx.change("prune_resolutions", {"before": erase_finished_before, "limit": limit}),
        adoptions=tx.change("adoptions_give_up", old | {"at": at}) + tx.change("prune_adoptions", old),
    )
