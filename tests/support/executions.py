"""Executions and the requests that match them, for tests of what is decided about them."""

from dataclasses import replace
from typing import Any

from wakegate_schema import strict_json
from wakegate_schema.clock import MINUTE, SECOND
from wakegate_schema.records import Execution, call_digest
from wakegate_schema.states import State
from wakegate_schema.timestamps import parse, render
from wakegate_schema.wire import ApprovalRequest, parse_object

CREATED = parse("2026-09-16T12:00:00Z")
DEADLINE = CREATED + 30 * MINUTE
DECIDED = CREATED + 2 * MINUTE
EXPIRES = DECIDED + 5 * MINUTE
NOW = DECIDED + SECOND
REQUEST_ID = "7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71"
INSTANCE_ID = "b29a43a7-1949-4b9f-9d61-b7ae66f85d31"
PROVIDER = "https://approvals.example"


def an_execution(**changes: Any) -> Execution:
    """Return an execution that waits for its request, its digest right unless one is given."""
    execution = Execution(
        execution_id="0a9d0c5e-64ad-4d59-8f4f-6f6b1b8b7f01",
        provider=PROVIDER,
        instance_id=INSTANCE_ID,
        idempotency_key="run-7:call-2",
        tool="issue_refund",
        arguments=b'{"payment_id": "p-9", "amount": 4900, "rate": 0.10}',
        context=b'{"ticket": "T-1"}',
        reasoning="charged twice",
        timeout="30m",
        digest=b"",
        tool_version="1",
        runs="worker",
        wake="none",
        group=None,
        state=State.WAITING,
        reason=None,
        problem=None,
        tries=0,
        due_at=None,
        lease_number=1,
        lease_until=None,
        lease_owner=None,
        hold_id=None,
        hold_until=None,
        request_id=REQUEST_ID,
        request_created_at=CREATED,
        deadline_at=DEADLINE,
        decided_at=None,
        expires_at=None,
        note=None,
        claim_id=None,
        attempt_number=None,
        started_at=None,
        finished_at=None,
        result=None,
        error=None,
        cancel_due_at=None,
        cancel_tries=0,
        created_at=CREATED,
        changed_at=CREATED,
        erased_at=None,
        epoch=1,
        released_at=None,
    )
    execution = replace(execution, **changes)
    if "digest" in changes:
        return execution
    digest = call_digest(
        execution.tool, execution.arguments or b"", execution.context, execution.reasoning, execution.timeout
    )
    return replace(execution, digest=digest)


def unattached(**changes: Any) -> Execution:
    """Return an execution whose request id is not known yet."""
    return an_execution(
        **{
            "state": State.SUBMITTING,
            "request_id": None,
            "request_created_at": None,
            "deadline_at": None,
            **changes,
        }
    )


def approval(**changes: Any) -> dict[str, Any]:
    """Return an approved decision as JSON values; a change to None removes the field."""
    decision = {"status": "approved", "decided_at": render(DECIDED), "expires_at": render(EXPIRES)}
    return _changed(decision, changes)


def request_json(**changes: Any) -> dict[str, Any]:
    """Return, as JSON values, the approved request that matches `an_execution()`; None removes a field."""
    values = {
        "id": REQUEST_ID,
        "tool": "issue_refund",
        "arguments": {"payment_id": "p-9", "amount": 4900, "rate": 0.1},
        "timeout": "30m",
        "status": "approved",
        "created_at": render(CREATED),
        "deadline_at": render(DEADLINE),
        "agent_reasoning": "charged twice",
        "context": {"ticket": "T-1"},
        "decision": approval(),
    }
    return _changed(values, changes)


def pending_json(**changes: Any) -> dict[str, Any]:
    """Return the matching request while nobody has decided."""
    return request_json(**{"status": "pending", "decision": None, **changes})


def a_request(**changes: Any) -> ApprovalRequest:
    """Return `request_json` as the client reads it."""
    return parse_object(ApprovalRequest, strict_json.dumps(request_json(**changes)))


def _changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in {**values, **changes}.items() if value is not None}
