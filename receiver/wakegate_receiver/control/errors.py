"""Errors turned into answers: the one place where what wakegate refuses becomes what a harness is told."""

from wakegate_receiver.answers import Refused
from wakegate_receiver.control.answers import ANSWERS, ControlRefused
from wakegate_schema.calls import CallRefused, InstanceUnclear
from wakegate_schema.errors import WakegateError
from wakegate_schema.harness_tables import HarnessesUnreadable
from wakegate_schema.store import KeyConflict, NotAllowed, NotFound, StoreOutdated, StoreUnavailable, UnstorableValue

TOLD = (CallRefused, InstanceUnclear, KeyConflict, NotAllowed, NotFound)
"""Errors whose own words are for the harness."""
CONSTANT = (Refused, HarnessesUnreadable, StoreUnavailable, UnstorableValue)
"""Errors of which the harness is told no more than the reason: their words name files, or other harnesses."""


def refused_by(error: WakegateError) -> ControlRefused:
    """Return how an error is told: by its own reason if the table has it, else by its family's."""
    if isinstance(error, ControlRefused):
        return error
    if isinstance(error, StoreUnavailable | StoreOutdated):
        return ControlRefused(StoreUnavailable.reason)
    families = (*TOLD, *CONSTANT)
    family = next((kind for kind in families if isinstance(error, kind)), None)
    if family is None:
        return ControlRefused("unforeseen")
    reason = error.reason if error.reason in ANSWERS else family.reason
    if not isinstance(error, TOLD):
        return ControlRefused(reason)
    return ControlRefused(reason, str(error), path=error.path if isinstance(error, CallRefused) else None)
