"""The plan: everything that one soak is to be, made from its seed, its minutes and its ground."""

from dataclasses import dataclass
from random import Random

from soak.calls import BANKS, CARDS
from soak.ground import HOME, Ground


@dataclass(frozen=True, slots=True)
class Plan:
    """What one soak is to be. Times are seconds."""

    seed: int
    trouble_s: float
    """How long load and trouble last together."""
    ground: Ground = HOME
    notifications_per_s: float = 30.0
    calls_per_s: float = 3.0
    """Of each of the harnesses."""
    lease_s: int = 3

    @property
    def receivers(self) -> int:
        """How many there are."""
        return 1 if self.ground == HOME else 2

    @property
    def pools(self) -> tuple[tuple[str, str], ...]:
        """The pool and the modules of tools of each worker."""
        if self.ground == HOME:
            return (("default", f"{CARDS},{BANKS}"),) * 2
        return ("cards", CARDS), ("cards", CARDS), ("banks", BANKS)

    @property
    def harnesses(self) -> tuple[bool, ...]:
        """Of each, whether it speaks to a receiver's control API rather than to the store."""
        return False, True

    @property
    def fast_s(self) -> float:
        """How far a fast clock is ahead. What is put off under it stays put off, so that much longer settling takes."""
        return min(60.0, max(8.0, self.trouble_s / 20))

    @property
    def slow_s(self) -> float:
        """How far a slow clock is behind: less than the five minutes of a webhook's timestamp."""
        return 120.0

    @property
    def settle_s(self) -> float:
        """How long all that is owed may take once the trouble is over: what failed often waits long to be retried."""
        return 120.0 + self.fast_s + self.trouble_s / 10

    @property
    def disk_bytes(self) -> int:
        """How large the small disk is: enough for what the load leaves there, and little more."""
        return (24 << 20) + round(self.trouble_s * (128 << 10))

    def random(self, what: str) -> Random:
        """Return the chance of one part of the soak; another part's use does not change it."""
        return Random(f"{self.seed}/{what}")
