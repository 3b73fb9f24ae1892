"""Adoptions: requests that nobody saved here, found by their notifications; one run at a time for each thread."""

import json
from collections.abc import Sequence

from wakegate_schema import clock
from wakegate_schema.records import Adoption, AdoptionLease, RunEnd
from wakegate_schema.records.workers import LIVES_FOR
from wakegate_schema.store.transaction import Row, Transaction, each
from wakegate_schema.store.verbs import executions
from wakegate_schema.store.verbs.clocks import FARTHEST
from wakegate_schema.store.verbs.mapping import LAST, record

SETTLES_IN = 5 * clock.SECOND
"""How long after its receipt a notification may still be matched: its request's id is attached meanwhile (µs)."""


def wait(tx: Transaction) -> bool:
    """Return whether any notification has not been looked through."""
    return tx.first("unmatched_wait") is not None


@each
def adopt_unmatched(tx: Transaction, item: tuple[int, int]) -> int:
    """Pass over a page of notifications; adopt the requests of those that nobody saved here."""
    at, limit = item
    passed = 0
    for row in tx.all("unmatched_next", {"limit": limit}):
        if at - SETTLES_IN < row["received_at"] <= at + FARTHEST:
            break  # those after it wait with it, so that none is passed over
        passed += 1
        if row["state"] == "received" and row["saved"] is None:
            _adopt(tx, row, at)
        number = row["number"]
    if passed:
        tx.change("adoption_mark_raise", {"number": number})
    return passed


@each
def take(tx: Transaction, item: tuple[Sequence[str], int, int, int]) -> list[Adoption]:
    """Lease what is due and can be resumed by who asks."""
    frameworks, limit, at, until = item
    params = {"frameworks": json.dumps(list(frameworks)), "limit": limit, "at": at, "until": until}
    return [record(Adoption, row) for row in tx.all("lease_adoptions", params)]


@each
def learned(tx: Transaction, item: tuple[AdoptionLease, str, str, int]) -> bool:
    """Keep which thread of which framework waits, and that its notifications are in good hands."""
    lease, framework, thread, at = item
    row = _of(tx, lease)
    if row is None:
        return False
    if executions.by_request(tx, row["provider"], row["instance_id"], row["request_id"]) is not None:
        tx.change("adoption_end", {**_key(lease), "reason": "saved_here", "at": at})
        return False
    tx.change("adoption_learn", {**_key(lease), "framework": framework, "thread": thread})
    tx.change("notifications_adopted", _request(row) | {"at": at})
    return True


@each
def run(tx: Transaction, item: tuple[AdoptionLease, int, int]) -> bool:
    """Take the thread for a run, if no other has it."""
    lease, at, until = item
    row = _of(tx, lease)
    if row is None or row["thread"] is None:
        return False
    thread = {"framework": row["framework"], "thread": row["thread"]}
    tx.change("adoption_thread_free", thread | {"at": at})
    if tx.first("adoption_thread_taken", thread) is not None:
        return False
    return tx.change("adoption_run", {**_key(lease), "at": at, "until": until}) == 1


@each
def keep(tx: Transaction, item: tuple[AdoptionLease, int, int]) -> bool:
    """Keep the thread."""
    lease, at, until = item
    return tx.change("adoption_keep", {**_key(lease), "at": at, "until": until}) == 1


@each
def again(tx: Transaction, item: tuple[AdoptionLease, int, str | None, RunEnd | None]) -> bool:
    """Give the lease and the thread back; look again later."""
    lease, due_at, problem, end = item
    params = {
        "due_at": due_at, "problem": problem, "failed": int(problem is not None), "end": end,
        "ended": int(end is not None), "well": int(end == "well"),
    }  # fmt: skip
    return tx.change("adoption_again", {**_key(lease), **params}) == 1


@each
def ended(tx: Transaction, item: tuple[AdoptionLease, str, int]) -> bool:
    """Nothing more is done for it."""
    lease, reason, at = item
    return tx.change("adoption_end", {**_key(lease), "reason": reason, "at": at}) == 1


def one(tx: Transaction, provider: str, instance_id: str, request_id: str) -> Adoption | None:
    """Return that of a request, if it was adopted."""
    row = tx.first("adoption", {"provider": provider, "instance_id": instance_id, "request_id": request_id})
    return None if row is None else record(Adoption, row)


def latest(tx: Transaction, before: int | None, limit: int) -> list[tuple[int, Adoption]]:
    """Return a page, the latest first, with row numbers."""
    rows = tx.all("adoptions_latest", {"before": LAST if before is None else before, "limit": limit})
    return [(row["number"], record(Adoption, row)) for row in rows]


def resumers_wanted(tx: Transaction, at: int) -> dict[str, int]:
    """Return which frameworks owed adoptions name that no living worker can resume, and how many each."""
    return {row["framework"]: row["count"] for row in tx.all("resumers_wanted", {"since": at - LIVES_FOR})}


def _adopt(tx: Transaction, row: Row, at: int) -> None:
    request = _request(row) | {"at": at}
    if tx.change("adoption_add", request) == 1:
        return
    found = tx.first("adoption", _request(row))
    if found is not None and found["framework"] is not None:
        tx.change("notifications_adopted", request)
        tx.change("adoption_hint", request)


def _of(tx: Transaction, lease: AdoptionLease) -> Row | None:
    return tx.first("adoption_of_lease", _key(lease))


def _key(lease: AdoptionLease) -> dict[str, int]:
    return {"number": lease.number, "lease_number": lease.lease_number}


def _request(row: Row) -> dict[str, str | int]:
    return {name: row[name] for name in ("provider", "instance_id", "request_id")}
