"""What is wrong with a call, or with saying under which instance it is to be submitted."""

from wakegate_schema.errors import WakegateError


class CallRefused(WakegateError):
    """The call cannot be saved as it is; nothing was saved."""

    reason = "call_refused"

    def __init__(self, path: str, problem: str, *, reason: str = "call_refused") -> None:
        """Name the part of the call, such as `arguments.items[3].price`, and what is wrong; never its value."""
        super().__init__(f"{path}: {problem}", reason=reason)
        self.path = path
        self.problem = problem


class InstanceUnclear(WakegateError):
    """The call does not say clearly enough under which instance it is to be submitted."""

    reason = "instance_unclear"
