"""The rules: what may have become of one call, judged by what the provider and the clocks say. Pure."""

from collections.abc import Iterator

from soak.calls import FATES, VALID_FOR_LONG_S
from soak.clocks import BLUR, SECOND, Knowledge, Readings
from soak.reading import Row
from soak.records import UNRESOLVED, Case

STARTED_STATES = frozenset({"started", "succeeded", "failed", "in_doubt"})
ARROWS = frozenset(
    {(None, "saved"), ("saved", "submitting"), ("submitting", "waiting"), ("waiting", "permitted")}
    | {("permitted", "started"), ("permitted", "lapsed"), ("started", "lapsed")}
    | {("started", state) for state in ("succeeded", "failed", "in_doubt")}
    | {("in_doubt", "succeeded"), ("in_doubt", "failed")}
    | {("waiting", state) for state in ("denied", "expired", "cancelled", "lapsed")}
    | {("submitting", state) for state in ("permitted", "denied", "expired", "cancelled", "lapsed")}
    | {(state, "abandoned") for state in ("saved", "submitting", "waiting", "permitted")}
)
"""Refused and unobtained are missing: nothing that the soak does justifies them."""
BY_TIME = frozenset({"approval_expired", "not_claimed"})
"""Reasons of a lapse: the approval's end came."""
SPENT_IN_VAIN = frozenset(
    {"clock_behind", "start_too_slow", "start_unconfirmed", "store_unavailable", "lapsed_at_start"}
    | {"cancelled_at_start", "no_server_date"}
)
"""Reasons of a lapse: the permission was spent and the holder knows that nothing began."""
NEVER_BEGUN = SPENT_IN_VAIN | {"approval_expired", "probe_found_nothing"}
"""Reasons of a failure: it was in doubt by the time that the holder, or the probe, could say that nothing began."""
OF_A_HOLD = frozenset({"hold_lost", "hold_interrupted", "wait_limit", "too_late", "clock_behind", "not_started"})
DATE_GRAIN = SECOND
"""A provider's Date has whole seconds."""
HURRY = SECOND
"""How long the last look at the clocks may lie before the effect on a busy machine, µs."""


def faults(case: Case, readings: Readings, known: Knowledge) -> Iterator[str]:
    """Say everything about a call that must not be; nothing if it is as it must be.

    Args:
        case: the call.
        readings: what the host's clock showed.
        known: what the host's processes knew of the time.
    """
    if len(case.effects) > 1:
        yield f"it happened {len(case.effects)} times"
    if case.execution is None:
        if case.saved:
            yield "it was said to be saved and is not in the store"
        if case.request is not None:
            yield "the provider has its request, and the store does not have it"
        if case.effects:
            yield "it happened without being in the store"
        return
    yield from _history(case, case.execution)
    yield from _end(case, case.execution, readings, known)


def _history(case: Case, execution: Row) -> Iterator[str]:
    """The transitions make one chain of allowed steps that ends where the execution stands."""
    before = None
    for number, step in enumerate(case.transitions, 1):
        if step["number"] != number or step["from_state"] != before:
            yield f"transition {step['number']} does not follow on"
        if (step["from_state"], step["to_state"]) not in ARROWS:
            yield f"there is no step from {step['from_state']} to {step['to_state']} ({step['reason']})"
        before = step["to_state"]
    if before != execution["state"]:
        yield f"it is {execution['state']}, and its history ends with {before}"
    starts = sum(step["to_state"] == "started" for step in case.transitions)
    if starts > 1 or (starts == 1) != (execution["started_at"] is not None):
        yield f"it was started {starts} times, at {execution['started_at']}"
    if execution["state"] not in UNRESOLVED and not execution["reason"]:
        yield f"it is {execution['state']} without a reason"


