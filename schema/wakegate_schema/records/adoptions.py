"""Adoptions: requests that nobody saved here and whose notification came; a harness's framework waits for them."""

from dataclasses import dataclass
from typing import Literal

AdoptionState = Literal["owed", "ended"]
RunEnd = Literal["well", "badly"]


@dataclass(frozen=True, slots=True)
class Adoption:
    """One request, whose framework is resumed until the approval is consumed or of no use any more."""

    number: int
    provider: str
    instance_id: str
    request_id: str
    state: AdoptionState
    reason: str | None
    """Machine word for its end."""
    framework: str | None
    """The framework in the request's `context.resume`; None until the request was read."""
    thread: str | None
    """Which of the framework's runs is to be resumed: canonical JSON. Only one resumer runs for it at a time."""
    problem: str | None
    """What keeps it from going on, while it is being retried; None when nothing does."""
    tries: int
    """Consecutive tries that brought nothing, for backoff."""
    due_at: int | None
    lease_number: int
    """The fencing number: raised by every lease."""
    runs: int
    """How often a resumer was started."""
    well_runs: int
    """How many of those ended by returning."""
    run_began_at: int | None
    """When the last one was started."""
    run_until: int | None
    """Until when the thread is taken by the one that runs; None when none does."""
    last_end: RunEnd | None
    """How the last one ended: `well` is by returning."""
    created_at: int
    ended_at: int | None

    @property
    def lease(self) -> "AdoptionLease":
        """The lease that this reading of the row was given under."""
        return AdoptionLease(self.number, self.lease_number)


@dataclass(frozen=True, slots=True)
class AdoptionLease:
    """The right to work on one adoption, good while nobody has taken a later number."""

    number: int
    lease_number: int
