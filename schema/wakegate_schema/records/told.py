"""What harnesses are told, as the log of it has it."""

from dataclasses import dataclass

from wakegate_schema.states import State


@dataclass(frozen=True, slots=True)
class Told:
    """One line of the log of resolutions: that an execution came into a state which its harness is told of."""

    number: int
    """Its place in the log; rises with every commit, within one epoch."""
    epoch: int
    """The store's epoch at that time; the number alone may be given twice when the store goes back in time."""
    provider: str
    instance_id: str
    execution_id: str
    transition_number: int
    from_state: State | None
    to_state: State
    at: int

    @property
    def wake_id(self) -> str:
        """The id of the resolution that tells of it, and of the wake if there is one."""
        return f"{self.execution_id}_{self.transition_number}"

    @property
    def place(self) -> tuple[int, int]:
        """What to resume after, once this was dealt with: epoch and number."""
        return self.epoch, self.number
