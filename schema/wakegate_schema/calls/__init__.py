"""What a harness may do with its calls: one interface, over the store or over the control API."""

from wakegate_schema.calls.call import Call, Ticket
from wakegate_schema.calls.calls import Calls
from wakegate_schema.calls.errors import CallRefused, InstanceUnclear
from wakegate_schema.calls.grant import Grant
from wakegate_schema.calls.scope import EVERYTHING, Scope
from wakegate_schema.calls.standing import Standing, Taken
from wakegate_schema.calls.store_calls import StoreCalls
from wakegate_schema.calls.watch import Watch

__all__ = [
    "EVERYTHING",
    "Call",
    "CallRefused",
    "Calls",
    "Grant",
    "InstanceUnclear",
    "Scope",
    "Standing",
    "StoreCalls",
    "Taken",
    "Ticket",
    "Watch",
]
