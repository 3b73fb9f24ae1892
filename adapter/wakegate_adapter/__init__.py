"""wakegate in a harness: save a call, wait for its approval, run it once."""

from wakegate_adapter.adapter import Adapter
from wakegate_adapter.attempt import Attempt
from wakegate_adapter.claim import Claim
from wakegate_adapter.errors import (
    AdapterClosed,
    AdapterError,
    ControlRefused,
    ControlUnavailable,
    HeldElsewhere,
    NotConfigured,
    NotPermitted,
    OutcomeNotRecorded,
    OutcomeTold,
    ResultRefused,
    WaitTimeout,
)
from wakegate_adapter.held import Held
from wakegate_adapter.hold import Hold
from wakegate_schema.calls import Call, CallRefused, Grant, InstanceUnclear, Taken, Ticket
from wakegate_schema.errors import WakegateError
from wakegate_schema.resolution import Resolution
from wakegate_schema.states import State
from wakegate_schema.store import (
    KeyConflict,
    NotAllowed,
    NotFound,
    StoreMissing,
    StoreOutdated,
    StoreUnavailable,
)

__all__ = [
    "Adapter",
    "AdapterClosed",
    "AdapterError",
    "Attempt",
    "Call",
    "CallRefused",
    "Claim",
    "ControlRefused",
    "ControlUnavailable",
    "Grant",
    "Held",
    "HeldElsewhere",
    "Hold",
    "InstanceUnclear",
    "KeyConflict",
    "NotAllowed",
    "NotConfigured",
    "NotFound",
    "NotPermitted",
    "OutcomeNotRecorded",
    "OutcomeTold",
    "Resolution",
    "ResultRefused",
    "State",
    "StoreMissing",
    "StoreOutdated",
    "StoreUnavailable",
    "Taken",
    "Ticket",
    "WaitTimeout",
    "WakegateError",
]
