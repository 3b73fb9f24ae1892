"""What can go wrong in a harness, beside what the store itself refuses."""

from wakegate_schema.calls.grant import Grant
from wakegate_schema.errors import WakegateError
from wakegate_schema.store import StoreUnavailable


class AdapterError(WakegateError):
    """The adapter refused."""

    reason = "adapter_error"


class NotConfigured(AdapterError):
    """The adapter was not told where wakegate is; set WAKEGATE_CONTROL or WAKEGATE_DATABASE, or tell Adapter.open."""

    reason = "not_configured"


class ControlUnavailable(StoreUnavailable):
    """The receiver did not answer, or not so that it could be understood; nothing was promised. Try again."""

    reason = "control_unavailable"


class ControlRefused(AdapterError):
    """The receiver's control API refuses this harness; the message says what to do."""

    reason = "control_refused"


class AdapterClosed(AdapterError):
    """This adapter is closed; open another one."""

    reason = "adapter_closed"


class WaitTimeout(AdapterError):
    """The call is not resolved yet; it goes on, and can be waited for again."""

    reason = "wait_timeout"


class HeldElsewhere(AdapterError):
    """This call was already saved with this key, and somebody else waits for it."""

    reason = "held_elsewhere"


class NotPermitted(AdapterError):
    """This attempt is not permitted: nothing of the call may run."""

    reason = "not_permitted"


class OutcomeTold(AdapterError):
    """How this attempt ended was told already; the first word stands."""

    reason = "outcome_told"


class ResultRefused(AdapterError):
    """The call is recorded as succeeded, but without its result, which is not JSON that can be kept."""

    reason = "result_refused"


class OutcomeNotRecorded(AdapterError):
    """How the attempt ended could not be recorded; tell it again with `finish`, or the call will be in doubt."""

    reason = "outcome_not_recorded"

    def __init__(self, grant: Grant, kind: str, problem: str) -> None:
        """Take what `finish` needs to be told again."""
        super().__init__(
            f"execution {grant.execution_id} ended as {kind}, but that could not be recorded: {problem};"
            " tell it again with Adapter.finish, or the call will be in doubt"
        )
        self.grant = grant
        self.kind = kind
