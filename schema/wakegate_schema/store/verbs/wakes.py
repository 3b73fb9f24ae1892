"""Wakes: resolutions owed to harnesses, at least once each."""

import json
from collections.abc import Sequence
from operator import itemgetter

from wakegate_schema.records import Wake, WakeState
from wakegate_schema.store.errors import NotFound
from wakegate_schema.store.transaction import Transaction, by, each
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
    return mapping.wakes(rows)


@by(itemgetter(0))
def keep(tx: Transaction, items: Sequence[tuple[str, int, int]]) -> list[bool]:
    """Lengthen the leases of wakes that are still being delivered."""
    kept = {row["wake_id"] for row in tx.all_rows("wake_keep", items)}
    return [wake_id in kept for wake_id, *_ in items]


@by(itemgetter(0))
def delivered(tx: Transaction, items: Sequence[tuple[str, int]]) -> list[None]:
    """The harnesses have acknowledged."""
    tx.change_rows("wake_delivered", items)
    return [None] * len(items)


@by(itemgetter(0))
def failed(tx: Transaction, items: Sequence[tuple[str, int | None, str]]) -> list[None]:
    """Try again later, or never."""
    tx.change_rows("wake_failed", items)
    return [None] * len(items)


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
