"""Standing promises: what must hold of the store after every step, and once everything has come to rest."""

from collections.abc import Iterator

from model.approver import FALSIFIED
from model.reference import Call, Reference, give_up_at, given_up_at
from model.snapshot import Row, Snapshot

from wakegate_schema.clock import HOUR
from wakegate_schema.downstream import consumption_key

UNRESOLVED = {
    "saved": "due_at",
    "submitting": "due_at",
    "waiting": "due_at",
    "permitted": "expires_at",
    "started": "lease_until",
    "in_doubt": "reason",
}
"""What says, in every state that is not the last, when or why it goes on."""
QUIET = ("saved", "submitting", "waiting", "started")
"""The states that no harness is told of."""
OWING = ("abandoned", "refused", "unobtained")
"""The states whose request may still be pending."""
UNFORESEEN = ("internal_error", "invariant_violated", "not_allowed", "not_found", "unstorable_value")
"""Problems that mean that the program met what it did not expect."""


def broken(reference: Reference, now: Snapshot) -> Iterator[str]:
    """Yield every promise that does not hold."""
    yield from reference.complaints
    for call in reference.calls.values():
        row = now.executions.get(call.execution_id)
        if row is None:
            yield f"{call.key} is not in the store any more"
            continue
        yield from _kept(call, row)
        yield from _goes_on(row, reference.now())
        yield from _told(call, now)
        yield from _owes(reference, call, row)
        yield from _consumed(reference, call, row)
    yield from _events(reference, now)
    yield from _hints(reference, now)


def _kept(call: Call, row: Row) -> Iterator[str]:
    if (row["provider"], row["instance_id"], row["idempotency_key"]) != (*call.instance, call.key):
        yield f"{call.key} is on record under another name"
    if row["erased_at"] is None and row["arguments"] != call.arguments:
        yield f"{call.key} has other arguments than were saved"
    if len(call.begun) > 1 or call.effects > 1:
        yield f"{call.key} began {len(call.begun)} times and happened {call.effects} times"


def _goes_on(row: Row, at: int) -> Iterator[str]:
    needed = UNRESOLVED.get(row["state"])
    if needed is not None and row[needed] is None:
        yield f"{row['idempotency_key']} is {row['state']} and has no {needed}"
    if row["state"] in ("saved", "submitting", "waiting") and row["due_at"] > max(give_up_at(row), at + HOUR):
        yield f"{row['idempotency_key']} is not looked at again until after it is given up"
    if row["problem"] in UNFORESEEN:
        yield f"{row['idempotency_key']} has met {row['problem']}"


def _told(call: Call, now: Snapshot) -> Iterator[str]:
    for change in now.transitions[call.execution_id]:
        if call.wake == "none" or change["to_state"] in QUIET:
            continue
        if change["to_state"] == "permitted" and call.runs == "worker":
            continue
        wake = now.wakes.get(f"{call.execution_id}_{change['number']}")
        if wake is None or wake["to_state"] != change["to_state"] or wake["target"] != call.wake:
            yield f"nobody is told that {call.key} is {change['to_state']}"


def _owes(reference: Reference, call: Call, row: Row) -> Iterator[str]:
    request = reference.request(call)
    if request is None or request.status != "pending" or call.instance in reference.retired:
        return
    if row["state"] in OWING and row["cancel_due_at"] is None and reference.now() < given_up_at(row):
        yield f"{call.key} is {row['state']}, its request is pending, and no cancel is owed"


def _consumed(reference: Reference, call: Call, row: Row) -> Iterator[str]:
    """What the store has as consumed, this call has; and of what is over, the provider is told, or to be told."""
    request = reference.request(call)
    if row["consumed_at"] is None or request is None:
        return
    if request.spent_at != row["consumed_at"]:
        yield f"{call.key} is on record as consumed, and was not then"
    owes = row["report_due_at"] is not None or call.instance in reference.retired
    if row["finished_at"] is not None and request.outcome is None and not owes:
        yield f"{call.key} was consumed and is {row['state']}, and its provider is never told"
    if request.outcome == "succeeded" and row["state"] != "succeeded":
        yield f"{call.key} was reported as succeeded, and is {row['state']}"


def _events(reference: Reference, now: Snapshot) -> Iterator[str]:
    for (provider, event_id), event in reference.events.items():
        row = now.notifications.get((provider, event_id))
        if row is None:
            if event.acknowledged:
                yield f"event {event_id} of {provider} was acknowledged and is not in the store"
        elif (row["instance_id"], row["request_id"], row["body"]) != (
            event.instance[1], event.request_id, event.body,
        ):  # fmt: skip
            yield f"event {event_id} of {provider} is not kept as it came first"
    for provider, event_id in now.notifications.keys() - reference.events.keys():
        yield f"event {event_id} of {provider} is in the store, and never came"


def _hints(reference: Reference, now: Snapshot) -> Iterator[str]:
    """Yield what was notified, waits, and is not about to be looked at."""
    at = reference.now()
    waiting = {
        (row["provider"], row["instance_id"], row["request_id"]): row
        for row in now.executions.values()
        if row["request_id"] is not None
    }
    for told in now.notifications.values():
        row = waiting.get((told["provider"], told["instance_id"], told["request_id"]))
        if told["state"] != "received" or row is None:
            continue
        if row["state"] not in ("submitting", "waiting"):
            yield f"the event about {row['idempotency_key']} is unhandled, and it is {row['state']}"
        elif row["epoch"] == now.epoch and row["problem"] is None and (row["lease_until"] or 0) <= at < row["due_at"]:
            yield f"{row['idempotency_key']} was notified and is not looked at before {row['due_at'] - at} µs are over"


def unsettled(reference: Reference, now: Snapshot) -> Iterator[str]:
    """Yield every call that has not come to rest where the truth says it must."""
    for call in reference.calls.values():
        row = now.executions[call.execution_id]
        allowed = _rest(reference, call, row)
        if row["state"] not in allowed:
            yield f"{call.key} came to rest as {row['state']} and not as {' or '.join(sorted(allowed))}"
        if call.must_run and not call.begun and row["state"] != "failed":
            yield f"{call.key} was approved in time, nothing stood in its way, and it never ran"
    for wake in now.wakes.values():
        if wake["state"] == "owed":
            yield f"wake {wake['wake_id']} was never delivered"


def _rest(reference: Reference, call: Call, row: Row) -> set[str]:
    """The states in which this call may end, by what has truly happened."""
    if call.person is not None:
        return {"succeeded" if call.person else "failed"}
    if row["started_at"] is not None:
        return _after_start(call)
    if call.abandoned:
        return {"abandoned"}
    request = reference.request(call)
    ends = {"unobtained", "abandoned"} & {row["state"]}  # whether it could be, was seen when it became so
    if request is None or request.status == "pending":
        return ends
    if call.kind == FALSIFIED:
        return ends | {"refused"}
    if request.spent_by not in (None, consumption_key(call.execution_id, row["epoch"])):
        ends |= {"refused"}  # in an epoch of before
    return ends | {"lapsed" if request.status == "approved" else request.status}


def _after_start(call: Call) -> set[str]:
    """What a started call may end as. What nobody told may have been told all the same, its answer lost."""
    ends = {"lapsed", "failed"} if not call.begun else {"succeeded" if call.effects else "failed"}
    if call.probed:
        return ends
    if call.word == "unknown":
        return {"in_doubt"}
    return ends if call.told else ends | {"in_doubt"}
