"""What harnesses ask for: the executions of their instances, and the log of what they are told."""

from collections.abc import Iterable, Sequence
from heapq import nlargest, nsmallest
from operator import itemgetter

from wakegate_schema.records import Execution, Identity, Told
from wakegate_schema.states import State
from wakegate_schema.store.transaction import Row, Transaction
from wakegate_schema.store.verbs import epochs, mapping

_number = itemgetter("number")


def executions(
    tx: Transaction,
    instances: Sequence[Identity],
    before: int | None,
    limit: int,
    state: State | None,
    group: str | None,
) -> list[tuple[int, Execution]]:
    """Return a page of these instances' executions, the latest first, with row numbers."""
    query = "executions_of_instance" if group is None else "executions_of_group"
    params: dict[str, object] = {"before": mapping.LAST if before is None else before, "limit": limit}
    if group is not None:
        params["group"] = group
    if state is not None:
        query += "_in_state"
        params["state"] = state
    rows = nlargest(limit, _of_each(tx, query, instances, params), key=_number)
    return [(row["number"], mapping.execution(row)) for row in rows]


def page(
    tx: Transaction, instances: Sequence[Identity] | None, after: tuple[int, int] | None, limit: int
) -> list[Told]:
    """Return a page of what was told after a place in the log, in order.

    Each instance's part is a statement of its own, which may see commits that the one before did not see. Only what
    was there before the first of them is in the page, or who goes on after its last row would miss what they passed.
    """
    params: dict[str, object] = {"after": 0 if after is None else _resume(tx, *after), "limit": limit}
    if instances is None:
        rows = tx.all("resolutions", params)
    else:
        until = _end(tx)
        found = nsmallest(limit, _of_each(tx, "resolutions_of_instance", instances, params), key=_number)
        rows = [row for row in found if row["number"] <= until]
    return [mapping.told(row) for row in rows]


def end(tx: Transaction, instances: Sequence[Identity] | None) -> tuple[int, int]:
    """Return the place of the last thing told. What is told while this looks comes after it: see `page`."""
    epoch, until = epochs.present(tx).number, _end(tx)
    if instances is None:
        return epoch, until
    last = max(_numbers(_of_each(tx, "resolutions_end_of_instance", instances, {})), default=0)
    return epoch, min(until, last)


def numbering_key(tx: Transaction) -> bytes:
    """Return the key under which numbers are shown to harnesses."""
    (row,) = tx.all("numbering_key")
    return bytes(row["key"])


def _end(tx: Transaction) -> int:
    (number,) = _numbers(tx.all("resolutions_end"))
    return number


def _resume(tx: Transaction, epoch: int, number: int) -> int:
    (found,) = _numbers(tx.all("resolution_resume", {"epoch": epoch, "number": number}))
    return found


def _of_each(tx: Transaction, query: str, instances: Sequence[Identity], params: dict[str, object]) -> Iterable[Row]:
    for provider, instance_id in dict.fromkeys(instances):
        yield from tx.all(query, params | {"provider": provider, "instance_id": instance_id})


def _numbers(rows: Iterable[Row]) -> list[int]:
    return [row["number"] for row in rows]
