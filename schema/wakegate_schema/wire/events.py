"""What a provider sends to the receiver, and the one answer that has a body (AAP, webhooks)."""

from typing import Literal

from wakegate_schema.wire.base import WireModel
from wakegate_schema.wire.fields import Timestamp, Uuid


class VerificationEvent(WireModel):
    """`webhook.verification`: asks whether the receiver expects a registration."""

    id: Uuid
    type: Literal["webhook.verification"]
    registration_id: Uuid
    instance_id: Uuid
    created_at: Timestamp
    challenge: Uuid


class ResolvedEvent(WireModel):
    """`request.resolved`: says that a request has a decision, not which one."""

    id: Uuid
    type: Literal["request.resolved"]
    instance_id: Uuid
    request_id: Uuid
    created_at: Timestamp


class Challenge(WireModel):
    """The receiver's answer to a verification it accepts."""

    challenge: Uuid
