"""The attempt: a permission is spent by the commit of `started`, once, and its outcome recorded."""

import hashlib
import secrets
from dataclasses import asdict

from wakegate_schema.records import Approval, Claimed, Doubts, Execution, Lease, Outcome
from wakegate_schema.states import OPERATOR, State
from wakegate_schema.store.errors import NotAllowed
from wakegate_schema.store.texts import told
from wakegate_schema.store.transaction import Row, Transaction, each
from wakegate_schema.store.verbs import anomalies, executions, mapping
from wakegate_schema.store.verbs.repeats import confirm


@each
def permit(tx: Transaction, item: tuple[Lease, Approval, int, int]) -> bool:
    """waiting → permitted, for a harness to claim."""
    lease, approval, at, ahead = item
    return tx.change("permit", _approval(lease, approval) | {"at": at, "ahead": ahead, "runs": "harness"}) == 1


@each
def start(tx: Transaction, item: tuple[Lease, Approval, int, int]) -> Execution | None:
    """waiting → permitted → started, for the worker that holds the lease."""
    lease, approval, at, until = item
    params = _approval(lease, approval) | {"at": at, "until": until, "ahead": 0, "runs": "worker"}
    if tx.change("permit", params) != 1:
        return None
    row = tx.first("start", params)
    if row is None:
        raise NotAllowed(f"execution {lease.execution_id} was permitted but could not be started")
    return mapping.execution(row)


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


@each
def renew(tx: Transaction, item: tuple[Lease, int, int, str | None]) -> bool:
    """Lengthen the lease of a running attempt."""
    lease, at, until, token = item
    return tx.change("attempt_renew", asdict(lease) | {"at": at, "until": until, "token_hash": _hash(token)}) == 1


@each
def runs_on(tx: Transaction, item: tuple[Lease, int, str | None]) -> bool:
    """Note a sign of life of an attempt that is not settled."""
    lease, until, token = item
    return tx.change("attempt_runs_on", asdict(lease) | {"until": until, "token_hash": _hash(token)}) == 1


@each
def finish(tx: Transaction, item: tuple[Lease, Outcome, int, str | None, str | None]) -> Execution:
    """Record the attempt's outcome, in time or late."""
    lease, outcome, at, token, actor = item
    row = executions.require(tx, lease.execution_id)
    if row["attempt_number"] != lease.number or row["attempt_token_hash"] != _hash(token):
        raise NotAllowed(f"execution {lease.execution_id} has no such attempt", reason="not_your_attempt")
    state = State(row["state"])
    target = _target(state, outcome)
    if state in (State.STARTED, State.IN_DOUBT):
        if target is not state:
            _record(tx, row, outcome, target, at, actor)
    elif _says_the_same(row, outcome):
        confirm(tx)
    else:
        _note_late_word(tx, row, outcome, at)
    return executions.one(tx, lease.execution_id)


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
    _record(tx, row, outcome, _target(State.IN_DOUBT, outcome), at, actor="probe")
    return True


def doubts(tx: Transaction, limit: int) -> Doubts:
    """Count what is in doubt, up to a limit."""
    row = tx.first("doubts", {"limit": limit})
    return Doubts(0, None) if row is None else Doubts(row["count"], row["since"])


def _hash(token: str | None) -> bytes | None:
    return None if token is None else hashlib.sha256(token.encode()).digest()


def _approval(lease: Lease, approval: Approval) -> dict[str, object]:
    return asdict(lease) | asdict(approval) | {"note": told(approval.note)}


def _target(state: State, outcome: Outcome) -> State:
    if outcome.kind == "not_begun":
        return State.FAILED if state is State.IN_DOUBT else State.LAPSED
    return State(outcome.kind)


def _record(tx: Transaction, row: Row, outcome: Outcome, target: State, at: int, actor: str | None = None) -> None:
    tx.change(
        "attempt_finish",
        {
            "execution_id": row["execution_id"], "state": target, "reason": outcome.reason,
            "actor": actor or row["runs"], "result": outcome.result, "error": told(outcome.error), "at": at,
            "finished_at": None if target is State.IN_DOUBT else at,
        },
    )  # fmt: skip


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
