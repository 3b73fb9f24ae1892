"""Wakes: resolutions owed to harnesses, at least once each."""

from wakegate_schema.records import Wake
from wakegate_schema.store.transaction import Transaction, each
from wakegate_schema.store.verbs import mapping


@each
def take(tx: Transaction, item: tuple[int, int, int]) -> list[Wake]:
    """Return what is owed and due."""
    limit, at, until = item
    return [mapping.wake(row) for row in tx.all("lease_wakes", {"limit": limit, "at": at, "until": until})]


@each
def delivered(tx: Transaction, item: tuple[str, int]) -> None:
    """The harness has acknowledged."""
    wake_id, at = item
    tx.change("wake_delivered", {"wake_id": wake_id, "at": at})


@each
def failed(tx: Transaction, item: tuple[str, int | None, str]) -> None:
    """Try again later, or never."""
    wake_id, due_at, problem = item
    tx.change("wake_failed", {"wake_id": wake_id, "due_at": due_at, "problem": problem})


def of_execution(tx: Transaction, execution_id: str) -> list[Wake]:
    """Return an execution's wakes, oldest first."""
    return [mapping.wake(row) for row in tx.all("wakes_of_execution", {"execution_id": execution_id})]
