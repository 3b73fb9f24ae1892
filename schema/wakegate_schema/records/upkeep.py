"""Upkeep: what the sweep and retention changed, and what nobody expected."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Anomaly:
    """Something that cannot be, kept for a person to look at."""

    anomaly_id: int
    kind: str
    provider: str
    instance_id: str
    subject_id: str
    """The event id or execution id it is about."""
    detail: str
    count: int
    first_at: int
    last_at: int


@dataclass(frozen=True, slots=True)
class Doubts:
    """What is in doubt."""

    count: int
    """How many, up to the limit of the look."""
    since: int | None
    """When the first of them came into doubt; None when there is none."""


@dataclass(frozen=True, slots=True)
class Swept:
    """What one sweep changed: ids of executions now in doubt, lapsed, and abandoned because their hold was lost."""

    in_doubt: tuple[str, ...]
    lapsed: tuple[str, ...]
    abandoned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows one bounded step of retention removed or erased."""

    notifications: int
    payloads: int
    secrets: int
    anomalies: int
    resolutions: int
    """Lines of the log that streams read."""
    adoptions: int

    @property
    def total(self) -> int:
        """Rows touched in all; 0 means that nothing is left to do."""
        return self.notifications + self.payloads + self.secrets + self.anomalies + self.resolutions + self.adoptions
