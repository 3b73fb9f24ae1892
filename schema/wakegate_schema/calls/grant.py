"""The grant: the right to run one call once, as a value that can be handed on."""

from dataclasses import dataclass, field

from wakegate_schema.records import Claimed, Lease


@dataclass(frozen=True, slots=True)
class Grant:
    """The right to run one call, once, from now on: what renewing and finishing require.

    Its fields may be handed to another process, which then renews and finishes.
    """

    execution_id: str
    number: int
    """The attempt's fencing number."""
    token: str = field(repr=False)
    """Random; whoever has it may speak for this attempt."""

    @property
    def lease(self) -> Lease:
        """The lease as the store knows it."""
        return Lease(self.execution_id, self.number)


def grant_of(claimed: Claimed) -> Grant:
    """Return the grant that a claim gave."""
    return Grant(claimed.execution.execution_id, claimed.execution.lease_number, claimed.attempt_token)
