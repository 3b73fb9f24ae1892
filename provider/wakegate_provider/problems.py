"""What the provider refuses, in the error shape of AAP."""

from collections.abc import Mapping

from wakegate_schema import strict_json
from wakegate_schema.errors import WakegateError

TYPES = {
    400: "invalid_request",
    401: "authentication",
    403: "authorization",
    404: "not_found",
    405: "invalid_request",
    408: "invalid_request",
    409: "conflict",
    413: "invalid_request",
    415: "invalid_request",
    417: "invalid_request",
    422: "invalid_request",
    429: "rate_limit",
    500: "internal",
    503: "dependency",
}
"""The error type that AAP gives to each status."""


class Problem(WakegateError):
    """The provider refuses this call."""

    reason = "problem"

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Say what is refused.

        Args:
            status: the HTTP status of the answer, one of `TYPES`.
            code: the machine word of the answer, in snake_case; also the error's `reason`.
            message: one line for a person; never a value that the caller sent.
            param: the field, header or query parameter at fault.
            retry_after: whole seconds after which the caller may try again.
            headers: what else the answer carries.
        """
        super().__init__(message, reason=code)
        self.status = status
        self.code = code
        self.param = param
        self.retry_after = retry_after
        self.headers = headers or {}

    def body(self, request_id: str) -> bytes:
        """Return the answer's body (AAP, conventions).

        Args:
            request_id: the UUID that the answer carries in `X-Request-ID`.
        """
        error: strict_json.JsonObject = {
            "type": TYPES[self.status],
            "code": self.code,
            "message": str(self),
            "request_id": request_id,
        }
        if self.param is not None:
            error["param"] = self.param
        return strict_json.dumps({"error": error})


def missing(what: str) -> Problem:
    """Return the one answer for everything that does not exist or belongs to somebody else.

    Args:
        what: what the caller asked for, "request" or "instance".
    """
    return Problem(404, "not_found", f"There is no such {what} for this credential.")


def already_consumed() -> Problem:
    """Return the answer to a consumption under another key than that which spent the approval."""
    return Problem(409, "already_consumed", "The approval was spent under another Idempotency-Key.")


def not_approved(status: str) -> Problem:
    """Return the answer to the consumption of a request in this state, which is not `approved`."""
    return Problem(409, "not_approved", f"The request is {status}; only an approval can be consumed.")


def approval_expired() -> Problem:
    """Return the answer to a consumption at or after the approval's end."""
    return Problem(409, "approval_expired", "The approval's expires_at has passed; submit the call again.")


def not_consumed() -> Problem:
    """Return the answer to a report of what was never begun."""
    return Problem(409, "not_consumed", "The approval was not consumed; consume it before the call starts.")


def outcome_conflict() -> Problem:
    """Return the answer to a second report that says something else."""
    return Problem(409, "outcome_conflict", "Another outcome was reported; the first one stays.")
