"""The worker's lease on an unstarted execution, and the sweep that acts on what time has done."""

from collections.abc import Sequence
from dataclasses import astuple
from operator import itemgetter

from wakegate_schema import clock
from wakegate_schema.records import Approval, Closing, Execution, Lease, MissingTool, RequestIdentity, Swept
from wakegate_schema.states import GIVE_UP_AFTER, HOLD_LOST, State
from wakegate_schema.store.errors import InvariantViolated
from wakegate_schema.store.texts import told
from wakegate_schema.store.transaction import Row, Transaction, by, each
from wakegate_schema.store.verbs import epochs, executions, mapping, workers

_Attached = tuple[tuple[str, RequestIdentity, int], Row]

HEAD_START = 2 * clock.SECOND
"""How long everybody else may lease an execution before the owner that passed it on."""


@each
def take(tx: Transaction, item: tuple[str, int, int, int]) -> list[Execution]:
    """Lease what is due to this owner, soonest first."""
    owner, limit, at, until = item
    params = {"owner": owner, "limit": limit, "at": at, "until": until, "head_start": HEAD_START}
    return mapping.executions(tx.all("lease_due" if workers.is_known(tx, owner) else "lease_anything", params))


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
    return mapping.executions(found)


def next_due_at(tx: Transaction, owner: str | None) -> int | None:
    """Return when the soonest execution becomes due to this owner, or to a new one."""
    known = owner is not None and workers.is_known(tx, owner)
    params = {"owner": owner, "head_start": HEAD_START}
    row = tx.first("next_due_at" if known else "next_due_anything", params)
    return None if row is None else row["at"]


@by(executions.of_lease)
def keep(tx: Transaction, items: Sequence[tuple[Lease, int, int]]) -> list[bool]:
    """Lengthen leases that are not lost."""
    table = [(lease.execution_id, lease.number, at, until) for lease, at, until in items]
    return executions.changed(tx, "lease_keep", table)


@by(executions.of_lease)
def release(tx: Transaction, items: Sequence[tuple[Lease, int, str | None, int, bool, Approval | None]]) -> list[bool]:
    """Give leases back, and pin approvals that could not be used yet."""
    table = [
        (
            lease.execution_id, lease.number, due_at, problem, at, int(pass_on),
            None if approval is None else approval.decided_at, None if approval is None else approval.expires_at,
            None if approval is None else approval.consumed_at,
        )
        for lease, due_at, problem, at, pass_on, approval in items
    ]  # fmt: skip
    return executions.changed(tx, "lease_release", table)


@by(executions.of_lease)
def begin_submission(tx: Transaction, items: Sequence[tuple[Lease, str | None, int]]) -> list[bool]:
    """saved → submitting; submitting stays."""
    table = [(lease.execution_id, lease.number, tool_version, at) for lease, tool_version, at in items]
    begun = executions.changed(tx, "begin_submission", table)
    if all(begun):
        return begun
    had = tx.all_rows("is_submitting", [(execution_id, number, at) for execution_id, number, _, at in table])
    return executions.are_among(table, had)


@by(itemgetter(0))
def attach(tx: Transaction, items: Sequence[tuple[str, RequestIdentity, int]]) -> list[Execution]:
    """Record requests' identities in any state; submitting → waiting. An older one's execution is held."""
    ids = [execution_id for execution_id, *_ in items]
    rows = executions.require_all(tx, ids)
    new = [
        (execution_id, *astuple(request))
        for (execution_id, request, _), row in zip(items, rows, strict=True)
        if _is_new(row, request)
    ]
    if new:
        tx.change_rows("attach", new)
    waits = executions.changed(tx, "attached_waits", [(execution_id, at) for execution_id, _, at in items])
    _make_due(tx, [(item, row) for item, row, does in zip(items, rows, waits, strict=True) if does])
    epochs.hold_if_older(tx, [row["execution_id"] for row in rows if row["epoch"] > 1])
    return mapping.executions(executions.require_all(tx, ids))


@by(executions.of_lease)
def close(tx: Transaction, items: Sequence[tuple[Lease, Closing, int]]) -> list[bool]:
    """End executions that will not start."""
    table = [
        (
            lease.execution_id, lease.number, at, str(closing.state), closing.reason, closing.decided_at,
            closing.expires_at, told(closing.note), int(closing.cancel), closing.consumed_at,
        )
        for lease, closing, at in items
    ]  # fmt: skip
    return executions.changed(tx, "close_unstarted", table)


@each
def sweep(tx: Transaction, item: tuple[int, int]) -> Swept:
    """Started and silent → in doubt; permitted and lapsed → lapsed; held and let go → abandoned."""
    at, limit = item
    params = {"at": at, "limit": limit}
    (due,) = tx.all("sweep_due", {"at": at})
    in_doubt = tuple(row["execution_id"] for row in tx.all("sweep_in_doubt", params)) if due["in_doubt"] else ()
    lapsed = tuple(row["execution_id"] for row in tx.all("sweep_lapsed", params)) if due["lapsed"] else ()
    lost = tx.all("sweep_held", params) if due["held"] else ()
    for row in lost:
        executions.give_up(tx, row, reason=HOLD_LOST, actor="sweep", at=at)
    return Swept(in_doubt, lapsed, tuple(row["execution_id"] for row in lost))


@each
def take_cancels(tx: Transaction, item: tuple[int, int, int]) -> list[Execution]:
    """Return what owes a cancel."""
    limit, at, until = item
    return mapping.executions(tx.all("lease_cancels", {"limit": limit, "at": at, "until": until}))


@each
def cancel_settled(tx: Transaction, execution_id: str) -> None:
    """No cancel is owed any more."""
    tx.change("cancel_settled", {"execution_id": execution_id})


@each
def cancel_retry(tx: Transaction, item: tuple[str, int]) -> None:
    """Try the cancel again later."""
    execution_id, due_at = item
    tx.change("cancel_retry", {"execution_id": execution_id, "due_at": due_at})


def _is_new(row: Row, request: RequestIdentity) -> bool:
    if row["request_id"] is None:
        return True
    if row["request_id"] != request.request_id:
        raise InvariantViolated(
            f"execution {row['execution_id']} has request {row['request_id']};"
            f" the provider now says {request.request_id}"
        )
    return False


def _make_due(tx: Transaction, attached: Sequence[_Attached]) -> None:
    """Make due what waits now and whose notification came first."""
    if not attached:
        return
    notified = tx.all_rows("attached_and_notified", [(execution_id,) for (execution_id, *_), _ in attached])
    ids = {row["execution_id"] for row in notified}
    for (execution_id, request, at), row in attached:
        if execution_id in ids:
            tx.change_rows("executions_make_due", [(row["provider"], row["instance_id"], request.request_id)], at)
