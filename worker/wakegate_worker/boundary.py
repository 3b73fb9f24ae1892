"""The boundary: whether what the provider says permits exactly what was saved. Pure; no clock, no I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from wakegate_schema import strict_json, timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Approval, Closing, Execution, RequestIdentity
from wakegate_schema.states import State
from wakegate_schema.strict_json import MalformedJson
from wakegate_schema.wire import ApprovalRequest, Decision

FUTURE_TOLERANCE: Final = 300 * SECOND
"""How far ahead of this clock a decision's time may lie and still be waited for, in µs (DESIGN, start, step 3)."""
ROUNDING: Final = SECOND
"""What a provider that counts in whole seconds may be off when two of its times are compared, in µs."""


class Refusal(StrEnum):
    """Why no decision can ever permit a call; docs/reasons.md explains each."""

    DIGEST_DIFFERS = "digest_differs"
    PAYLOAD_ERASED = "payload_erased"
    PAYLOAD_UNREADABLE = "payload_unreadable"
    REQUEST_ID_DIFFERS = "request_id_differs"
    TOOL_DIFFERS = "tool_differs"
    SERVER_DIFFERS = "server_differs"
    ARGUMENTS_DIFFER = "arguments_differ"
    CONTEXT_DIFFERS = "context_differs"
    REASONING_DIFFERS = "reasoning_differs"
    TIMEOUT_DIFFERS = "timeout_differs"
    CREATED_AT_DIFFERS = "created_at_differs"
    DEADLINE_AT_DIFFERS = "deadline_at_differs"
    STATUS_DISAGREES = "status_disagrees"
    DECISION_DIFFERS = "decision_differs"
    DEADLINE_TOO_LATE = "deadline_too_late"
    DEADLINE_TOO_EARLY = "deadline_too_early"
    DECIDED_TOO_LATE = "decided_too_late"
    DECIDED_TOO_EARLY = "decided_too_early"
    EXPIRES_TOO_EARLY = "expires_too_early"
    TIME_IN_FUTURE = "time_in_future"
    NOTE_MALFORMED = "note_malformed"
    ALREADY_CONSUMED = "already_consumed"


class Ending(StrEnum):
    """Why a call that matched its request ends without a start; docs/reasons.md explains each."""

    DENIED = "denied"
    DEADLINE_PASSED = "deadline_passed"
    CANCELLED_AT_PROVIDER = "cancelled_at_provider"
    APPROVAL_EXPIRED = "approval_expired"


TIME_AHEAD: Final = "time_ahead"
"""The problem of a `NotYet`."""


@dataclass(frozen=True, slots=True)
class Permit:
    """The call may start, by the times in the approval and no other."""

    approval: Approval


@dataclass(frozen=True, slots=True)
class Pending:
    """The request is the one that was saved, and nobody has decided yet."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """The decision's time lies ahead of this clock: read it again then. Nothing is final."""

    due_at: int
    problem: str = TIME_AHEAD


@dataclass(frozen=True, slots=True)
class Close:
    """The call will not start."""

    closing: Closing


Verdict = Permit | Pending | NotYet | Close


def check(execution: Execution, request: ApprovalRequest, now: int) -> Verdict:
    """Compare the provider's request with the saved call and say what may happen (DESIGN, start, steps 3 and 4).

    Before a request id is attached, id, created_at and deadline_at have nothing to be compared with, and are
    only checked against one another.

    Args:
        execution: the saved call, with its payload.
        request: what the provider says, in form already.
        now: this host's wall clock, µs.
    """
    refusal = next(_faults(execution, request), None)
    if refusal is not None:
        return _refuse(execution, request, refusal)
    if request.decision is None:
        return Pending()
    latest = max(_at(request.created_at), _at(request.decision.decided_at))
    if latest > now + FUTURE_TOLERANCE:
        return _refuse(execution, request, Refusal.TIME_IN_FUTURE)
    if latest > now:
        return NotYet(latest)
    return _decided(request.decision, now)


def approval_of(request: ApprovalRequest) -> Approval | None:
    """Return the approval in a request in which `check` has found no fault; None when it is not approved."""
    decision = request.decision
    if decision is None or decision.expires_at is None:
        return None
    return Approval(_at(decision.decided_at), _at(decision.expires_at), decision.note)


def identity_of(request: ApprovalRequest) -> RequestIdentity:
    """Return what to attach once `check` has found no fault."""
    return RequestIdentity(request.id, _at(request.created_at), _at(request.deadline_at))


def _decided(decision: Decision, now: int) -> Verdict:
    decided_at = _at(decision.decided_at)
    if decision.expires_at is not None:  # `_faults`: exactly when approved
        approval = Approval(decided_at, _at(decision.expires_at), decision.note)
        return Permit(approval) if approval.expires_at > now else Close(lapsed(approval))
    state, ending = _ENDINGS[decision.status]
    return Close(Closing(state, ending, decided_at, note=_storable(decision.note)))


