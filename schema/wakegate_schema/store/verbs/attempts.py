"""The attempt: a permission is spent by the commit of `started`, once, and its outcome recorded."""

import hashlib
import secrets
from collections.abc import Sequence

from wakegate_schema.records import Approval, Claimed, Doubts, Execution, Lease, Outcome, Runs
from wakegate_schema.states import OPERATOR, State
from wakegate_schema.store.errors import NotAllowed
from wakegate_schema.store.texts import told
from wakegate_schema.store.transaction import Row, Transaction, by, each
from wakegate_schema.store.verbs import anomalies, executions, mapping
from wakegate_schema.store.verbs.repeats import confirm


@by(executions.of_lease)
def permit(tx: Transaction, items: Sequence[tuple[Lease, Approval, int, int]]) -> list[bool]:
    """waiting → permitted, for a harness to claim."""
    permissions = [_permission(lease, approval, at, ahead, "harness") for lease, approval, at, ahead in items]
    return executions.changed(tx, "permit", permissions)


@by(executions.of_lease)
def start(tx: Transaction, items: Sequence[tuple[Lease, Approval, int, int]]) -> list[Execution | None]:
    """waiting → permitted → started, for the worker that holds the lease."""
    permissions = [_permission(lease, approval, at, 0, "worker") for lease, approval, at, _ in items]
    permitted = executions.changed(tx, "permit", permissions)
    starts = [
        (lease.execution_id, lease.number, at, until)
        for (lease, _, at, until), may in zip(items, permitted, strict=True)
        if may
    ]
    if not starts:
        return [None] * len(items)
    started = {found.execution_id: found for found in mapping.executions(tx.all_rows("start", starts))}
    for execution_id, *_ in starts:
        if execution_id not in started:
            raise NotAllowed(f"execution {execution_id} was permitted but could not be started")
    return [started[item[0].execution_id] if may else None for item, may in zip(items, permitted, strict=True)]


@each
def claim(tx: Transaction, item: tuple[str, str, int, int, int, str]) -> Claimed | Execution:
    """permitted → started, for a harness; a running claim's repeat gets the same attempt."""
    execution_id, claim_id, at, until, margin, actor = item
    token = secrets.token_urlsafe(32)
    params = {
        "execution_id": execution_id, "claim_id": claim_id, "at": at, "until": until, "margin": margin,
        "actor": actor, "token_hash": _hash(token),
    }  # fmt: skip
    row = tx.first("claim", params) or tx.first("claim_again", params)
    if row is None:
        return executions.one(tx, execution_id)
    return Claimed(mapping.execution(row), token)


@by(executions.of_lease)
def renew(tx: Transaction, items: Sequence[tuple[Lease, int, int, str | None]]) -> list[bool]:
    """Lengthen the lease of a running attempt."""
    table = [(lease.execution_id, lease.number, at, until, _hash(token)) for lease, at, until, token in items]
    return executions.changed(tx, "attempt_renew", table)


@by(executions.of_lease)
def runs_on(tx: Transaction, items: Sequence[tuple[Lease, int, str | None]]) -> list[bool]:
    """Note a sign of life of an attempt that is not settled."""
    table = [(lease.execution_id, lease.number, until, _hash(token)) for lease, until, token in items]
    return executions.changed(tx, "attempt_runs_on", table)


@by(executions.of_lease)
def finish(tx: Transaction, items: Sequence[tuple[Lease, Outcome, int, str | None, str | None]]) -> list[Execution]:
    """Record the attempts' outcomes, in time or late."""
    rows = executions.require_all(tx, [lease.execution_id for lease, *_ in items])
    endings: list[tuple[object, ...]] = []
    repeated = False
    for (lease, outcome, at, token, actor), row in zip(items, rows, strict=True):
        if row["attempt_number"] != lease.number or row["attempt_token_hash"] != _hash(token):
            raise NotAllowed(f"execution {lease.execution_id} has no such attempt", reason="not_your_attempt")
        state = State(row["state"])
        if state in (State.STARTED, State.IN_DOUBT):
            target = _target(state, outcome)
            if target is not state:
                endings.append(_ending(row, outcome, target, at, actor))
        elif _says_the_same(row, outcome):
            repeated = True
        else:
            _note_late_word(tx, row, outcome, at)
    if repeated:
        confirm(tx)
    ended = {row["execution_id"]: row for row in _record(tx, endings)}
    return mapping.executions([ended.get(row["execution_id"], row) for row in rows])


