"""How records are shown: plain objects with RFC 3339 times, without payloads and without secrets."""

from collections.abc import Mapping
from typing import Any

from wakegate_schema import timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.records import (
    Adoption,
    Anomaly,
    ClockMark,
    ClockReset,
    Execution,
    Group,
    Instance,
    Notification,
    Registration,
    Transition,
    Wake,
)

View = dict[str, Any]
Names = Mapping[tuple[str, str], str]
"""The names of the instances, by provider and instance id."""


def names(instances: list[Instance]) -> Names:
    """Return the names of these instances."""
    return {record.identity: record.name for record in instances}


def moment(at: int | None) -> str | None:
    """Return a time of a record as RFC 3339 text."""
    return timestamps.render_known(at)


def execution(record: Execution, instances: Names) -> View:
    """Return what a listing says of an execution."""
    return {
        "execution_id": record.execution_id,
        "provider": record.provider,
        "instance_id": record.instance_id,
        "instance": instances.get((record.provider, record.instance_id)),
        "key": record.idempotency_key,
        "request_id": record.request_id,
        "tool": record.tool,
        "tool_version": record.tool_version,
        "runs": record.runs,
        "wake": record.wake,
        "group": record.group,
        "state": str(record.state),
        "reason": record.reason,
        "problem": record.problem,
        "tries": record.tries,
        "created_at": moment(record.created_at),
        "due_at": moment(record.due_at),
        "deadline_at": moment(record.deadline_at),
        "decided_at": moment(record.decided_at),
        "expires_at": moment(record.expires_at),
        "consumed_at": moment(record.consumed_at),
        "started_at": moment(record.started_at),
        "finished_at": moment(record.finished_at),
        "changed_at": moment(record.changed_at),
        "cancel_due_at": moment(record.cancel_due_at),
        "report_due_at": moment(record.report_due_at),
        "report_tries": record.report_tries,
        "erased_at": moment(record.erased_at),
        "epoch": record.epoch,
        "released_at": moment(record.released_at),
    }


def execution_words(record: Execution) -> View:
    """Return what people and tools have said of an execution; for one that is looked at, not for listings."""
    return {
        "note": record.note,
        "error": record.error,
        "resolution_note": record.resolution_note,
        "release_note": record.release_note,
    }


def execution_payload(record: Execution) -> View:
    """Return the payload of an execution: the exact text of what was saved and of what came of it."""
    return {
        "arguments": _text(record.arguments),
        "context": _text(record.context),
        "reasoning": record.reasoning,
        "result": _text(record.result),
    }


def transition(record: Transition) -> View:
    """Return one change of an execution's state."""
    return {
        "number": record.number,
        "from": None if record.from_state is None else str(record.from_state),
        "to": str(record.to_state),
        "reason": record.reason,
        "actor": record.actor,
        "at": moment(record.at),
    }


def wake(record: Wake, group: str | None = None) -> View:
    """Return one wake; its tries are all that were made since it was owed, the one that got through among them.

    Args:
        record: the wake.
        group: the name of the group that it tells of.
    """
    return {
        "wake_id": record.wake_id,
        "execution_id": record.execution_id,
        "group": group,
        "target": record.target,
        "to": str(record.to_state),
        "state": record.state,
        "tries": record.tries + (record.state == "delivered"),
        "problem": record.problem,
        "due_at": moment(record.due_at),
        "created_at": moment(record.created_at),
        "owed_since": moment(record.owed_since),
        "delivered_at": moment(record.delivered_at),
    }


def group(record: Group, instances: Names) -> View:
    """Return a group that is not sealed."""
    return {
        "group": record.group,
        "provider": record.provider,
        "instance_id": record.instance_id,
        "instance": instances.get((record.provider, record.instance_id)),
        "wake": record.wake,
        "calls": record.calls,
        "resolved": record.resolved,
        "awaits_seal": record.awaits_seal,
        "created_at": moment(record.created_at),
    }


def notification(record: Notification) -> View:
    """Return what a listing says of a notification."""
    return {
        "event_id": record.event_id,
        "provider": record.provider,
        "instance_id": record.instance_id,
        "registration_id": record.registration_id,
        "request_id": record.request_id,
        "state": record.state,
        "reason": record.reason,
        "duplicates": record.duplicates,
        "created_at": moment(record.created_at),
        "received_at": moment(record.received_at),
        "handled_at": moment(record.handled_at),
        "keep_until": moment(record.keep_until),
    }


def adoption(record: Adoption) -> View:
    """Return a request that nobody saved here, and how far its framework was resumed."""
    return {
        "request_id": record.request_id,
        "state": record.state,
        "reason": record.reason,
        "framework": record.framework,
        "thread": record.thread,
        "problem": record.problem,
        "tries": record.tries,
        "due_at": moment(record.due_at),
        "runs": record.runs,
        "well_runs": record.well_runs,
        "run_began_at": moment(record.run_began_at),
        "run_until": moment(record.run_until),
        "last_end": record.last_end,
        "created_at": moment(record.created_at),
        "ended_at": moment(record.ended_at),
    }


def notification_payload(record: Notification) -> View:
    """Return the body of a notification as it came."""
    return {"body": _text(record.body)}


def anomaly(record: Anomaly) -> View:
    """Return something that cannot be, and how often it was seen."""
    return {
        "kind": record.kind,
        "detail": record.detail,
        "count": record.count,
        "first_at": moment(record.first_at),
        "last_at": moment(record.last_at),
    }


def clock_mark(record: ClockMark, now: int) -> View:
    """Return the highest time a host has shown, and how many seconds it is ahead of this host's clock; 0 for none."""
    return {
        "host": record.host,
        "highest_at": moment(record.highest_at),
        "ahead_s": max(0, record.highest_at - now) // SECOND,
    }


def clock_reset(record: ClockReset) -> View:
    """Return the reset of a mark."""
    return {
        "host": record.host,
        "from": moment(record.from_at),
        "to": moment(record.to_at),
        "actor": record.actor,
    }


def instance(record: Instance, registration_id: str | None) -> View:
    """Return what a listing says of an instance; the registration is the last one of its own."""
    return {
        "instance_id": record.instance_id,
        "registration_id": registration_id,
        "provider": record.provider,
        "name": record.name,
        "state": record.state,
        "reason": record.state_reason,
        "delivery": record.delivery,
        "credential_expires_at": moment(record.credential_expires_at),
        "created_at": moment(record.created_at),
        "retired_at": moment(record.retired_at),
    }


def registration(record: Registration) -> View:
    """Return a registration without its secret."""
    return {
        "registration_id": record.registration_id,
        "state": record.state,
        "url": record.url,
        "created_at": moment(record.created_at),
        "expected_until": moment(record.expected_until),
        "verified_at": moment(record.verified_at),
        "superseded_until": moment(record.superseded_until),
        "retired_at": moment(record.retired_at),
        "in_force": record.state == "verified" and not record.replacing,
    }


def unfinished(record: Registration) -> View:
    """Return a registration that has no instance yet, in the form of an instance."""
    return {
        "instance_id": record.instance_id,
        "registration_id": record.registration_id,
        "provider": record.provider,
        "name": record.name,
        "state": record.state,
        "reason": _MISSING.get(record.state),
        "delivery": "webhook",
        "credential_expires_at": None,
        "created_at": moment(record.created_at),
        "retired_at": moment(record.retired_at),
    }


_MISSING = {"expected": "not_verified", "verified": "no_credential"}
"""What a registration without an instance waits for."""


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
