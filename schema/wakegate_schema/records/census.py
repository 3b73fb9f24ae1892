"""The census: how many of what there are in the store now, and what was told of lately; what metrics are made of."""

from collections.abc import Mapping
from dataclasses import dataclass

from wakegate_schema.states import State


@dataclass(frozen=True, slots=True)
class Census:
    """One look at what is unfinished. Times are µs since the Unix epoch."""

    executions: Mapping[str, int]
    """Unresolved executions by state; a state without any is left out."""
    wakes: Mapping[str, int]
    """Wakes that were not delivered, by state."""
    cancels: int
    """Executions that owe their provider a cancel."""
    reports: int
    """Executions that owe their provider a word of their outcome."""
    adoptions: int
    """Adopted requests whose framework is still to be resumed."""
    unhandled: int
    """Notifications of which nothing has come yet."""
    in_doubt_since: int | None
    """When the oldest doubt came up."""
    due: Mapping[str, int]
    """When the first of each kind of work became, or becomes, due.

    `execution`, `attempt`, `cancel`, `report`, `adoption`, `wake`.
    """


@dataclass(frozen=True, slots=True)
class Timing:
    """A resolution that was told, with the times of the attempt."""

    number: int
    from_state: State | None
    to_state: State
    decided_at: int | None
    started_at: int | None
    expires_at: int | None

    @property
    def ends_attempt(self) -> bool:
        """Whether this is the first word about a started call."""
        return self.from_state is State.STARTED
