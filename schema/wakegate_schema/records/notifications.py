"""Notifications, from their arrival on."""

from dataclasses import dataclass, field
from typing import Literal


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