def lapsed(approval: Approval) -> Closing:
    """Return the end of a call whose approval a clock has seen the end of."""
    return Closing(
        State.LAPSED, Ending.APPROVAL_EXPIRED, approval.decided_at, approval.expires_at, _storable(approval.note),
        consumed_at=approval.consumed_at,
    )  # fmt: skip


_ENDINGS: Final = {
    "denied": (State.DENIED, Ending.DENIED),
    "expired": (State.EXPIRED, Ending.DEADLINE_PASSED),
    "cancelled": (State.CANCELLED, Ending.CANCELLED_AT_PROVIDER),
}


def _refuse(execution: Execution, request: ApprovalRequest, refusal: Refusal) -> Close:
    # An answer about another request says nothing of ours, which may be pending.
    ours = execution.request_id in (None, request.id)
    cancel = request.status == "pending" or not ours
    return Close(Closing(State.REFUSED, refusal, cancel=cancel))


def _faults(execution: Execution, request: ApprovalRequest) -> Iterator[Refusal]:
    yield from _saved_faults(execution)
    yield from _identity_faults(execution, request)
    yield from _payload_faults(execution, request)
    yield from _status_faults(request)
    yield from _decision_faults(execution, request)
    yield from _time_faults(request)


def _saved_faults(execution: Execution) -> Iterator[Refusal]:
    if execution.arguments is None:
        yield Refusal.PAYLOAD_ERASED
    elif not execution.intact:
        yield Refusal.DIGEST_DIFFERS


def _identity_faults(execution: Execution, request: ApprovalRequest) -> Iterator[Refusal]:
    if execution.request_id is None:
        return
    if request.id != execution.request_id:
        yield Refusal.REQUEST_ID_DIFFERS
    if _at(request.created_at) != execution.request_created_at:
        yield Refusal.CREATED_AT_DIFFERS
    if _at(request.deadline_at) != execution.deadline_at:
        yield Refusal.DEADLINE_AT_DIFFERS


def _payload_faults(execution: Execution, request: ApprovalRequest) -> Iterator[Refusal]:
    if request.tool != execution.tool:
        yield Refusal.TOOL_DIFFERS
    if request.server is not None:  # none was submitted
        yield Refusal.SERVER_DIFFERS
    try:
        arguments = strict_json.parse(execution.arguments or b"")
        context = strict_json.parse(execution.context) if execution.context else {}
    except MalformedJson:
        yield Refusal.PAYLOAD_UNREADABLE
        return
    if not strict_json.equal(request.arguments, arguments):
        yield Refusal.ARGUMENTS_DIFFER
    # No context and an empty one show the approver the same: nothing.
    if not strict_json.equal(request.context or {}, context):
        yield Refusal.CONTEXT_DIFFERS
    if request.agent_reasoning != execution.reasoning:
        yield Refusal.REASONING_DIFFERS
    if request.timeout != execution.timeout:
        yield Refusal.TIMEOUT_DIFFERS


def _status_faults(request: ApprovalRequest) -> Iterator[Refusal]:
    decision = request.decision
    if decision is None:
        if request.status != "pending":
            yield Refusal.STATUS_DISAGREES
        return
    if decision.status != request.status or (decision.expires_at is not None) != (decision.status == "approved"):
        yield Refusal.STATUS_DISAGREES
    if request.consumption is not None and request.consumption.outcome is not None:
        yield Refusal.ALREADY_CONSUMED  # and run: of a call that still waits here nobody has told that
    if decision.status == "approved" and "\0" in (decision.note or ""):
        yield Refusal.NOTE_MALFORMED


def _decision_faults(execution: Execution, request: ApprovalRequest) -> Iterator[Refusal]:
    """One decision for ever (AAP, requests): above all, reading again never moves the end of an approval."""
    if execution.decided_at is None:
        return
    approval = approval_of(request)
    if approval is None or (approval.decided_at, approval.expires_at) != (execution.decided_at, execution.expires_at):
        yield Refusal.DECISION_DIFFERS


def _time_faults(request: ApprovalRequest) -> Iterator[Refusal]:
    created_at, deadline_at = _at(request.created_at), _at(request.deadline_at)
    if deadline_at > created_at + timestamps.duration(request.timeout) + ROUNDING:
        yield Refusal.DEADLINE_TOO_LATE
    if deadline_at < created_at - ROUNDING:
        yield Refusal.DEADLINE_TOO_EARLY
    decision = request.decision
    if decision is None or decision.expires_at is None:
        return
    decided_at = _at(decision.decided_at)
    if decided_at > deadline_at + ROUNDING:
        yield Refusal.DECIDED_TOO_LATE
    if decided_at < created_at - ROUNDING:
        yield Refusal.DECIDED_TOO_EARLY
    if _at(decision.expires_at) <= decided_at:
        yield Refusal.EXPIRES_TOO_EARLY


def _at(text: str) -> int:
    return timestamps.parse(text)


def _storable(note: str | None) -> str | None:
    return None if note is None else note.replace("\0", "\N{REPLACEMENT CHARACTER}")
