"""Clocks: the highest reading that each host has shown, its reset, and what a clock that was ahead has put off."""

from collections.abc import Sequence

from wakegate_schema.clock import HOUR
from wakegate_schema.records import ClockMark, ClockReset, PutOff
from wakegate_schema.store.errors import NotFound
from wakegate_schema.store.transaction import Transaction, each
from wakegate_schema.store.verbs.mapping import LAST, record

FARTHEST = HOUR
"""No lease, hold, cancel or wake is put off for longer than this by a right clock (µs)."""


def mark(tx: Transaction, items: Sequence[tuple[str, int]]) -> list[int]:
    """Raise hosts' highest readings; return the one before each."""
    highest: dict[str, int] = {}
    before = []
    for host, at in items:
        if host not in highest:
            row = tx.first("clock_mark_read", {"host": host})
            highest[host] = 0 if row is None else row["highest_at"]
        before.append(highest[host])
        highest[host] = max(highest[host], at)
    for host, at in highest.items():
        tx.change("clock_mark_raise", {"host": host, "at": at})
    return before


def marks(tx: Transaction) -> list[ClockMark]:
    """Return all of them, the highest first."""
    return [record(ClockMark, row) for row in tx.all("clock_marks")]


def resets(tx: Transaction) -> list[ClockReset]:
    """Return all of them, oldest first."""
    return [record(ClockReset, row) for row in tx.all("clock_resets")]


@each
def reset(tx: Transaction, item: tuple[str, str, int]) -> ClockReset | None:
    """Lower the host's mark, and keep who did it."""
    host, actor, at = item
    row = tx.first("clock_mark_read", {"host": host})
    if row is None:
        raise NotFound(f"host {host} has shown no time yet; see `wakegate clock show`")
    if row["highest_at"] <= at:
        return None
    done = ClockReset(host, row["highest_at"], at, actor)
    tx.change("clock_mark_lower", {"host": host, "at": at})
    tx.change("clock_reset_add", {"host": host, "from_at": done.from_at, "at": at, "actor": actor})
    return done


@each
def bring_forward(tx: Transaction, item: tuple[int, PutOff | None, int]) -> PutOff | None:
    """Make due what was put off too far, a page of executions at a time; everything else with the first page."""
    at, resume, limit = item
    params = {"at": at, "beyond": at + FARTHEST, "limit": limit}
    if resume is None:
        for name in _AT_ONCE:
            tx.change(name, params)
        resume = PutOff(LAST, LAST, 0)
    page = params | {"before_at": resume.due_at, "before_number": resume.number}
    rows = tx.all("bring_forward_page", page)
    if not rows:
        return None
    tx.change("bring_forward_due", page)
    return PutOff(rows[-1]["due_at"], rows[-1]["number"], resume.count + len(rows))


_AT_ONCE = (
    "bring_forward_hinted",
    "bring_forward_started",
    "bring_forward_held",
    "bring_forward_cancels",
    "bring_forward_reports",
    "bring_forward_adoptions",
    "bring_forward_runs",
    "bring_forward_wakes",
)
