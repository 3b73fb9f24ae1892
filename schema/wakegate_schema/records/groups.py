"""Groups: the calls of one agent turn, told of together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """A group of calls, and how far they are."""

    number: int
    provider: str
    instance_id: str
    group: str
    """Its name, the harness's choice; no two of one instance have the same."""
    wake: str
    """The target that is woken once all of its calls are resolved."""
    created_at: int
    sealed_at: int | None
    """When the harness said that it is complete; nobody is woken before that."""
    calls: int
    resolved: int

    @property
    def awaits_seal(self) -> bool:
        """Whether nothing but the seal is missing."""
        return self.sealed_at is None and self.calls == self.resolved