@each
def settle(tx: Transaction, item: tuple[str, bool, str, str, int]) -> Execution:
    """in_doubt → succeeded or failed, on a person's word."""
    execution_id, happened, by, note, at = item
    row = executions.require(tx, execution_id)
    if row["state"] != State.IN_DOUBT:
        raise NotAllowed(f"execution {execution_id} is {row['state']}, not in_doubt; there is nothing to resolve")
    state = State.SUCCEEDED if happened else State.FAILED
    reason = "resolved_happened" if happened else "resolved_did_not_happen"
    actor = OPERATOR + by
    tx.change(
        "settle",
        {"execution_id": execution_id, "state": state, "reason": reason, "actor": actor, "note": told(note), "at": at},
    )
    return executions.one(tx, execution_id)


@each
def settle_by_probe(tx: Transaction, item: tuple[str, Outcome, int, int | None]) -> bool:
    """in_doubt → succeeded or failed, on the word of the tool's probe."""
    execution_id, outcome, at, seen = item
    row = executions.require(tx, execution_id)
    if row["state"] != State.IN_DOUBT or outcome.kind not in ("succeeded", "failed"):
        return False
    if outcome.kind == "failed" and row["lease_until"] != seen:
        return False  # it has given a sign of life since: it may happen yet
    _record(tx, [_ending(row, outcome, _target(State.IN_DOUBT, outcome), at, actor="probe")])
    return True


def doubts(tx: Transaction, limit: int) -> Doubts:
    """Count what is in doubt, up to a limit."""
    row = tx.first("doubts", {"limit": limit})
    return Doubts(0, None) if row is None else Doubts(row["count"], row["since"])


def _hash(token: str | None) -> bytes | None:
    return None if token is None else hashlib.sha256(token.encode()).digest()


def _permission(lease: Lease, approval: Approval, at: int, ahead: int, runs: Runs) -> tuple[object, ...]:
    return (
        lease.execution_id, lease.number, approval.decided_at, approval.expires_at, told(approval.note), at, ahead,
        runs, approval.consumed_at,
    )  # fmt: skip


def _target(state: State, outcome: Outcome) -> State:
    if outcome.kind == "not_begun":
        return State.FAILED if state is State.IN_DOUBT else State.LAPSED
    return State(outcome.kind)


def _ending(row: Row, outcome: Outcome, target: State, at: int, actor: str | None) -> tuple[object, ...]:
    return (
        row["execution_id"], str(target), outcome.reason, actor or row["runs"], outcome.result, told(outcome.error), at,
        None if target is State.IN_DOUBT else at,
    )  # fmt: skip


def _record(tx: Transaction, endings: Sequence[tuple[object, ...]]) -> Sequence[Row]:
    return tx.all_rows("attempt_finish", endings) if endings else []


def _says_the_same(row: Row, outcome: Outcome) -> bool:
    if outcome.kind == "in_doubt":
        return True  # it says nothing
    if outcome.kind == "not_begun":
        return row["state"] in (State.LAPSED, State.FAILED)
    return bool(row["state"] == outcome.kind)


def _note_late_word(tx: Transaction, row: Row, outcome: Outcome, at: int) -> None:
    anomalies.note(
        tx, kind="late_word", provider=row["provider"], instance_id=row["instance_id"],
        subject_id=row["execution_id"], at=at,
        detail=f"the attempt says {outcome.kind}, but {row['state']} is on record ({row['actor']})",
    )  # fmt: skip
