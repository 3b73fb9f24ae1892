"""The approver: what AAP says of a provider, in memory, for many instances; it decides when it is told to."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from model.jobs import Fate, stop

from wakegate_schema import strict_json, timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Execution
from wakegate_schema.sealing import Credential
from wakegate_schema.strict_json import JsonObject
from wakegate_schema.wire import ApprovalRequest, OutcomeStatus, object_from
from wakegate_worker.decisions import (
    CancelAnswer,
    ConsumeRefusal,
    CredentialRefused,
    DecisionSource,
    Reading,
    ReportAnswer,
    Unreachable,
)

Status = Literal["pending", "approved", "denied", "expired", "cancelled"]
FALSIFIED = "falsified"
"""A call of this kind is shown to the approver with other arguments than were saved."""


@dataclass(frozen=True, slots=True, repr=False)
class Request:
    """One request for approval."""

    request_id: str
    instance_id: str
    key: str
    call: JsonObject
    created_at: int
    deadline_at: int
    status: Status = "pending"
    decided_at: int | None = None
    expires_at: int | None = None
    spent_by: str | None = None
    """The key that has consumed the approval."""
    spent_at: int | None = None
    outcome: str | None = None
    """What was told of the consumed call."""

    def __repr__(self) -> str:
        return f"<{self.status} request of {self.key}>"

    def wire(self) -> ApprovalRequest:
        """The request as AAP writes it."""
        value: JsonObject = {
            **self.call,
            "id": self.request_id,
            "status": self.status,
            "created_at": timestamps.render(self.created_at),
            "deadline_at": timestamps.render(self.deadline_at),
        }
        if self.decided_at is not None:
            decision: JsonObject = {"status": self.status, "decided_at": timestamps.render(self.decided_at)}
            if self.expires_at is not None:
                decision["expires_at"] = timestamps.render(self.expires_at)
            value["decision"] = decision
        if self.spent_at is not None:
            spent: JsonObject = {"consumed_at": timestamps.render(self.spent_at)}
            if self.outcome is not None:
                spent["outcome"] = {"status": self.outcome, "reported_at": timestamps.render(self.spent_at)}
            value["consumption"] = spent
        return object_from(ApprovalRequest, value)


@dataclass
class Approver:
    """One provider. Two of them give the same ids: only together with the provider does an id name anything."""

    base_url: str
    now: Callable[[], int]
    requests: dict[tuple[str, str], Request] = field(default_factory=dict)
    """By instance and idempotency key: one request each, however often it is submitted."""
    deaf_to: set[str] = field(default_factory=set)
    """The instances whose credential is refused."""
    consumes: bool = False
    """Whether it knows consumption."""

    def submit(self, instance_id: str, key: str, call: JsonObject) -> Request:
        """Make a request, or find what the key made before."""
        self._let_expire()
        if (instance_id, key) not in self.requests:
            number, at = len(self.requests) + 1, self.now()
            deadline_at = at + timestamps.duration(str(call["timeout"]))
            made = Request(request_id(number), instance_id, key, call, at, deadline_at)
            self.requests[instance_id, key] = made
        return self.requests[instance_id, key]

    def of(self, instance_id: str, key: str) -> Request | None:
        """The request that a key made, as it is now."""
        self._let_expire()
        return self.requests.get((instance_id, key))

    def named(self, instance_id: str, request_id: str) -> Request:
        """A request by its id."""
        self._let_expire()
        return next(r for r in self.requests.values() if (r.instance_id, r.request_id) == (instance_id, request_id))

    def pending(self) -> list[Request]:
        """What nobody has decided."""
        self._let_expire()
        return [request for request in self.requests.values() if request.status == "pending"]

    def decided(self) -> list[Request]:
        """What is decided, and so notified."""
        self._let_expire()
        return [request for request in self.requests.values() if request.status != "pending"]

    def decide(self, request: Request, status: Status, valid: int) -> None:
        """Decide a pending request; an approval is good for `valid` µs."""
        at = self.now()
        expires_at = at + valid if status == "approved" else None
        self._keep(replace(request, status=status, decided_at=at, expires_at=expires_at))

    def cancel(self, instance_id: str, request_id: str) -> CancelAnswer:
        """Cancel what is pending."""
        request = self.named(instance_id, request_id)
        if request.status == "pending":
            self.decide(request, "cancelled", 0)
        elif request.status != "cancelled":
            return CancelAnswer.ALREADY_TERMINAL
        return CancelAnswer.CANCELLED

    def consume(self, instance_id: str, request_id: str, key: str) -> Request | ConsumeRefusal:
        """Spend an approval, once and under one key."""
        request = self.named(instance_id, request_id)
        if not self.consumes:
            return ConsumeRefusal.UNSUPPORTED
        if request.spent_by not in (None, key):
            return ConsumeRefusal.ALREADY_CONSUMED
        if request.spent_by is None:
            if request.status != "approved":
                return ConsumeRefusal.NOT_APPROVED
            if (request.expires_at or 0) <= self.now():
                return ConsumeRefusal.APPROVAL_EXPIRED
            self._keep(replace(request, spent_by=key, spent_at=self.now()))
        return self.named(instance_id, request_id)

    def report(self, instance_id: str, request_id: str, status: str) -> ReportAnswer:
        """Keep what came of a consumed call: the first word."""
        request = self.named(instance_id, request_id)
        if request.spent_by is None:
            return ReportAnswer.NOT_CONSUMED
        if request.outcome not in (None, status):
            return ReportAnswer.OUTCOME_CONFLICT
        self._keep(replace(request, outcome=status))
        return ReportAnswer.TOLD

    def _let_expire(self) -> None:
        for request in list(self.requests.values()):
            if request.status == "pending" and request.deadline_at <= self.now():
                self._keep(replace(request, status="expired", decided_at=request.deadline_at))

    def _keep(self, request: Request) -> None:
        self.requests[request.instance_id, request.key] = request


def request_id(number: int) -> str:
    """The id of a provider's request number so and so."""
    return f"00000000-0000-4000-8000-{number:012x}"


