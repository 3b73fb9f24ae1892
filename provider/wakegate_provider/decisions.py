"""Decisions: one outcome for each request, recorded with its notification in one transaction."""

from dataclasses import asdict, dataclass

from wakegate_provider.model import DecidedBy, Status, StoredRequest, read_row
from wakegate_provider.store import ProviderStore
from wakegate_schema import ids, timestamps, wire
from wakegate_schema.clock import HOUR

RETRY_WINDOW = 168 * HOUR
"""How long after `decided_at` a notification is retried (AAP, delivery)."""

STEP = 100
"""How many requests one transaction of the timer decides at most."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request came to. Times are in µs since the epoch."""

    status: Status
    decided_by: DecidedBy
    decided_at: int
    note: str | None = None
    expires_at: int | None = None


def approval(request: StoredRequest, by: DecidedBy, now: int, note: str | None, ttl: int | None = None) -> Outcome:
    """Return an approval that ends `ttl` µs from now, else after the time the policy gave the request."""
    decided_at = max(now, request.created_at)
    return Outcome("approved", by, decided_at, note, decided_at + (ttl or request.approval_ttl))


def refusal(request: StoredRequest, status: Status, by: DecidedBy, now: int, note: str | None = None) -> Outcome:
    """Return a denial or a cancellation at this moment."""
    return Outcome(status, by, max(now, request.created_at), note)


def overdue(request: StoredRequest, now: int) -> Outcome | None:
    """Return the expiry of a request that is pending past its deadline: nothing else can become of it."""
    if request.status == "pending" and now >= request.deadline_at:
        return Outcome("expired", "deadline", request.deadline_at)
    return None


def record(store: ProviderStore, request: StoredRequest, outcome: Outcome) -> StoredRequest:
    """Record a decision with its notification; the caller holds the transaction.

    Returns:
        The request as it now is: with this outcome, or with the one that it already had (AAP, provider
        requirement 4).
    """
    if store.run("decide", request_id=request.request_id, **asdict(outcome)):
        _notify(store, request, outcome)
    return reread(store, request)


def settled(store: ProviderStore, request: StoredRequest, now: int) -> StoredRequest:
    """Return the request, expired on the spot past its deadline; the caller holds no transaction."""
    expiry = overdue(request, now)
    if expiry is None:
        return request
    with store.transaction():
        return record(store, request, expiry)


def decide_due(store: ProviderStore, now: int) -> int:
    """Expire what is past its deadline, then carry out what the policy planned, a bounded step of both.

    Args:
        store: the provider's store.
        now: µs since the epoch.

    Returns:
        How many requests were looked at; as long as it is not 0 there may be more.
    """
    with store.transaction():
        late = [read_row(StoredRequest, row) for row in store.all("overdue", now=now, limit=STEP)]
        for request in late:
            record(store, request, Outcome("expired", "deadline", request.deadline_at))
        planned = [read_row(StoredRequest, row) for row in store.all("planned", now=now, limit=STEP)]
        for request in planned:
            record(store, request, overdue(request, now) or planned_outcome(request, now))
    return len(late) + len(planned)


def next_due(store: ProviderStore) -> int | None:
    """Return when `decide_due` is needed next, in µs since the epoch; None when nothing is pending."""
    row = store.one("next_due")
    return None if row is None else row["due_at"]


def planned_outcome(request: StoredRequest, now: int) -> Outcome:
    """Return what the policy planned for this request, as a decision made now."""
    if request.planned_status == "approved":
        return approval(request, "policy", now, request.planned_note)
    return refusal(request, "denied", "policy", now, request.planned_note)


def reread(store: ProviderStore, request: StoredRequest) -> StoredRequest:
    """Return the request as the store has it now."""
    row = store.one("request_by_id", request_id=request.request_id)
    return request if row is None else read_row(StoredRequest, row)


def _notify(store: ProviderStore, request: StoredRequest, outcome: Outcome) -> None:
    """Write the notification of a decision, if the instance has delivery (AAP, requirement 3)."""
    event = wire.ResolvedEvent(
        id=ids.new(),
        type="request.resolved",
        instance_id=request.instance_id,
        request_id=request.request_id,
        created_at=timestamps.render(outcome.decided_at),
    )
    store.run(
        "insert_notification",
        event_id=event.id,
        instance_id=request.instance_id,
        request_id=request.request_id,
        body=wire.object_bytes(event),
        next_at=outcome.decided_at,
        retry_until=outcome.decided_at + RETRY_WINDOW,
    )
