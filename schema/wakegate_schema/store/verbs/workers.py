"""Workers: who lives, what each has, and what nobody has."""

from dataclasses import asdict

from wakegate_schema import clock
from wakegate_schema.records import MissingTool, RegisteredWorker
from wakegate_schema.records.workers import LIVES_FOR
from wakegate_schema.store.transaction import Transaction, each
from wakegate_schema.store.verbs.clocks import FARTHEST

FORGOTTEN_AFTER = 10 * clock.MINUTE
"""How long after its last sign of life a worker is on record (µs)."""
COUNTED_MOST = 1000
"""How many calls for one missing tool are counted."""
MISSING_MOST = 100
"""How many missing tools are told of at a time."""


@each
def show(tx: Transaction, item: tuple[RegisteredWorker, int]) -> None:
    """Note a sign of life; register who is not on record. Forget those who have been silent for long."""
    worker, at = item
    for row in tx.all("workers_silent", {"before": at - FORGOTTEN_AFTER, "beyond": at + FARTHEST}):
        _remove(tx, row["worker_id"])
    if tx.change("worker_seen", {"worker_id": worker.worker_id, "at": at}) == 1:
        return
    tx.change("worker_add", {**asdict(worker), "at": at})
    for tool, version in worker.tools.items():
        tx.change("worker_tool_add", {"worker_id": worker.worker_id, "tool": tool, "version": version})
    for framework in sorted(worker.resumers):
        tx.change("worker_resumer_add", {"worker_id": worker.worker_id, "framework": framework})


@each
def drop_tools(tx: Transaction, worker_id: str) -> None:
    """Take nothing for its tools and its resumers any more."""
    _drop(tx, worker_id)


@each
def remove(tx: Transaction, worker_id: str) -> None:
    """Forget a worker that has ended."""
    _remove(tx, worker_id)


def every(tx: Transaction) -> list[RegisteredWorker]:
    """Return all on record, by pool."""
    tools: dict[str, dict[str, str]] = {}
    for row in tx.all("worker_tools"):
        tools.setdefault(row["worker_id"], {})[row["tool"]] = row["version"]
    resumers: dict[str, set[str]] = {}
    for row in tx.all("worker_resumers"):
        resumers.setdefault(row["worker_id"], set()).add(row["framework"])
    return [
        RegisteredWorker(
            row["worker_id"], row["host"], row["pool"], row["version"], row["migration"], row["lease_seconds"],
            row["started_at"], row["seen_at"], tools.get(row["worker_id"], {}),
            frozenset(resumers.get(row["worker_id"], ())),
        )
        for row in tx.all("workers")
    ]  # fmt: skip


def living_pools(tx: Transaction, at: int) -> frozenset[str]:
    """Return the pools in which a worker lives."""
    return frozenset(row["pool"] for row in tx.all("living_pools", {"since": at - LIVES_FOR}))


def longest_lease(tx: Transaction) -> int:
    """Return the longest lease of any worker on record, in seconds; 0 without one."""
    (row,) = tx.all("longest_lease")
    return row["seconds"] or 0


def is_known(tx: Transaction, owner: str) -> bool:
    """Return whether an owner of leases has registered."""
    return tx.first("worker_is_known", {"owner": owner}) is not None


def missing(tx: Transaction, at: int) -> list[MissingTool]:
    """Return what undecided calls name and no living worker has; of very many others each second, all in their turn."""
    wanted, found = tx.all("missing_tools", {"since": at - LIVES_FOR}), []
    first = at // clock.SECOND * MISSING_MOST % len(wanted) if len(wanted) > MISSING_MOST else 0
    for row in [*wanted[first:], *wanted[:first]][:MISSING_MOST]:
        params = {"tool": row["tool"], "version": row["version"], "limit": COUNTED_MOST}
        (counted,) = tx.all("calls_missing_a_tool", params)
        found.append(MissingTool(row["tool"], row["version"] or None, counted["count"]))
    return found


def _remove(tx: Transaction, worker_id: str) -> None:
    _drop(tx, worker_id)
    tx.change("worker_remove", {"worker_id": worker_id})


def _drop(tx: Transaction, worker_id: str) -> None:
    tx.change("worker_tools_remove", {"worker_id": worker_id})
    tx.change("worker_resumers_remove", {"worker_id": worker_id})
