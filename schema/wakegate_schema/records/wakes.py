"""Wakes: what a harness is owed."""

from dataclasses import dataclass
from typing import Literal

from wakegate_schema.states import State

WakeState = Literal["owed", "delivered", "undelivered"]


@dataclass(frozen=True, slots=True)
class Wake:
    """A resolution owed to a harness: one per transition, delivered at least once."""

    wake_id: str
    """Stable, so that the harness can tell a repeat."""
    execution_id: str
    number: int
    target: str
    state: WakeState
    tries: int
    problem: str | None
    due_at: int | None
    created_at: int
    delivered_at: int | None
    to_state: State
    """The state that this wake tells of."""
    group_number: int | None = None
    """The group that it tells of, whose last call came into that state; None when it tells of one call."""
    owed_since: int | None = None
    """When it was last replayed; None if never. It is tried for a day from then on, else from its creation."""
