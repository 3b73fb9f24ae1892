"""Executions: saved calls, what their provider said of them, and every change of their state."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from wakegate_schema.states import RESOLVED, State

Runs = Literal["worker", "harness"]


@dataclass(frozen=True, slots=True)
class Suspension:
    """A call to be saved: exactly what will be submitted, approved and run."""

    execution_id: str
    provider: str
    instance_id: str
    idempotency_key: str
    tool: str
    arguments: bytes = field(repr=False)
    """A JSON object, UTF-8."""
    context: bytes | None = field(repr=False)
    """A JSON object, UTF-8, or None for no context."""
    reasoning: str | None = field(repr=False)
    timeout: str
    """A duration as AAP writes it, like `30m`."""
    tool_version: str | None
    runs: Runs
    wake: str
    group: str | None
    at: int
    hold_id: str | None = None
    hold_until: int | None = None
    actor: str = "harness"
    """Who saves it, as the records name them: `harness`, or `harness:NAME` over the control API."""

    @property
    def digest(self) -> bytes:
        """SHA-256 that names this exact call; see `call_digest`."""
        return call_digest(self.tool, self.arguments, self.context, self.reasoning, self.timeout)


def call_digest(tool: str, arguments: bytes, context: bytes | None, reasoning: str | None, timeout: str) -> bytes:
    """Return the 32 bytes that name a call: every part the approver sees, each with its length before it."""
    parts = (
        tool.encode(),
        arguments,
        context,
        None if reasoning is None else reasoning.encode(),
        timeout.encode(),
    )
    pieces = (b"-" if part is None else b"%d:%b" % (len(part), part) for part in parts)
    return hashlib.sha256(b"".join(pieces)).digest()


@dataclass(frozen=True, slots=True)
class Execution:
    """A saved call and everything that became of it."""

    execution_id: str
    provider: str
    instance_id: str
    idempotency_key: str
    tool: str
    arguments: bytes | None = field(repr=False)
    """None once the payload was erased (retention)."""
    context: bytes | None = field(repr=False)
    reasoning: str | None = field(repr=False)
    timeout: str
    digest: bytes = field(repr=False)
    tool_version: str | None
    runs: Runs
    wake: str
    group: str | None
    state: State
    reason: str | None
    """Machine word for the last change of state."""
    problem: str | None
    """What keeps the execution from going on, while it is being retried; None when nothing does."""
    tries: int
    """Consecutive tries that brought nothing, for backoff."""
    due_at: int | None
    lease_number: int
    """The fencing number: raised by every lease and claim."""
    lease_until: int | None
    lease_owner: str | None
    hold_id: str | None
    hold_until: int | None
    request_id: str | None
    request_created_at: int | None
    deadline_at: int | None
    decided_at: int | None
    expires_at: int | None
    note: str | None = field(repr=False)
    claim_id: str | None
    attempt_number: int | None
    """The fencing number at the start, frozen."""
    started_at: int | None
    finished_at: int | None
    result: bytes | None = field(repr=False)
    error: str | None
    cancel_due_at: int | None
    cancel_tries: int
    created_at: int
    changed_at: int
    erased_at: int | None
    epoch: int
    """The store's epoch it belongs to; only those of the present one go on by themselves."""
    released_at: int | None
    """When an operator last released it into the present epoch; None if that was never needed."""
    resolution_note: str | None = field(default=None, repr=False)
    """What the person who settled a doubt wrote about it."""
    provider_ahead: int = 0
    """By how many µs the provider's clock was ahead of the worker's at the permission."""
    release_note: str | None = field(default=None, repr=False)
    """What the person who last released it into a new epoch wrote about it."""
    consumed_at: int | None = None
    """When the provider says that this execution consumed its approval (AAP, consumption); None if it did not."""
    report_due_at: int | None = None
    """When its outcome is to be reported to the provider; None when nothing is owed."""
    report_tries: int = 0

    @property
    def lease(self) -> "Lease":
        """The lease that this reading of the row was given under."""
        return Lease(self.execution_id, self.lease_number)

    @property
    def intact(self) -> bool:
        """Whether the payload is here, and still the one that was saved."""
        return self.arguments is not None and self.digest == call_digest(
            self.tool, self.arguments, self.context, self.reasoning, self.timeout
        )

    @property
    def resolved(self) -> bool:
        """Whether no arrow leaves the state."""
        return self.state in RESOLVED


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one execution, good while nobody has taken a later number and time has not run out."""

    execution_id: str
    number: int


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """What the provider said of a submitted request, which never changes afterwards."""

    request_id: str
    created_at: int
    deadline_at: int


@dataclass(frozen=True, slots=True)
class Approval:
    """A checked approval (AAP: decision with status approved)."""

    decided_at: int
    expires_at: int
    note: str | None = field(repr=False)
    consumed_at: int | None = None
    """When the provider says that this execution consumed it, µs; None while it has not."""


@dataclass(frozen=True, slots=True)
class Closing:
    """How an execution ends without having been started."""

    state: State
    """denied, expired, cancelled, lapsed, refused or unobtained."""
    reason: str
    decided_at: int | None = None
    expires_at: int | None = None
    note: str | None = field(default=None, repr=False)
    cancel: bool = False
    """Whether the provider's request may still be pending, so that a cancel is owed."""
    consumed_at: int | None = None
    """When this execution consumed the approval under which it does not start, µs."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of an execution's state; append-only."""

    execution_id: str
    number: int
    from_state: State | None
    to_state: State
    reason: str | None
    actor: str
    at: int

    @property
    def wake_id(self) -> str:
        """The id of the wake that tells of this change, as the database gives it (trigger `transition_wakes`)."""
        return f"{self.execution_id}_{self.number}"
