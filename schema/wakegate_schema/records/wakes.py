"""Wakes: what a harness is owed."""

from dataclasses import dataclass
from typing import Literal

from wakegate_schema.states import State


@dataclass(frozen=True, slots=True)
class Wake:
    """A resolution owed to a harness: one per transition, delivered at least once."""

    wake_id: str
    """Stable, so that the harness can tell a repeat."""
    execution_id: str
    number: int
    target: str
    state: Literal["owed", "delivered", "undelivered"]
    tries: int
    problem: str | None
    due_at: int | None
    created_at: int
    delivered_at: int | None
    to_state: State
    """The state that this wake tells of."""
