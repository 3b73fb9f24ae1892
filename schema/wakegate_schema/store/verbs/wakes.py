"""Wakes: resolutions owed to harnesses, at least once each."""

import json

from wakegate_schema.records import Wake, WakeState
from wakegate_schema.store.errors import NotFound
from wakegate_schema.store.transaction import Transaction, each
from wakegate_schema.store.verbs import mapping


@each
def take(tx: Transaction, item: tuple[int, int, int, str | None, tuple[str, ...]]) -> list[Wake]:
    """Return what is owed and due: to one target, or to all but some."""
    limit, at, until, target, but = item
    params = {"limit": limit, "at": at, "until": until}
    if target is None:
        rows = tx.all("lease_wakes", params | {"but": json.dumps(but)})
    else:
        rows = tx.all("lease_wakes_for", params | {"target": target})
    return [mapping.wake(row) for row in rows]


@each
def keep(tx: Transaction, item: tuple[str, int, int]) -> bool:
    """Lengthen the lease of a wake that is still being delivered."""
    wake_id, since, until = item
    return tx.change("wake_keep", {"wake_id": wake_id, "since": since, "until": until}) == 1


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


@each
def replay(tx: Transaction, item: tuple[str, int]) -> Wake:
    """Owe a wake anew, whatever has become of it."""
    wake_id, at = item
    row = tx.first("wake_replay", {"wake_id": wake_id, "at": at})
    if row is None:
        raise _not_there(wake_id)
    return mapping.wake(row)


def one(tx: Transaction, wake_id: str) -> Wake:
    """Return one. Raises `NotFound`."""
    row = tx.first("wake", {"wake_id": wake_id})
    if row is None:
        raise _not_there(wake_id)
    return mapping.wake(row)


def called(tx: Transaction, prefix: str) -> list[Wake]:
    """Return those whose ids begin with the prefix."""
    return [mapping.wake(row) for row in tx.all("wakes_from", {"prefix": prefix, "limit": mapping.MANY})]


def latest(tx: Transaction, before: int | None, limit: int, state: WakeState | None) -> list[tuple[int, Wake]]:
    """Return a page, the latest first, with row numbers."""
    query, params = "wakes_latest", {"before": mapping.LAST if before is None else before, "limit": limit}
    if state is None:
        rows = tx.all(query, params)
    else:
        query += "_in_state" if state == "delivered" else "_not_delivered_in_state"
        rows = tx.all(query, params | {"state": state})
    return [(row["place"], mapping.wake(row)) for row in rows]


def of_execution(tx: Transaction, execution_id: str) -> list[Wake]:
    """Return the wakes that tell of an execution, oldest first."""
    return [mapping.wake(row) for row in tx.all("wakes_of_execution", {"execution_id": execution_id})]


def _not_there(wake_id: str) -> NotFound:
    return NotFound(f"there is no wake {wake_id}; see `wakegate wake list`")
