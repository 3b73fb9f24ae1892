"""Changes: for every state, what must be true of the world for an execution to come into it."""

from dataclasses import dataclass

from model.approver import FALSIFIED, Request
from model.reference import Call, Reference, Step, given_up_at
from model.snapshot import Row, Snapshot

from wakegate_schema.downstream import consumption_key

UNDECIDED = ("saved", "submitting", "waiting")


@dataclass(frozen=True)
class Case:
    """One change of one execution, and all that could justify it."""

    call: Call
    change: Row
    before: Row | None
    after: Row
    request: Request | None
    epoch: int
    step: Step
    consumes: bool
    """Whether the call's provider knows consumption."""

    @property
    def holds_lease(self) -> bool:
        """Whether the job that acts now holds the lease."""
        job, before = self.step.job, self.before
        return job is not None and before is not None and _holds(job.lease_number, before, self.change["at"])


def unjust(reference: Reference, after: Snapshot, step: Step) -> list[str]:
    """Every change since the last step that nothing justifies."""
    found = []
    for execution_id, changes in after.transitions.items():
        known = reference.seen.transitions.get(execution_id, [])
        call = reference.calls.get(execution_id)
        if call is None:
            found.append(f"{execution_id} was saved by nobody")
            continue
        if changes[: len(known)] != known:
            found.append(f"{call.key}: what was written down has changed")
        before = reference.seen.executions.get(execution_id)
        for change in changes[len(known) :]:
            case = Case(
                call, change, before, after.executions[execution_id], reference.request(call), after.epoch, step,
                reference.approvers[call.instance[0]].consumes,
            )  # fmt: skip
            if not _just(case):
                found.append(
                    f"{call.key}: {change['from_state']} became {change['to_state']}"
                    f" ({change['reason']}, by {change['actor']}), and nothing says that it may"
                )
        found += _meddling(call, before, after.executions[execution_id], step)
    return found


def _just(case: Case) -> bool:
    change = case.change
    if change["from_state"] == change["to_state"]:
        return bool(change["reason"] == "released") and case.call.execution_id in case.step.releases
    needs_lease = change["actor"] == "worker" and change["from_state"] in UNDECIDED and change["to_state"] != "waiting"
    return (case.holds_lease or not needs_lease) and _RULES[change["to_state"]](case)


def _saved(case: Case) -> bool:
    return case.before is None


def _submitting(case: Case) -> bool:
    return bool(case.change["actor"] == "worker")


def _waiting(case: Case) -> bool:
    return case.request is not None and case.after["request_id"] == case.request.request_id


def _permitted(case: Case) -> bool:
    request = case.request
    if request is None or request.status != "approved" or case.call.kind == FALSIFIED:
        return False
    if case.after["epoch"] != case.epoch:
        return False
    if (case.after["decided_at"], case.after["expires_at"]) != (request.decided_at, request.expires_at):
        return False
    if request.spent_by != _spends(case) and case.consumes:
        return False
    return bool(case.change["at"] < case.after["expires_at"])


def _spends(case: Case) -> str:
    return consumption_key(case.call.execution_id, case.after["epoch"])


def _started(case: Case) -> bool:
    after, job = case.after, case.step.job
    if case.change["at"] >= after["expires_at"] or job is None or after["epoch"] != case.epoch:
        return False
    if case.call.runs == "worker":
        return bool(after["attempt_number"] == job.lease_number)
    return case.before is not None and bool(after["attempt_number"] == case.before["lease_number"] + 1)


def _as_decided(case: Case) -> bool:
    return case.request is not None and case.request.status == case.change["to_state"]


def _lapsed(case: Case) -> bool:
    if case.change["from_state"] == "started":
        return not case.call.begun
    request = case.request
    return request is not None and request.expires_at is not None and request.expires_at <= case.change["at"]


def _refused(case: Case) -> bool:
    spent_by = None if case.request is None else case.request.spent_by
    return case.call.kind == FALSIFIED or spent_by not in (None, _spends(case))


def _unobtained(case: Case) -> bool:
    return bool(case.change["at"] >= given_up_at(case.after))


def _abandoned(case: Case) -> bool:
    if case.call.execution_id in case.step.abandons or case.call.instance in case.step.retires:
        return True
    held = None if case.before is None else case.before["hold_until"]
    return held is not None and bool(held <= case.change["at"])


def _succeeded(case: Case) -> bool:
    if case.change["actor"].startswith("operator:"):
        return case.step.person.get(case.call.execution_id) is True
    return case.call.effects == 1


def _failed(case: Case) -> bool:
    if case.change["actor"].startswith("operator:"):
        return case.step.person.get(case.call.execution_id) is False
    return case.call.effects == 0


def _in_doubt(case: Case) -> bool:
    if case.call.word == "unknown":
        return True
    return case.before is not None and bool((case.before["lease_until"] or 0) <= case.change["at"])


_RULES = {
    "saved": _saved,
    "submitting": _submitting,
    "waiting": _waiting,
    "permitted": _permitted,
    "started": _started,
    "denied": _as_decided,
    "expired": _as_decided,
    "cancelled": _as_decided,
    "lapsed": _lapsed,
    "refused": _refused,
    "unobtained": _unobtained,
    "abandoned": _abandoned,
    "succeeded": _succeeded,
    "failed": _failed,
    "in_doubt": _in_doubt,
}


def _holds(number: int, row: Row, at: int) -> bool:
    return bool(number == row["lease_number"] and (row["lease_until"] or 0) > at)


def _meddling(call: Call, before: Row | None, after: Row, step: Step) -> list[str]:
    """A job whose lease somebody else has taken changes nothing of the call but its request's id.

    By the clock alone a lease is lost only when the commit's own reading says so, which `_just` looks at.
    """
    job = step.job
    if job is None or before is None or not job.lease_number or job.subject != call.execution_id:
        return []
    if job.lease_number == before["lease_number"] or before["request_id"] != after["request_id"]:
        return []
    names = ("state", "due_at", "lease_until", "lease_owner", "problem")
    changed = [name for name in names if before[name] != after[name]]
    return [f"{call.key}: {job!r} has lost its lease, and changed {', '.join(changed)}"] if changed else []
