"""Executions: saved once per key, looked at, abandoned."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from wakegate_schema.records import Execution, Lease, Suspension, Transition
from wakegate_schema.states import RESOLVED, UNSTARTED, State
from wakegate_schema.store.errors import KeyConflict, NotAllowed, NotFound
from wakegate_schema.store.transaction import Row, Transaction, each
from wakegate_schema.store.verbs import groups, instances, mapping
from wakegate_schema.store.verbs.repeats import confirm


@each
def save(tx: Transaction, suspension: Suspension) -> Execution:
    """Save a call, or return what its key saved before."""
    instance = instances.require(tx, suspension.provider, suspension.instance_id)
    found = tx.first(
        "execution_by_key",
        {
            "provider": suspension.provider,
            "instance_id": suspension.instance_id,
            "idempotency_key": suspension.idempotency_key,
        },
    )
    if found is None:
        if instance["state"] == "retired":
            raise NotAllowed(f"instance {instance['name']} is retired; choose another", reason="instance_retired")
        groups.check_fits(tx, suspension)
        tx.change("execution_save", asdict(suspension) | {"digest": suspension.digest})
        return one(tx, suspension.execution_id)
    if differing := _differing(found, suspension):
        raise KeyConflict(
            f"key {suspension.idempotency_key} was used for another call ({differing} differs); "
            "make a new key for a new attempt"
        )
    confirm(tx)
    return mapping.execution(found)


def one(tx: Transaction, execution_id: str) -> Execution:
    """Return one. Raises `NotFound`."""
    return mapping.execution(require(tx, execution_id))


def require(tx: Transaction, execution_id: str) -> Row:
    """Return one's row. Raises `NotFound`."""
    row = tx.first("execution", {"execution_id": execution_id})
    if row is None:
        raise not_there(execution_id)
    return row


def among(tx: Transaction, ids: Sequence[str]) -> dict[str, Row]:
    """Return the rows of those that there are, by their ids."""
    return {row["execution_id"]: row for row in tx.all_rows("executions_among", [(each_id,) for each_id in ids])}


def require_all(tx: Transaction, ids: Sequence[str]) -> list[Row]:
    """Return the rows of all, in this order. Raises `NotFound`."""
    rows = among(tx, ids)
    for execution_id in ids:
        if execution_id not in rows:
            raise not_there(execution_id)
    return [rows[execution_id] for execution_id in ids]


def of_lease(item: tuple[Any, ...]) -> str:
    """Return which execution an item that begins with a lease is about."""
    lease: Lease = item[0]
    return lease.execution_id


def changed(tx: Transaction, query: str, table: Sequence[tuple[object, ...]]) -> list[bool]:
    """Run a change over a batch of executions, each by its id; return which of them it has changed."""
    return are_among(table, tx.all_rows(query, table))


def are_among(table: Iterable[tuple[object, ...]], rows: Iterable[Row]) -> list[bool]:
    """Return which executions of a batch, each row of it beginning with an id, an answer has."""
    ids = {row["execution_id"] for row in rows}
    return [item[0] in ids for item in table]


def not_there(execution_id: str) -> NotFound:
    """Return what is said of an execution that does not exist, or that whoever asks is not to know of."""
    return NotFound(f"there is no execution {execution_id}; see `wakegate execution list`")


def by_request(tx: Transaction, provider: str, instance_id: str, request_id: str) -> Execution | None:
    """Return the execution of a request, if it was saved here."""
    row = tx.first("execution_by_request", {"provider": provider, "instance_id": instance_id, "request_id": request_id})
    return None if row is None else mapping.execution(row)


def page(tx: Transaction, after: int, limit: int, state: State | None) -> list[tuple[int, Execution]]:
    """Return a page, oldest first, with row numbers."""
    return _page(tx, "executions", state, {"after": after, "limit": limit})


def latest(tx: Transaction, before: int | None, limit: int, state: State | None) -> list[tuple[int, Execution]]:
    """Return a page, the latest first, with row numbers."""
    return _page(tx, "executions_latest", state, {"before": mapping.LAST if before is None else before, "limit": limit})


def called(tx: Transaction, key: str, prefix: str | None) -> list[Execution]:
    """Return those with this key, and those whose ids begin with the prefix."""
    rows = [*tx.all("executions_of_key", {"key": key, "limit": mapping.MANY})]
    if prefix is not None:
        rows += tx.all("executions_from", {"prefix": prefix, "limit": mapping.MANY})
    return list({row["execution_id"]: mapping.execution(row) for row in rows}.values())


def transitions(tx: Transaction, execution_id: str) -> list[Transition]:
    """Return every change of state, oldest first."""
    return [mapping.transition(row) for row in tx.all("transitions", {"execution_id": execution_id})]


@each
def abandon(tx: Transaction, item: tuple[str, str, str, int]) -> Execution:
    """Give up an execution that has not started."""
    execution_id, reason, actor, at = item
    row = require(tx, execution_id)
    state = State(row["state"])
    if state in (State.STARTED, State.IN_DOUBT):
        raise NotAllowed(
            f"execution {execution_id} is {state}: the call may have happened and cannot be abandoned",
            reason="already_started",
        )
    if state in UNSTARTED:
        give_up(tx, row, reason=reason, actor=actor, at=at)
    else:
        confirm(tx)
    return one(tx, execution_id)


def give_up(tx: Transaction, row: Row, *, reason: str, actor: str, at: int) -> None:
    """Abandon an unstarted execution and owe the provider a cancel if its request may be pending."""
    tx.change(
        "execution_abandon",
        {
            "execution_id": row["execution_id"], "state": row["state"], "reason": reason, "actor": actor, "at": at,
            "cancel_due_at": at if row["state"] in (State.SUBMITTING, State.WAITING) else None,
        },
    )  # fmt: skip


@each
def keep_hold(tx: Transaction, item: tuple[str, str, int, int]) -> bool:
    """Lengthen a hold that is not lost."""
    execution_id, hold_id, until, at = item
    params = {"execution_id": execution_id, "hold_id": hold_id, "until": until, "at": at}
    return tx.change("execution_keep_hold", params) == 1


def _page(tx: Transaction, query: str, state: State | None, limits: dict[str, int]) -> list[tuple[int, Execution]]:
    """Run the query for all states or for one; what is unresolved has an index of its own."""
    params: dict[str, int | State] = {**limits}
    if state is not None:
        query += "_in_state" if state in RESOLVED else "_unresolved_in_state"
        params["state"] = state
    return [(row["number"], mapping.execution(row)) for row in tx.all(query, params)]


def _differing(row: Row, suspension: Suspension) -> str | None:
    """Name what differs between a saved call and another with its key; None when nothing does."""
    if row["tool"] != suspension.tool:
        return "tool"
    if row["digest"] != suspension.digest:
        return "arguments, context, reasoning or timeout"
    for name in ("runs", "wake", "group"):
        if row[name] != getattr(suspension, name):
            return name
    return None
