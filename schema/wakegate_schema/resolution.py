"""Resolutions: what a harness is told of a call, whether it asks, waits or is woken (DESIGN, "Interfaces")."""

import json
from dataclasses import dataclass, field
from typing import Any, Final

from wakegate_schema import timestamps
from wakegate_schema.records import Execution
from wakegate_schema.states import HOLD_LOST, WAIT_LIMIT, State


@dataclass(frozen=True, slots=True)
class Resolution:
    """Where a call stands, and for a resolved one how it ended. Times are µs since the Unix epoch."""

    id: str
    """The wake id: the same for every repeat of one transition."""
    execution_id: str
    key: str
    """The idempotency key the call was saved under."""
    instance_id: str
    request_id: str | None
    tool: str
    state: State
    reason: str | None
    """Machine word for the last change of state."""
    note: str | None = field(repr=False)
    """What the approver wrote."""
    decided_at: int | None
    expires_at: int | None
    result: Any = field(repr=False)
    """What the tool returned, as the standard library's json reads it; None also when there is none."""
    error: str | None = field(repr=False)
    finished_at: int | None
    group: str | None

    @property
    def explanation(self) -> str:
        """One sentence for the agent. Only a denial is called one (AAP, execution rules)."""
        sentence = _EXPLANATIONS[self.state]
        # Given up while waiting is no denial, and to the agent the same as no decision.
        if self.state is State.ABANDONED and self.reason in (WAIT_LIMIT, HOLD_LOST):
            return f"{_EXPLANATIONS[State.UNOBTAINED]}."
        if self.state is State.DENIED and self.note:
            return f'{sentence}; the note says: "{_one_line(self.note)}".'
        if self.state is State.FAILED and self.error:
            return f"{sentence}: {_one_line(self.error).rstrip('.')}."
        return f"{sentence}."

    def to_json(self) -> dict[str, Any]:
        """Return the resolution as JSON values, every field present, times as RFC 3339 text."""
        return {
            "id": self.id,
            "execution_id": self.execution_id,
            "key": self.key,
            "instance_id": self.instance_id,
            "request_id": self.request_id,
            "tool": self.tool,
            "state": self.state.value,
            "reason": self.reason,
            "note": self.note,
            "decided_at": timestamps.render_known(self.decided_at),
            "expires_at": timestamps.render_known(self.expires_at),
            "result": self.result,
            "error": self.error,
            "finished_at": timestamps.render_known(self.finished_at),
            "group": self.group,
        }


def resolution_of(execution: Execution, wake_id: str, state: State | None = None) -> Resolution:
    """Return what to tell of an execution.

    Args:
        execution: as it is now.
        wake_id: the wake this is told by.
        state: the state that the wake tells of; when the execution has moved on since, what came after that state
            (reason, result, error, finished_at) is left for the next wake. The present state when None.
    """
    told = state or execution.state
    current = told == execution.state
    return Resolution(
        id=wake_id,
        execution_id=execution.execution_id,
        key=execution.idempotency_key,
        instance_id=execution.instance_id,
        request_id=execution.request_id,
        tool=execution.tool,
        state=told,
        reason=execution.reason if current else None,
        note=execution.note,
        decided_at=execution.decided_at,
        expires_at=execution.expires_at,
        result=json.loads(execution.result) if current and execution.result is not None else None,
        error=execution.error if current else None,
        finished_at=execution.finished_at if current else None,
        group=execution.group,
    )


_UNDECIDED: Final = "The call waits for a decision and has not run"
_EXPLANATIONS: Final = {
    State.SAVED: _UNDECIDED,
    State.SUBMITTING: _UNDECIDED,
    State.WAITING: _UNDECIDED,
    State.PERMITTED: "The call is approved and has not been started yet",
    State.STARTED: "The call is approved and was started; how it ended is not known yet",
    State.SUCCEEDED: "The call was approved and ran",
    State.FAILED: "The call was approved and started, but it failed and did not take effect",
    State.IN_DOUBT: (
        "The call was approved and started, but nobody knows whether it took effect, so it must not be repeated"
        " before somebody has found out"
    ),
    State.DENIED: "The call was denied and did not run",
    State.EXPIRED: "Nobody decided before the deadline, so the call did not run",
    State.CANCELLED: "The approval request was cancelled, so the call did not run",
    State.LAPSED: "The call was approved, but it was not started while the approval was valid, so it did not run",
    State.REFUSED: "No valid approval of exactly this call can be had, so it did not run",
    State.UNOBTAINED: "A decision on the call could not be obtained, so it did not run",
    State.ABANDONED: "The call was given up before it started, so it did not run",
}


def _one_line(text: str) -> str:
    return " ".join(text.split())
