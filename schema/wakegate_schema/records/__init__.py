"""What the store keeps, as values. Times are microseconds since the Unix epoch, ids lower-case UUID text."""

from wakegate_schema.records.adoptions import Adoption, AdoptionLease, AdoptionState, RunEnd
from wakegate_schema.records.attempts import Claimed, Outcome
from wakegate_schema.records.census import Census, Timing
from wakegate_schema.records.clocks import ClockMark, ClockReset, PutOff
from wakegate_schema.records.epochs import Epoch
from wakegate_schema.records.executions import (
    Approval,
    Closing,
    Execution,
    Lease,
    RequestIdentity,
    Runs,
    Suspension,
    Transition,
    call_digest,
)
from wakegate_schema.records.groups import Group
from wakegate_schema.records.instances import Binding, Challenge, Delivery, Identity, Instance, Registration
from wakegate_schema.records.notifications import Arrival, Notification, Receipt
from wakegate_schema.records.told import Told
from wakegate_schema.records.upkeep import Anomaly, Doubts, Pruned, Swept
from wakegate_schema.records.wakes import Wake, WakeState
from wakegate_schema.records.workers import MissingTool, RegisteredWorker

__all__ = [
    "Adoption",
    "AdoptionLease",
    "AdoptionState",
    "Anomaly",
    "Approval",
    "Arrival",
    "Binding",
    "Census",
    "Challenge",
    "Claimed",
    "ClockMark",
    "ClockReset",
    "Closing",
    "Delivery",
    "Doubts",
    "Epoch",
    "Execution",
    "Group",
    "Identity",
    "Instance",
    "Lease",
    "MissingTool",
    "Notification",
    "Outcome",
    "Pruned",
    "PutOff",
    "Receipt",
    "RegisteredWorker",
    "Registration",
    "RequestIdentity",
    "RunEnd",
    "Runs",
    "Suspension",
    "Swept",
    "Timing",
    "Told",
    "Transition",
    "Wake",
    "WakeState",
    "call_digest",
]
