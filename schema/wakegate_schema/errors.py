"""The one root of every error that wakegate raises on purpose."""


class WakegateError(Exception):
    """Something wakegate refuses to go on with."""

    reason = "error"
    """A machine word for the error, in snake_case: counted, stored and shown."""

    def __init__(self, message: str | None = None, *, reason: str | None = None) -> None:
        """Take the class's docstring as the message unless one is given.

        Args:
            message: one line that names the thing and says what to do next; never a secret.
            reason: a finer machine word than the class's own.
        """
        super().__init__(message or (type(self).__doc__ or "").strip().splitlines()[0])
        if reason is not None:
            self.reason = reason
