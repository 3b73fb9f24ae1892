"""Workers: which of them live, and what each can run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from wakegate_schema.clock import SECOND

LIVES_FOR: Final = 30 * SECOND
"""How long a worker counts as living after its last sign of life (µs)."""


@dataclass(frozen=True, slots=True)
class RegisteredWorker:
    """A worker as it says of itself."""

    worker_id: str
    """Its name on its leases; another with every start."""
    host: str
    pool: str
    version: str
    """Of wakegate."""
    migration: int
    """The last migration that it knows."""
    lease_seconds: int
    started_at: int
    seen_at: int
    """When it last showed a sign of life."""
    tools: Mapping[str, str] = field(default_factory=dict)
    """The version of each tool that it has, by the tool's name."""
    resumers: frozenset[str] = frozenset()
    """The frameworks whose runs it can resume."""

    def lives_at(self, at: int) -> bool:
        """Return whether its last sign of life is recent enough at a time (µs)."""
        return self.seen_at > at - LIVES_FOR


@dataclass(frozen=True, slots=True)
class MissingTool:
    """What undecided calls name, and no living worker has."""

    tool: str
    version: str | None
    """The version that the calls declare; None for those that declare none."""
    calls: int
    """How many there are, counted up to a limit."""
