"""Notifications: recorded once each, in batches, together with making their executions due."""

from collections.abc import Sequence

from wakegate_schema import clock
from wakegate_schema.records import Arrival, Notification, Receipt
from wakegate_schema.states import UNDECIDED, State
from wakegate_schema.store.batch_sizes import padded
from wakegate_schema.store.errors import Collided
from wakegate_schema.store.transaction import Row, Transaction
from wakegate_schema.store.verbs import anomalies
from wakegate_schema.store.verbs.mapping import LAST, MANY
from wakegate_schema.store.verbs.mapping import record as to_record

KEPT = 8 * clock.DAY
"""How long an event id is known after its receipt, and a retired registration still answered (AAP, asynchronous
requirement 7: retry window and grace period)."""

_SAVED, _DUPLICATE, _NOT_LIVE = Receipt("saved"), Receipt("duplicate"), Receipt("not_live")

_Key = tuple[str, str]
_Call = tuple[str, str, str]
_Seen = tuple[str, str, bytes]
_New = tuple[Arrival, str, str | None]


def record(tx: Transaction, arrivals: Sequence[Arrival]) -> list[Receipt]:
    """Record what is new, count what is not, in a handful of statements for the whole batch.

    Nearly every event is new, so they are taken for new, and looked up only where the database says that they are not.

    Raises `Collided` when an event was neither new nor there, as another transaction was in the way.
    """
    names = {(a.registration_id,) for a in arrivals}
    known = {row["registration_id"]: row for row in tx.all_rows("registrations_among", list(names))}
    registrations = [_speaking(known.get(a.registration_id), a) for a in arrivals]
    live = [a for a, registration in zip(arrivals, registrations, strict=True) if registration is not None]
    states = _states(tx, live)
    firsts: dict[_Key, _New] = {}
    for arrival, registration in zip(arrivals, registrations, strict=True):
        if registration is not None and _key(arrival) not in firsts:
            firsts[_key(arrival)] = (arrival, *_first_state(registration, states.get(_call(arrival))))
    new = _insert(tx, firsts)
    seen = _seen(tx, [key for key in firsts if key not in new])
    _make_due(tx, [a for a, state, _ in new.values() if state == "received" and _call(a) in states])
    receipts: list[Receipt] = []
    for arrival, registration in zip(arrivals, registrations, strict=True):
        if registration is None:
            receipts.append(_NOT_LIVE)
        elif first := new.pop(_key(arrival), None):
            seen[_key(arrival)] = (arrival.instance_id, arrival.request_id, arrival.body)
            receipts.append(_recorded(*first[1:]))
        else:
            receipts.append(_again(tx, arrival, seen[_key(arrival)]))
    return receipts


def one(tx: Transaction, event_id: str) -> list[Notification]:
    """Return the notifications with this event id."""
    return [to_record(Notification, row) for row in tx.all("notification", {"event_id": event_id})]


def page(tx: Transaction, after: int, limit: int) -> list[tuple[int, Notification]]:
    """Return a page in order of receipt, with row numbers."""
    found = tx.all("notifications", {"after": after, "limit": limit})
    return [(row["number"], to_record(Notification, row)) for row in found]


def latest(tx: Transaction, before: int | None, limit: int) -> list[tuple[int, Notification]]:
    """Return a page, the latest first, with row numbers."""
    found = tx.all("notifications_latest", {"before": LAST if before is None else before, "limit": limit})
    return [(row["number"], to_record(Notification, row)) for row in found]


def called(tx: Transaction, prefix: str) -> list[Notification]:
    """Return those whose event ids begin with the prefix."""
    return [to_record(Notification, row) for row in tx.all("notifications_from", {"prefix": prefix, "limit": MANY})]


def unhandled(tx: Transaction, provider: str, instance_id: str, request_id: str) -> bool:
    """Return whether a notification about this request waits to be acted on."""
    key = {"provider": provider, "instance_id": instance_id, "request_id": request_id}
    return tx.first("notification_unhandled", key) is not None


def _key(arrival: Arrival) -> _Key:
    """Return what names the event."""
    return arrival.provider, arrival.event_id


