"""Approval requests, their decisions and their consumption (AAP, requests)."""

from typing import Final, Literal, Self

from pydantic import Field, model_validator

from wakegate_schema import timestamps
from wakegate_schema.wire.base import WireModel
from wakegate_schema.wire.fields import Duration, FreeForm, NonEmpty, Optional, Timestamp, Uuid, fault

MAX_WAIT_S: Final = 30
"""The longest that a read may wait for a decision, in seconds; a longer wait is shortened to it."""

TerminalStatus = Literal["approved", "denied", "expired", "cancelled"]
RequestStatus = Literal["pending", "approved", "denied", "expired", "cancelled"]
OutcomeStatus = Literal["succeeded", "failed"]


class NewRequest(WireModel):
    """A tool call submitted for approval."""

    tool: NonEmpty
    arguments: FreeForm = Field(repr=False)
    timeout: Duration
    agent_reasoning: Optional[str] = Field(default=None, repr=False)
    context: Optional[FreeForm] = Field(default=None, repr=False)
    server: Optional[str] = None


class Decision(WireModel):
    """How a request ended; only an approval has an end of its own, later than the decision."""

    status: TerminalStatus
    decided_at: Timestamp
    note: Optional[str] = Field(default=None, repr=False)
    expires_at: Optional[Timestamp] = None

    @model_validator(mode="after")
    def _expires_only_when_approved(self) -> Self:
        if self.status != "approved":
            if self.expires_at is not None:
                raise fault("unexpected_field", "expires_at")
            return self
        if self.expires_at is None:
            raise fault("missing_field", "expires_at")
        if timestamps.parse(self.expires_at) <= timestamps.parse(self.decided_at):
            raise fault("not_later", "expires_at")
        return self


class NewOutcome(WireModel):
    """What a harness reports of a consumed call."""

    status: OutcomeStatus
    note: Optional[str] = Field(default=None, repr=False)


class ConsumptionOutcome(WireModel):
    """What was reported of a consumed call."""

    status: OutcomeStatus
    note: Optional[str] = Field(default=None, repr=False)
    reported_at: Timestamp


class Consumption(WireModel):
    """That an approval was spent, and what came of it."""

    consumed_at: Timestamp
    outcome: Optional[ConsumptionOutcome] = None


class ApprovalRequest(WireModel):
    """A request as its provider holds it; its decision agrees with its status."""

    id: Uuid
    tool: NonEmpty
    arguments: FreeForm = Field(repr=False)
    timeout: Duration
    status: RequestStatus
    created_at: Timestamp
    deadline_at: Timestamp
    agent_reasoning: Optional[str] = Field(default=None, repr=False)
    context: Optional[FreeForm] = Field(default=None, repr=False)
    server: Optional[str] = None
    decision: Optional[Decision] = None
    consumption: Optional[Consumption] = None

    @model_validator(mode="after")
    def _decision_agrees(self) -> Self:
        if self.status == "pending" and self.decision is not None:
            raise fault("unexpected_field", "decision")
        if self.status != "pending" and self.decision is None:
            raise fault("missing_field", "decision")
        if self.decision is not None and self.decision.status != self.status:
            raise fault("mismatch", "decision.status")
        if self.consumption is not None and self.status != "approved":
            raise fault("unexpected_field", "consumption")
        return self
