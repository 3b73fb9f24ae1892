"""The objects of AAP version 1, strict both ways."""

from wakegate_schema.wire.base import (
    MalformedObject,
    WireModel,
    object_bytes,
    object_from,
    object_value,
    parse_object,
)
from wakegate_schema.wire.errors import ErrorBody, ErrorDetail
from wakegate_schema.wire.events import Challenge, ResolvedEvent, VerificationEvent
from wakegate_schema.wire.instances import (
    Credential,
    Delivery,
    DeliveryView,
    Instance,
    InstanceUpdate,
    NewInstance,
    ProvisionedInstance,
)
from wakegate_schema.wire.requests import (
    MAX_WAIT_S,
    ApprovalRequest,
    Consumption,
    ConsumptionOutcome,
    Decision,
    NewOutcome,
    NewRequest,
    OutcomeStatus,
    RequestStatus,
)

__all__ = [
    "MAX_WAIT_S",
    "ApprovalRequest",
    "Challenge",
    "Consumption",
    "ConsumptionOutcome",
    "Credential",
    "Decision",
    "Delivery",
    "DeliveryView",
    "ErrorBody",
    "ErrorDetail",
    "Instance",
    "InstanceUpdate",
    "MalformedObject",
    "NewInstance",
    "NewOutcome",
    "NewRequest",
    "OutcomeStatus",
    "ProvisionedInstance",
    "RequestStatus",
    "ResolvedEvent",
    "VerificationEvent",
    "WireModel",
    "object_bytes",
    "object_from",
    "object_value",
    "parse_object",
]
