"""The census: counts for metrics, each over an index that holds only what is unfinished."""

from wakegate_schema.records import Census, Timing
from wakegate_schema.states import State
from wakegate_schema.store.transaction import Transaction
from wakegate_schema.store.verbs import leases


def take(tx: Transaction) -> Census:
    """Count what is unfinished."""
    (rest,) = tx.all("census_rest")
    due = {
        "execution": _soonest(tx),
        "attempt": rest["attempt_due"],
        "cancel": rest["cancel_due"],
        "report": rest["report_due"],
        "adoption": rest["adoption_due"],
        "wake": rest["wake_due"],
    }
    return Census(
        executions=_counts(tx, "census_executions"),
        wakes=_counts(tx, "census_wakes"),
        cancels=rest["cancels"],
        reports=rest["reports"],
        adoptions=rest["adoptions"],
        unhandled=rest["unhandled"],
        in_doubt_since=rest["in_doubt_since"],
        due={kind: at for kind, at in due.items() if at is not None},
    )


def _soonest(tx: Transaction) -> int | None:
    """Return when something becomes due to a worker on record; to any at all, where there is none.

    What nobody has the tool for waits however many workers there are: it is counted by itself.
    """
    owners = [row["worker_id"] for row in tx.all("workers")]
    due = (leases.next_due_at(tx, owner) for owner in owners or [None])
    return min((at for at in due if at is not None), default=None)


def timings(tx: Transaction, after: int, limit: int) -> list[Timing]:
    """Return what was told after this number, in order."""
    rows = tx.all("told", {"after": after, "limit": limit})
    return [
        Timing(
            row["number"],
            None if row["from_state"] is None else State(row["from_state"]),
            State(row["to_state"]),
            row["decided_at"],
            row["started_at"],
            row["expires_at"],
        )
        for row in rows
    ]


def _counts(tx: Transaction, query: str) -> dict[str, int]:
    return {row["word"]: row["count"] for row in tx.all(query)}
