"""Epochs: a store that may have gone back in time starts nothing of before by itself (DESIGN, "Store and queue")."""

from collections.abc import Sequence

from wakegate_schema import clock, timestamps
from wakegate_schema.records import Epoch, Execution
from wakegate_schema.states import OLDER_EPOCH
from wakegate_schema.store.errors import ClockBehind, NotAllowed
from wakegate_schema.store.texts import told
from wakegate_schema.store.transaction import Transaction, each
from wakegate_schema.store.verbs import executions, mapping

RELEASED = "released"
"""The reason of the transition by which an operator brings an execution into the present epoch."""
PROMOTED = "promoted"
"""The reason of an epoch that begins because the database may have lost its last commits, on an operator's word."""
CLOCKS_DIFFER = 300 * clock.SECOND
"""How far another clock may be from this host's, the provider's or another host's: a request made so soon after the
epoch began, by its `created_at`, may have been made before."""


def present(tx: Transaction) -> Epoch:
    """Return the present one."""
    (row,) = tx.all("epoch_present")
    return mapping.record(Epoch, row)


@each
def begin(tx: Transaction, item: tuple[str, str, int]) -> Epoch:
    """Begin the next one; hold whatever has not started."""
    reason, actor, at = item
    tx.change("epoch_raise", {"reason": reason, "actor": actor, "at": at})
    tx.change("epoch_hold_older", {"problem": OLDER_EPOCH})
    tx.change("epoch_end_attempts", {"at": at})
    return present(tx)


def begin_above(tx: Transaction, item: tuple[str, str, int], above: int) -> Epoch:
    """Begin the next one whose number is higher than this; see `begin`."""
    (epoch,) = begin(tx, [item])
    while epoch.number <= above:
        (epoch,) = begin(tx, [item])
    return epoch


def check_clock(seen: int, at: int, what: str) -> None:
    """Raise `ClockBehind` when an epoch that begins now would begin before calls that have run.

    Args:
        seen: a time that some clock has shown, µs.
        at: this host's wall clock, µs.
        what: what was done at that time, for the message: "the store at … was used".
    """
    if seen > at + CLOCKS_DIFFER:
        raise ClockBehind(
            f"{what} at {timestamps.render(seen)}, a time that this host's clock has not reached; correct the clock"
            " (`wakegate clock reset` if it was wrong then); nothing was changed"
        )


def hold_if_older(tx: Transaction, ids: Sequence[str]) -> None:
    """Put executions whose request is as old as another epoch into that one. Those of the first have no older one."""
    if ids:
        tx.change_rows("epoch_hold_attached", [(execution_id, OLDER_EPOCH, CLOCKS_DIFFER) for execution_id in ids])


@each
def release(tx: Transaction, item: tuple[str, str, str | None, int]) -> Execution:
    """Bring an execution into the present epoch, on a person's word."""
    execution_id, actor, note, at = item
    row = tx.first("epoch_release", {"execution_id": execution_id, "note": told(note), "at": at})
    if row is None:
        found = executions.one(tx, execution_id)
        raise NotAllowed(
            f"execution {execution_id} is {found.state} and waits for no release; nothing was changed",
            reason="not_held",
        )
    tx.change(
        "epoch_note_release",
        {"execution_id": execution_id, "state": row["state"], "reason": RELEASED, "actor": actor, "at": at},
    )
    return executions.one(tx, execution_id)


def held(tx: Transaction, after: int, limit: int) -> list[tuple[int, Execution]]:
    """Return a page of those that wait for a release, oldest first, with row numbers."""
    found = tx.all("executions_held", {"after": after, "limit": limit})
    return [(row["number"], mapping.execution(row)) for row in found]
