"""Decisions: where they come from, behind one small protocol (DESIGN, "The start, step by step")."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from wakegate_schema.errors import WakegateError
from wakegate_schema.records import Execution
from wakegate_schema.wire import ApprovalRequest, OutcomeStatus

SILENT: Final = "timeout"
"""The problem of a source that does not answer."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the source said of one request, just now and in full; nothing of it is believed before the boundary."""

    request: ApprovalRequest
    server_date: float | None
    """The source's own clock when it answered, in Unix seconds; None when it did not say."""
    received_monotonic: float
    """This process's `time.monotonic()` when the answer began to arrive."""


class CancelAnswer(StrEnum):
    """How the source answered a cancel. Every one of them settles it."""

    CANCELLED = "cancelled"
    """The request is cancelled, now or since before."""
    ALREADY_TERMINAL = "already_terminal"
    """The request was decided first."""
    NOT_FOUND = "not_found"
    """The source does not know the request (any more)."""


class ConsumeRefusal(StrEnum):
    """Why the source did not consume an approval under the key."""

    ALREADY_CONSUMED = "already_consumed"
    """Under another key: somebody else has spent it."""
    NOT_APPROVED = "not_approved"
    """There is no approval to be consumed."""
    APPROVAL_EXPIRED = "approval_expired"
    """Its end came first."""
    UNSUPPORTED = "unsupported"
    """The source does not know consumption."""


class ReportAnswer(StrEnum):
    """How the source answered the word of an outcome. Every one of them settles it."""

    TOLD = "told"
    """It is on record there, now or since before."""
    OUTCOME_CONFLICT = "outcome_conflict"
    """Another word is on record there, and stays."""
    NOT_CONSUMED = "not_consumed"
    """The source does not know of the consumption."""
    NOT_FOUND = "not_found"
    """The source does not know the request (any more), or takes no outcomes."""


class DecisionSource(Protocol):
    """A party that decides. One per instance; nothing above it knows what protocol it speaks.

    Every method raises a `DecisionError`, and nothing else of its own.
    """

    async def submit(self, execution: Execution) -> Reading:
        """Ask for a decision under the saved idempotency key: however often, it is one request.

        Raises:
            SubmissionRejected: this call can never be permitted.
        """
        ...

    async def read(self, execution: Execution, wait_s: float) -> Reading:
        """Return the request as it is, waiting up to `wait_s` seconds for a decision.

        Args:
            execution: one whose request id is known.
            wait_s: seconds, capped at what the source allows; 0 does not wait.
        """
        ...

    async def read_request(self, request_id: str, wait_s: float = 0.0) -> Reading:
        """Return a request by its id, which need not be an execution's; otherwise as `read`."""
        ...

    async def cancel(self, execution: Execution) -> CancelAnswer:
        """Say that no decision is needed any more; the execution's request id is known."""
        ...

    async def consume(self, execution: Execution, key: str) -> Reading | ConsumeRefusal:
        """Spend the approval under this key; repeating it with the same key is harmless, and says the same.

        Returns the request as it is now, which shows the consumption, or why it was not consumed.
        """
        ...

    async def report(self, execution: Execution, status: OutcomeStatus, note: str | None) -> ReportAnswer:
        """Tell what came of a consumed call; repeating it is harmless."""
        ...


class DecisionError(WakegateError):
    """No decision could be had from the source."""

    reason = "no_decision"

    def __init__(
        self, message: str | None = None, *, reason: str | None = None, retry_after_s: float | None = None
    ) -> None:
        """Keep how long the source asked to be left alone, in seconds and however long; None when it did not."""
        super().__init__(message, reason=reason)
        self.retry_after_s = retry_after_s

    @property
    def problem(self) -> str:
        """The machine word to keep while this is being retried, such as `http_503`."""
        return self.reason


class Unreachable(DecisionError):
    """The source gave no usable answer; the same will be tried again."""

    reason = "unreachable"


class InvalidAnswer(DecisionError):
    """The source answered with something that is not what its protocol defines; it will be asked again."""

    reason = "invalid_answer"


class CredentialRefused(DecisionError):
    """The source refused the instance's credential; give the instance a new one."""

    reason = "credential_refused"


class SubmissionRejected(DecisionError):
    """The source will never decide on this call."""

    reason = "submission_rejected"

    def __init__(self, message: str | None = None, *, reason: str | None = None, code: str | None = None) -> None:
        """Keep the source's own word for it, when it gave one; None when the fault was found here."""
        super().__init__(message, reason=reason)
        self.code = code
