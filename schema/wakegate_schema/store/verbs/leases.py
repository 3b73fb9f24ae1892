"""The worker's lease on an unstarted execution, and the sweep that acts on what time has done."""

from collections.abc import Sequence
from dataclasses import asdict

from wakegate_schema import clock
from wakegate_schema.records import Approval, Closing, Execution, Lease, MissingTool, RequestIdentity, Swept
from wakegate_schema.states import GIVE_UP_AFTER, HOLD_LOST, State
from wakegate_schema.store.errors import InvariantViolated
from wakegate_schema.store.texts import told
from wakegate_schema.store.transaction import Row, Transaction, each
from wakegate_schema.store.verbs import epochs, executions, mapping, workers

HEAD_START = 2 * clock.SECOND
"""How long everybody else may lease an execution before the owner that passed it on."""


@each
def take(tx: Transaction, item: tuple[str, int, int, int]) -> list[Execution]:
    """Lease what is due to this owner, soonest first."""
    owner, limit, at, until = item
    params = {"owner": owner, "limit": limit, "at": at, "until": until, "head_start": HEAD_START}
    found = tx.all("lease_due" if workers.is_known(tx, owner) else "lease_anything", params)
    return [mapping.execution(row) for row in found]


@each
def take_orphans(tx: Transaction, item: tuple[str, Sequence[MissingTool], int, int, int]) -> list[Execution]:
    """Lease calls that no worker has the tool for and that something is to be done about all the same."""
    owner, missing, limit, at, until = item
    found: list[Row] = []
    for tool in missing:
        for state, before in ((State.WAITING, at), (State.SUBMITTING, at), (State.SAVED, at - GIVE_UP_AFTER)):
            params = {
                "owner": owner, "tool": tool.tool, "version": tool.version or "", "state": state, "before": before,
                "limit": limit - len(found), "at": at, "until": until,
            }  # fmt: skip
            found += tx.all("lease_orphans", params)
        if len(found) == limit:
            break
    return [mapping.execution(row) for row in found]


def next_due_at(tx: Transaction, owner: str | None) -> int | None:
    """Return when the soonest execution becomes due to this owner, or to a new one."""
    known = owner is not None and workers.is_known(tx, owner)
    params = {"owner": owner, "head_start": HEAD_START}
    row = tx.first("next_due_at" if known else "next_due_anything", params)
    return None if row is None else row["at"]


@each
def keep(tx: Transaction, item: tuple[Lease, int, int]) -> bool:
    """Lengthen a lease that is not lost."""
    lease, at, until = item
    return tx.change("lease_keep", asdict(lease) | {"at": at, "until": until}) == 1


@each
def release(tx: Transaction, item: tuple[Lease, int, str | None, int, bool, Approval | None]) -> bool:
    """Give a lease back, and pin the approval that could not be used yet."""
    lease, due_at, problem, at, pass_on, approval = item
    params = asdict(lease) | {
        "due_at": due_at, "problem": problem, "at": at, "pass_on": pass_on,
        "decided_at": None if approval is None else approval.decided_at,
        "expires_at": None if approval is None else approval.expires_at,
    }  # fmt: skip
    return tx.change("lease_release", params) == 1


@each
def begin_submission(tx: Transaction, item: tuple[Lease, str | None, int]) -> bool:
    """saved → submitting; submitting stays."""
    lease, tool_version, at = item
    params = asdict(lease) | {"tool_version": tool_version, "at": at}
    return tx.change("begin_submission", params) == 1 or tx.first("is_submitting", params) is not None


@each
def attach(tx: Transaction, item: tuple[str, RequestIdentity, int]) -> Execution:
    """Record the request's identity in any state; submitting → waiting. An older one's execution is held."""
    execution_id, request, at = item
    row = executions.require(tx, execution_id)
    key = {"provider": row["provider"], "instance_id": row["instance_id"], "request_id": request.request_id}
    if row["request_id"] is None:
        tx.change("attach", asdict(request) | {"execution_id": execution_id})
    elif row["request_id"] != request.request_id:
        raise InvariantViolated(
            f"execution {execution_id} has request {row['request_id']}; the provider now says {request.request_id}"
        )
    attached = tx.change("attached_waits", {"execution_id": execution_id, "at": at}) == 1
    if attached and tx.first("notification_unhandled", key):
        tx.change_rows("executions_make_due", [tuple(key.values())], at)
    epochs.hold_if_older(tx, execution_id)
    return executions.one(tx, execution_id)


@each
def close(tx: Transaction, item: tuple[Lease, Closing, int]) -> bool:
    """End an execution that will not start."""
    lease, closing, at = item
    return tx.change("close_unstarted", asdict(closing) | asdict(lease) | {"at": at, "note": told(closing.note)}) == 1


@each
def sweep(tx: Transaction, item: tuple[int, int]) -> Swept:
    """Started and silent → in doubt; permitted and lapsed → lapsed; held and let go → abandoned."""
    at, limit = item
    params = {"at": at, "limit": limit}
    in_doubt = tuple(row["execution_id"] for row in tx.all("sweep_in_doubt", params))
    lapsed = tuple(row["execution_id"] for row in tx.all("sweep_lapsed", params))
    lost = tx.all("sweep_held", params)
    for row in lost:
        executions.give_up(tx, row, reason=HOLD_LOST, actor="sweep", at=at)
    return Swept(in_doubt, lapsed, tuple(row["execution_id"] for row in lost))


@each
def take_cancels(tx: Transaction, item: tuple[int, int, int]) -> list[Execution]:
    """Return what owes a cancel."""
    limit, at, until = item
    found = tx.all("lease_cancels", {"limit": limit, "at": at, "until": until})
    return [mapping.execution(row) for row in found]


@each
def cancel_settled(tx: Transaction, execution_id: str) -> None:
    """No cancel is owed any more."""
    tx.change("cancel_settled", {"execution_id": execution_id})


@each
def cancel_retry(tx: Transaction, item: tuple[str, int]) -> None:
    """Try the cancel again later."""
    execution_id, due_at = item
    tx.change("cancel_retry", {"execution_id": execution_id, "due_at": due_at})
