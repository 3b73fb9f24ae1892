"""The ringer: tells the workers of the living pools to look. Called after a commit, never before it."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

Living = Callable[[], Awaitable[frozenset[str]]]
"""Says which pools have a living worker; raises `WakegateError` when that is not known."""


@dataclass(frozen=True, slots=True)
class QueueState:
    """What a ringer counts."""

    sent: int = 0
    """Hints that were put into the queue."""
    merged: int = 0
    """Hints that were not, because one for the same pool waits there already."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """How often the queue did not take a hint, by reason."""
    reachable: bool = True
    """Whether the last hint was taken; true before the first."""


class Ringer(Protocol):
    """Rings for one process. What is rung and gets lost, the workers' sweep finds again from the store."""

    def ring(self) -> None:
        """Hint to every living pool that something is due. Returns at once, raises nothing, from any thread.

        Rings that come before the hint went out are one.
        """

    def follow(self, living: Living) -> None:
        """Ask this, in the present event loop and every few seconds at most, which pools to ring."""

    def state(self) -> QueueState | None:
        """Return what was counted so far; None for a queue that carries no hints of its own."""

    async def close(self) -> None:
        """Let what was rung go out, a second at most, and end. Repeats are no-ops; what is rung later is lost."""
