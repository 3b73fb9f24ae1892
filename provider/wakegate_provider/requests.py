"""Requests: create once per idempotency key, read, cancel; each instance sees only its own."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from sqlite3 import Row
from typing import Literal, cast

from wakegate_provider.decisions import planned_outcome, record, refusal, settled
from wakegate_provider.model import StoredRequest, read_row
from wakegate_provider.policy import Policy
from wakegate_provider.problems import Problem, missing
from wakegate_provider.store import ProviderStore
from wakegate_schema import ids, strict_json, timestamps
from wakegate_schema.clock import DAY

MAX_PENDING = 10_000
"""How many requests of one instance may be outstanding."""

MAX_WINDOW = 30 * DAY
"""The longest time from creation to `deadline_at`; a longer timeout is shortened to it (AAP, requests)."""

PLANS: Mapping[str, Literal["approved", "denied"] | None] = {
    "approve": "approved",
    "deny": "denied",
    "ask": None,
}
"""What each of the policy's decisions makes of a request."""


def create(
    store: ProviderStore, policy: Policy, instance_id: str, key: str, submission: bytes, now: int
) -> tuple[StoredRequest, bool]:
    """Create a request, or return the one that this key created.

    Args:
        store: the provider's store.
        policy: what decides at once, later, or not at all.
        instance_id: the authenticated instance.
        key: the creation's idempotency key, scoped to the instance.
        submission: the checked `NewRequest` as exact JSON.
        now: µs since the epoch.

    Returns:
        The request, decided already if the policy says so, and whether it is new.

    Raises:
        Problem: 409 `idempotency_conflict`, 429 `too_many_pending`, 401 when the instance is deleted by now.
    """
    submitted = cast("strict_json.JsonObject", strict_json.parse(submission))
    with store.transaction():
        row = store.one("request_by_key", instance_id=instance_id, idempotency_key=key)
        if row is None:
            _check_room(store, instance_id)
            return _insert(store, _draft(policy, instance_id, key, submitted, submission, now)), True
    known = read_row(StoredRequest, row)
    if not strict_json.equal(known.submitted(), submitted):
        raise Problem(
            409,
            "idempotency_conflict",
            "This Idempotency-Key was used for a request with other fields; use a new key for a new request.",
        )
    return settled(store, known, now), False


def read(store: ProviderStore, instance_id: str, request_id: str, now: int) -> StoredRequest:
    """Return an instance's request as it is now; never pending past its deadline.

    Raises:
        Problem: 404, the same for an unknown request and for another instance's.
    """
    row = store.one("request_of_instance", request_id=request_id, instance_id=instance_id)
    if row is None:
        raise missing("request")
    return settled(store, read_row(StoredRequest, row), now)


def cancel(store: ProviderStore, instance_id: str, request_id: str, now: int) -> StoredRequest:
    """Cancel a pending request; cancelling it again changes nothing.

    Raises:
        Problem: 404 as `read`; 409 `already_terminal` when it was approved, denied or has expired.
    """
    request = read(store, instance_id, request_id, now)
    if request.status == "pending":
        with store.transaction():
            request = record(store, request, refusal(request, "cancelled", "instance", now))
    if request.status != "cancelled":
        raise Problem(409, "already_terminal", f"The request is already {request.status}.")
    return request


def listed(
    store: ProviderStore, status: str | None, limit: int | None, *, payload: bool
) -> Iterator[strict_json.JsonObject]:
    """Give requests with the state of their notification, the newest first.

    Args:
        store: the provider's store.
        status: only these, or any.
        limit: at most so many, or all.
        payload: also what was submitted: arguments, context, reasoning and timeout.
    """
    for row in store.each("list_requests", status=status, limit=-1 if limit is None else limit):
        yield view(row, payload=payload)


def view(row: Row, *, payload: bool) -> strict_json.JsonObject:
    """Return a request with the state of its notification, as a reviewer sees it."""
    request = read_row(StoredRequest, row)
    submitted = {name: value for name, value in request.submitted().items() if name != "tool"} if payload else {}
    return {
        "request_id": request.request_id,
        "instance_id": request.instance_id,
        "tool": request.tool,
        "status": request.status,
        **submitted,
        "created_at": timestamps.render(request.created_at),
        "deadline_at": timestamps.render(request.deadline_at),
        "decided_at": timestamps.render_known(request.decided_at),
        "decided_by": request.decided_by,
        "note": request.note,
        "expires_at": timestamps.render_known(request.expires_at),
        "consumed_at": timestamps.render_known(request.consumed_at),
        "outcome": request.outcome,
        "outcome_note": request.outcome_note,
        "reported_at": timestamps.render_known(request.reported_at),
        "event_id": row["event_id"],
        "deliveries_wanted": row["wanted"],
        "deliveries_made": row["made"],
        "attempts": row["attempts"],
        "last_result": row["last_result"],
        "delivered_at": timestamps.render_known(row["delivered_at"]),
    }


def _check_room(store: ProviderStore, instance_id: str) -> None:
    """Refuse when the instance is gone or has too much outstanding; the caller holds the transaction."""
    row = store.one("instance_by_id", instance_id=instance_id)
    if row is None or row["deleted_at"] is not None:
        raise Problem(401, "invalid_credential", "The credential is not valid.")
    counted = store.one("count_pending", instance_id=instance_id)
    if counted is not None and counted["pending"] >= MAX_PENDING:
        raise Problem(
            429,
            "too_many_pending",
            f"An instance may have {MAX_PENDING} pending requests; wait for decisions or cancel some.",
            retry_after=5,
        )


def _insert(store: ProviderStore, request: StoredRequest) -> StoredRequest:
    """Insert the request and, if the policy decides at once, its decision, in the caller's transaction."""
    store.run("insert_request", **asdict(request))
    if request.planned_at == request.created_at:
        return record(store, request, planned_outcome(request, request.created_at))
    return request


def _draft(
    policy: Policy, instance_id: str, key: str, submitted: strict_json.JsonObject, submission: bytes, now: int
) -> StoredRequest:
    """Return a new pending request with what the policy plans for it."""
    tool = cast("str", submitted["tool"])
    window = timestamps.duration(cast("str", submitted["timeout"]))
    rule = policy.rule_for(tool)
    return StoredRequest(
        request_id=ids.new(),
        instance_id=instance_id,
        idempotency_key=key,
        tool=tool,
        submission=submission,
        approval_ttl=rule.approval_ttl,
        created_at=now,
        deadline_at=now + min(window, MAX_WINDOW),
        planned_at=None if rule.decision == "ask" else now + rule.delay,
        planned_status=PLANS[rule.decision],
        planned_note=rule.note,
        status="pending",
        resolution=None,
        decided_at=None,
        decided_by=None,
        note=None,
        expires_at=None,
    )
