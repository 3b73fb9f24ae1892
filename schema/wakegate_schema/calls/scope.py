"""The scope: which instances whoever asks may use. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from wakegate_schema.records import Instance


@dataclass(frozen=True, slots=True)
class Scope:
    """Who asks, and the instances that are theirs."""

    actor: str
    """Who asks, as the records name them: `harness`, or `harness:NAME` over the control API."""
    names: frozenset[str] | None = None
    """Names or ids of the instances; None for all of them."""

    def within(self, instances: Iterable[Instance]) -> list[Instance]:
        """Return those of the instances that may be used, in their order.

        An id that two providers use names neither: nobody can say which was meant.
        """
        found = list(instances)
        if self.names is None:
            return found
        ids = [instance.instance_id for instance in found]
        return [
            instance
            for instance in found
            if instance.name in self.names
            or (instance.instance_id in self.names and ids.count(instance.instance_id) == 1)
        ]


EVERYTHING = Scope("harness")
"""The scope of a harness that opens the store itself: it is fully trusted."""