def event_id(request: Request) -> str:
    """The id of the event that tells of a decision: one per request, the same at every provider."""
    return request.request_id.replace("-4000-", "-4eee-")


class ApproverLine(DecisionSource):
    """How a worker reaches an approver with an instance's credential: words are stopped on the way there and back."""

    def __init__(self, approver: Approver, credential: Credential, monotonic: Callable[[], float]) -> None:
        """Take who decides, the credential, and the worker's monotonic clock (s)."""
        self._approver = approver
        self._instance_id = credential.instance_id
        self._monotonic = monotonic

    async def submit(self, execution: Execution) -> Reading:
        """Submit under the execution's key."""
        call = _call(execution)
        return await self._read(
            "submit", lambda: self._approver.submit(self._instance_id, execution.idempotency_key, call)
        )

    async def read(self, execution: Execution, wait_s: float) -> Reading:
        """Read the request; the approver never waits."""
        return await self.read_request(str(execution.request_id), wait_s)

    async def read_request(self, request_id: str, wait_s: float = 0.0) -> Reading:
        """Read a request by its id."""
        return await self._read(
            "poll" if wait_s else "read", lambda: self._approver.named(self._instance_id, request_id)
        )

    async def cancel(self, execution: Execution) -> CancelAnswer:
        """Cancel the request."""
        answers: list[CancelAnswer] = []
        await self._exchange(
            "cancel", lambda: answers.append(self._approver.cancel(self._instance_id, str(execution.request_id)))
        )
        return answers[0]

    async def consume(self, execution: Execution, key: str) -> Reading | ConsumeRefusal:
        """Consume the approval."""
        answers: list[tuple[Request | ConsumeRefusal, float]] = []
        act = functools.partial(self._approver.consume, self._instance_id, str(execution.request_id), key)
        await self._exchange("consume", lambda: answers.append((act(), self._approver.now() / SECOND)))
        (found, at), *_ = answers
        return found if isinstance(found, ConsumeRefusal) else Reading(found.wire(), at, self._monotonic())

    async def report(self, execution: Execution, status: OutcomeStatus, note: str | None) -> ReportAnswer:
        """Tell what came of the call."""
        answers: list[ReportAnswer] = []
        act = functools.partial(self._approver.report, self._instance_id, str(execution.request_id), status)
        await self._exchange("report", lambda: answers.append(act()))
        return answers[0]

    async def _read(self, word: str, act: Callable[[], Request]) -> Reading:
        found: list[tuple[ApprovalRequest, float]] = []
        await self._exchange(word, lambda: found.append((act().wire(), self._approver.now() / SECOND)))
        return Reading(found[0][0], found[0][1], self._monotonic())

    async def _exchange(self, word: str, act: Callable[[], object]) -> None:
        fate = await stop(f"ask {word}")
        if fate is Fate.REFUSED:
            raise Unreachable
        if self._instance_id in self._approver.deaf_to:
            raise CredentialRefused
        act()
        if fate is not Fate.GO or await stop(f"answer {word}") is not Fate.GO:
            raise Unreachable


def _call(execution: Execution) -> JsonObject:
    """The call as it is submitted."""
    arguments = strict_json.parse(execution.arguments or b"")
    if not isinstance(arguments, dict):
        raise TypeError(arguments)
    if arguments["kind"] == FALSIFIED:
        arguments = arguments | {"amount": 1}
    return {
        "tool": execution.tool,
        "arguments": arguments,
        "timeout": execution.timeout,
        "agent_reasoning": str(execution.reasoning),
    }
