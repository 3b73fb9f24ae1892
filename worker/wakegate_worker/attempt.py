"""The attempt: what a running tool is told about the permission it runs under."""

import json
from dataclasses import dataclass, field
from typing import Any

from wakegate_schema.downstream import downstream_key
from wakegate_schema.errors import WakegateError
from wakegate_schema.records import Execution


class ToolFailed(WakegateError):
    """The call did not happen. A tool raises this only when it knows that; the message goes to the agent."""

    reason = "tool_failed"


@dataclass(frozen=True, slots=True)
class Attempt:
    """The one run that an approval permits, as the tool and its probe see it."""

    execution_id: str
    number: int
    """The attempt's fencing number, frozen at the start."""
    idempotency_key: str
    """For the API that the tool calls: the same for every look at this execution, and no other has it."""
    request_id: str
    """The approved request at the provider."""
    note: str | None = field(repr=False)
    """What the approver wrote."""
    expires_at: int
    """When the approval ends, µs since the Unix epoch; the run began before it and may end after it."""
    saved_arguments: bytes = field(repr=False)
    """The exact bytes that were approved."""

    @property
    def arguments(self) -> dict[str, Any]:
        """The saved arguments as stdlib json reads them: a new dict each time, so nobody can alter it."""
        arguments: dict[str, Any] = json.loads(self.saved_arguments)
        return arguments


def attempt_of(execution: Execution) -> Attempt | None:
    """Return the attempt of a started execution; None if it never started or its payload was erased."""
    number, request_id, expires_at = execution.attempt_number, execution.request_id, execution.expires_at
    if number is None or request_id is None or expires_at is None or execution.arguments is None:
        return None
    return Attempt(
        execution_id=execution.execution_id,
        number=number,
        idempotency_key=downstream_key(execution.execution_id),
        request_id=request_id,
        note=execution.note,
        expires_at=expires_at,
        saved_arguments=execution.arguments,
    )
