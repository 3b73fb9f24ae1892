"""The attempt: what a harness that claims a call gets to see, and how it says what became of it."""

from typing import Any

from wakegate_adapter.errors import NotPermitted, OutcomeTold, ResultRefused
from wakegate_schema.calls import Taken
from wakegate_schema.calls.outcomes import failed, in_doubt, not_begun, succeeded
from wakegate_schema.records import Outcome
from wakegate_schema.resolution import Resolution


class Attempt:
    """One run of a call inside `async with adapter.claim(...)` or `holding(...)`. Say how it ended before leaving."""

    def __init__(self, taken: Taken) -> None:
        """Take what the claim came to."""
        self._taken = taken
        self._outcome: Outcome | None = None
        self.lease_lost = False
        """Whether the lease ran out meanwhile, so that the call is in doubt; saying how it ended still settles it."""

    def __repr__(self) -> str:
        execution_id = self._taken.resolution.execution_id
        return f"<Attempt of {execution_id}{'' if self.permitted else ', not permitted'}>"

    @property
    def permitted(self) -> bool:
        """Whether the call is to be run now. If not, `explanation` says why."""
        return self._taken.permitted

    @property
    def explanation(self) -> str:
        """One sentence for the agent."""
        return self._taken.explanation

    @property
    def refusal(self) -> str | None:
        """Why it may not run, as a machine word; None when it may."""
        return self._taken.refusal

    @property
    def resolution(self) -> Resolution:
        """The call as it stood when it was claimed, or was not."""
        return self._taken.resolution

    @property
    def execution_id(self) -> str:
        """The execution."""
        return self._taken.resolution.execution_id

    @property
    def arguments(self) -> dict[str, Any]:
        """The approved arguments as stdlib json reads them, a new dict each time. Raises `NotPermitted`."""
        arguments = self._taken.arguments if self.permitted else None
        if arguments is None:
            raise NotPermitted(f"execution {self.execution_id}: {self.explanation}")
        return arguments

    @property
    def idempotency_key(self) -> str:
        """For the API that the call calls: the same for every look at this execution, and no other has it."""
        return self._taken.idempotency_key

    @property
    def request_id(self) -> str | None:
        """The request at the provider."""
        return self._taken.resolution.request_id

    @property
    def note(self) -> str | None:
        """What the approver wrote."""
        return self._taken.resolution.note

    @property
    def expires_at(self) -> int | None:
        """When the approval ends, µs since the Unix epoch; a run begun before may end after it."""
        return self._taken.resolution.expires_at

    @property
    def outcome(self) -> Outcome | None:
        """What was told so far."""
        return self._outcome

    def succeed(self, result: object = None) -> None:
        """Say that the call happened, and what it gave.

        Raises:
            ResultRefused: the result is not JSON or over 256 KiB. That the call happened is recorded all the same.
            NotPermitted, OutcomeTold: nothing changes.
        """
        outcome = succeeded(result)
        self.tell(outcome)
        if outcome.result is None:
            raise ResultRefused(f"recorded as succeeded, but {outcome.error}", reason=outcome.reason)

    def fail(self, error: object) -> None:
        """Say that the call is known not to have happened, and why; at most 500 characters are kept.

        Raises `NotPermitted` or `OutcomeTold`.
        """
        self.tell(failed(error))

    def not_begun(self, why: str = "the harness did not begin") -> None:
        """Say that nothing of the call was begun; the approval is spent all the same.

        Raises `NotPermitted` or `OutcomeTold`.
        """
        self.tell(not_begun(why))

    def doubt(self, why: str) -> None:
        """Say that nobody knows whether the call happened. Raises `NotPermitted` or `OutcomeTold`."""
        self.tell(in_doubt(why))

    def tell(self, outcome: Outcome) -> None:
        """Keep how it ended, once. Raises `NotPermitted` or `OutcomeTold`."""
        if not self.permitted:
            raise NotPermitted(f"execution {self.execution_id} was not permitted to run: {self.explanation}")
        if self._outcome is not None:
            raise OutcomeTold(f"execution {self.execution_id} was already told to have {self._outcome.kind}")
        self._outcome = outcome
