"""What the store keeps, as values. Times are microseconds since the Unix epoch, ids lower-case UUID text."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from wakegate_schema.states import RESOLVED, State

Runs = Literal["worker", "harness"]
Delivery = Literal["webhook", "none"]


@dataclass(frozen=True, slots=True)
class Registration:
    """A receiving endpoint that a provider may call, and the sealed secret it signs with."""

    registration_id: str
    provider: str
    """Canonical base URL of the provider."""
    name: str
    state: Literal["expected", "verified", "superseded", "retired"]
    sealed_secret: bytes = field(repr=False)
    url: str | None
    """Where the provider delivers; None when the registration was made elsewhere and imported."""
    idempotency_key: str | None
    """Of the creation at the provider, saved before the first attempt, so that a crash repeats the same one."""
    instance_id: str | None
    """The bound instance; in state `expected`, the only instance that may bind (rotation), or None for any."""
    created_at: int
    expected_until: int
    verified_at: int | None = None
    retired_at: int | None = None


@dataclass(frozen=True, slots=True)
class Challenge:
    """A correctly signed `webhook.verification` message, asking to bind an instance to a registration."""

    registration_id: str
    instance_id: str
    at: int


@dataclass(frozen=True, slots=True)
class Binding:
    """The store's answer to a challenge. `refusal` is None when the instance is bound, else the machine reason."""

    refusal: (
        Literal[
            "unknown_registration",
            "registration_retired",
            "registration_expired",
            "bound_to_other_instance",
            "instance_bound_elsewhere",
        ]
        | None
    )


@dataclass(frozen=True, slots=True)
class Instance:
    """An identity at a provider, under which calls are submitted."""

    provider: str
    instance_id: str
    name: str
    state: Literal["active", "parked", "retired"]
    state_reason: str | None
    delivery: Delivery
    sealed_credential: bytes | None = field(repr=False)
    """Sealed with the worker's key together with the provider's base URL and the instance id; None once retired."""
    credential_expires_at: int | None
    created_at: int
    retired_at: int | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A verified `request.resolved` message as it came in."""

    provider: str
    """Of the registration whose secret matched."""
    registration_id: str
    """The registration whose secret matched."""
    instance_id: str
    event_id: str
    request_id: str
    created_at: int
    received_at: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of an arrival, committed.

    `saved`: recorded now. `duplicate`: was recorded before. `discarded`: recorded, and nothing will come of it
    (the execution is abandoned, the instance retired). `conflict`: this event id names another request or
    instance; kept as an anomaly, not recorded. `not_live`: the registration does not (or no longer) speak for
    this instance; nothing was recorded.
    """

    kind: Literal["saved", "duplicate", "discarded", "conflict", "not_live"]
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Notification:
    """One recorded event."""

    provider: str
    instance_id: str
    event_id: str
    request_id: str
    registration_id: str
    state: Literal["received", "handled", "discarded"]
    reason: str | None
    duplicates: int
    created_at: int
    received_at: int
    handled_at: int | None
    keep_until: int
    body: bytes = field(repr=False)


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

    @property
    def digest(self) -> bytes:
        """SHA-256 that names this exact call; see `call_digest`."""
        return call_digest(self.tool, self.arguments, self.context, self.reasoning, self.timeout)


def call_digest(tool: str, arguments: bytes, context: bytes | None, reasoning: str | None, timeout: str) -> bytes:
    """Return the 32 bytes that name a call: every part the approver sees, each with its length before it."""
    digest = hashlib.sha256()
    parts = (
        tool.encode(),
        arguments,
        context,
        None if reasoning is None else reasoning.encode(),
        timeout.encode(),
    )
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(part or b"")
    return digest.digest()


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

    @property
    def lease(self) -> "Lease":
        """The lease that this reading of the row was given under."""
        return Lease(self.execution_id, self.lease_number)

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


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a started attempt ended, as its holder says.

    `succeeded`: it returned. `failed`: it is known not to have happened. `in_doubt`: nobody knows.
    `not_begun`: the permission was spent, but the call was never begun (recorded as lapsed).
    """

    kind: Literal["succeeded", "failed", "in_doubt", "not_begun"]
    reason: str
    result: bytes | None = field(default=None, repr=False)
    """JSON, UTF-8."""
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Claimed:
    """An attempt given to a harness: the call, and what renewing and finishing it require."""

    execution: Execution
    attempt_token: str = field(repr=False)


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


@dataclass(frozen=True, slots=True)
class Wake:
    """A resolution owed to a harness: one per transition, delivered at least once."""

    wake_id: str
    """Stable, so that the harness can tell a repeat."""
    execution_id: str
    number: int
    target: str
    state: Literal["owed", "delivered", "undelivered"]
    tries: int
    problem: str | None
    due_at: int | None
    created_at: int
    delivered_at: int | None
    to_state: State
    """The state that this wake tells of."""


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that cannot be, kept for a person to look at."""

    anomaly_id: int
    kind: str
    provider: str
    instance_id: str
    subject_id: str
    """The event id or execution id it is about."""
    detail: str
    count: int
    first_at: int
    last_at: int


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep changed: ids of executions now in doubt, lapsed, and abandoned because their hold was lost."""

    in_doubt: tuple[str, ...]
    lapsed: tuple[str, ...]
    abandoned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows one bounded step of retention removed or erased."""

    notifications: int
    payloads: int
    secrets: int
    anomalies: int

    @property
    def total(self) -> int:
        """Rows touched in all; 0 means that nothing is left to do."""
        return self.notifications + self.payloads + self.secrets + self.anomalies