def _end(case: Case, execution: Row, readings: Readings, known: Knowledge) -> Iterator[str]:
    state, reason, happened = execution["state"], execution["reason"], len(case.effects)
    if state in UNRESOLVED:
        yield f"it is stuck: {state}, problem {execution['problem']}"
    if state not in STARTED_STATES and happened:
        yield f"it happened and is {state} ({reason})"
    if state in STARTED_STATES and state != "started":
        yield from _outcome(case, execution)
    if happened or execution["started_at"] is not None:
        yield from _permission(case, known)
    yield from _agreement(case, state, reason)
    if state == "lapsed":
        yield from _lapse(case, execution, readings)
    if state == "failed" and reason == "approval_expired":
        yield from _by_time(case, reason, readings)
    if state == "abandoned" and not (case.given_up or (case.mode == "hold" and reason in OF_A_HOLD)):
        yield f"it is abandoned ({reason}), and nobody gave it up"


def _outcome(case: Case, execution: Row) -> Iterator[str]:
    """What is on record agrees with what has happened, and with what its tool can say."""
    state, reason, happened = execution["state"], execution["reason"], len(case.effects)
    if state == "succeeded" and happened != 1:
        yield f"it is on record as succeeded ({reason}) and happened {happened} times"
    if state == "failed" and happened:
        yield f"it is on record as failed ({reason}) and happened"
    known = state in case.behaviour.ends
    never_begun = state == "failed" and reason in NEVER_BEGUN
    if state != "in_doubt" and not known and not never_begun:
        yield f"it is {state} ({reason}), which its tool cannot have said"
    if state == "in_doubt" and case.behaviour.probed and not case.void:
        yield f"it is in doubt ({reason}) though its probe can tell"


def _permission(case: Case, known: Knowledge) -> Iterator[str]:
    """Whatever has started was approved, and had its effect before the approval's end by every clock there was."""
    if case.request is None or case.request["status"] != "approved":
        yield f"it was started, and the provider says {None if case.request is None else case.request['status']}"
        return
    ends = case.request["expires_at"]
    for effect in case.effects:
        looked = effect.at - effect.held_up - HURRY
        if case.mode == "worker" and looked >= ends + DATE_GRAIN:
            yield f"it happened {(effect.at - ends) / SECOND:.1f} s after the approval's end"
        if known.at(looked) >= ends:
            yield "it happened after this host had known the approval's end to be over"


def _agreement(case: Case, state: str, reason: str) -> Iterator[str]:
    """The store says what the provider says."""
    status = None if case.request is None else case.request["status"]
    agreed = {
        None: ("abandoned",),
        "approved": (*STARTED_STATES, "lapsed", "abandoned"),
        "denied": ("denied", "abandoned"),
        "expired": ("expired", "abandoned"),
        "cancelled": ("abandoned",),
    }
    if state not in agreed.get(status, ()):
        yield f"it is {state} ({reason}), and the provider says {status}"
    if status == "approved" and FATES[case.fate].decision != "approve":
        yield "the provider approved what its policy does not approve"


def _lapse(case: Case, execution: Row, readings: Readings) -> Iterator[str]:
    """A call may lapse only because a clock had come to the approval's end, or as spent and known not to have begun."""
    reason = execution["reason"]
    if reason in SPENT_IN_VAIN:
        if execution["started_at"] is None:
            yield f"it lapsed by {reason} without having been started"
        return
    if reason not in BY_TIME:
        yield f"it lapsed by {reason}, which nothing justifies"
        return
    yield from _by_time(case, reason, readings)


def _by_time(case: Case, reason: str, readings: Readings) -> Iterator[str]:
    """The approval's end had come by a clock of this host, at the moment on record."""
    if case.request is None or case.request["expires_at"] is None:
        return
    ends, at = case.request["expires_at"], case.transitions[-1]["at"]
    if FATES[case.fate].ttl == f"{VALID_FOR_LONG_S}s":
        yield f"it lapsed ({reason}) with hours of validity left"
    real = readings.showed(at)
    if real is None:
        yield f"it lapsed at a time that this host's clock never showed: {at}"
    elif max(readings.highest(real), real + BLUR) < ends:
        yield f"it lapsed ({reason}) {(ends - readings.highest(real)) / SECOND:.1f} s before its end by every clock"