def _call(arrival: Arrival) -> _Call:
    """Return what names the call in question."""
    return arrival.provider, arrival.instance_id, arrival.request_id


def _speaking(registration: Row | None, arrival: Arrival) -> Row | None:
    """Return the registration if it speaks for the instance."""
    if registration is None or registration["instance_id"] != arrival.instance_id:
        return None
    until = registration["superseded_until"]
    if until is not None and arrival.received_at >= until:
        return None
    state = registration["state"]
    if state == "retired":
        speaks = arrival.received_at < registration["retired_at"] + KEPT
    else:
        speaks = state in ("verified", "superseded")
    return registration if speaks else None


def _first_state(registration: Row, state: State | None) -> tuple[str, str | None]:
    """Return the state of a new notification and why, given that of the call, if there is one."""
    if registration["state"] == "retired":
        return "discarded", "instance_retired"
    if state is State.ABANDONED:
        return "discarded", "abandoned"
    if state is not None and state not in UNDECIDED:
        return "handled", str(state)
    return "received", None


def _recorded(state: str, reason: str | None) -> Receipt:
    """Return the receipt of a new notification in this state."""
    return Receipt("discarded" if state == "discarded" else "saved", reason) if reason else _SAVED


def _states(tx: Transaction, live: list[Arrival]) -> dict[_Call, State]:
    """Return the states of those calls in question that are on record here."""
    if not live:
        return {}
    found = tx.all_rows("executions_notified", padded([_call(a) for a in live]))
    return {(row["provider"], row["instance_id"], row["request_id"]): State(row["state"]) for row in found}


def _seen(tx: Transaction, keys: list[_Key]) -> dict[_Key, _Seen]:
    """Return what was recorded of events that were there before."""
    if not keys:
        return {}
    found = {
        (row["provider"], row["event_id"]): (row["instance_id"], row["request_id"], row["body"])
        for row in tx.all_rows("notifications_among", padded(keys))
    }
    if len(found) < len(keys):
        raise Collided("another transaction has just had the same event; try again")
    return found


def _again(tx: Transaction, arrival: Arrival, first: _Seen) -> Receipt:
    instance_id, request_id, body = first
    if (instance_id, request_id) != (arrival.instance_id, arrival.request_id):
        _note(tx, arrival, "event_id_conflict", f"names request {arrival.request_id}, not {request_id}")
        return Receipt("conflict", "event_id_conflict")
    tx.change("notification_duplicate", {"provider": arrival.provider, "event_id": arrival.event_id})
    if body != arrival.body:
        _note(tx, arrival, "event_other_bytes", "the same event came with other bytes; the first are kept")
        return Receipt("duplicate", "other_bytes")
    return _DUPLICATE


def _note(tx: Transaction, arrival: Arrival, kind: str, detail: str) -> None:
    anomalies.note(
        tx, kind=kind, provider=arrival.provider, instance_id=arrival.instance_id, subject_id=arrival.event_id,
        detail=detail, at=arrival.received_at,
    )  # fmt: skip


def _insert(tx: Transaction, firsts: dict[_Key, _New]) -> dict[_Key, _New]:
    """Insert those that are not there yet; return which these were."""
    if not firsts:
        return {}
    added = tx.new_rows(
        "notification_add",
        [
            (
                a.provider, a.instance_id, a.event_id, a.request_id, a.registration_id, state, reason, a.created_at,
                a.received_at, None if state == "received" else a.received_at,
                max(a.received_at, a.created_at) + KEPT, a.body,
            )
            for a, state, reason in firsts.values()
        ],
    )  # fmt: skip
    if added is None:
        return dict(firsts)
    return {key: firsts[key] for row in added for key in [(row["provider"], row["event_id"])]}


def _make_due(tx: Transaction, undecided: list[Arrival]) -> None:
    """Make due the calls that wait for these, which were seen in this transaction: nothing changes them meanwhile."""
    if undecided:
        # Due since the decision, should this clock be ahead of the worker's.
        since = min(min(a.received_at, a.created_at) for a in undecided)
        tx.change_rows("executions_make_due", [_call(a) for a in undecided], since)
