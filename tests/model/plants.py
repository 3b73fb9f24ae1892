"""Plants: faults that this program could have, each put into one function or one named query of it (of SQLite's)."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from model import focus
from model.focus import Focus

from wakegate_receiver import notifications as acknowledging
from wakegate_schema.records import Arrival, Execution, Receipt
from wakegate_schema.store.dialects import Dialect
from wakegate_schema.store.sqlite import opening
from wakegate_schema.store.transaction import Row, Transaction, each
from wakegate_schema.store.verbs import attempts, executions, notifications, retention
from wakegate_worker import boundary
from wakegate_worker.starting import Starting

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledge_before_commit(patch: pytest.MonkeyPatch) -> None:
    """The receiver answers 204 while the commit is still to come."""
    real = acknowledging.acknowledge

    async def hasty(*args: Any) -> Any:
        *before, record, at = args
        kept: list[asyncio.Task[Receipt]] = []

        async def later(arrival: Arrival) -> Receipt:
            kept.append(asyncio.create_task(record(arrival)))
            kept[0].add_done_callback(lambda task: task.cancelled() or task.exception())
            return Receipt("saved")

        return await real(*before, later, at)  # type: ignore[call-arg]

    patch.setattr(acknowledging, "acknowledge", hasty)


def start_what_is_started(patch: pytest.MonkeyPatch) -> None:
    """A start whose guard does not hold takes the start of another for its own."""
    real = attempts.start

    @each
    def start(tx: Transaction, item: Any) -> Execution | None:
        found = real(tx, [item])[0]
        if found is None:
            known = executions.one(tx, item[0].execution_id)
            return known if known.started_at is not None else None
        return found

    patch.setattr(attempts, "start", start)


def trust_the_time_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    """Nothing is looked at again right before the call begins."""
    patch.setattr(Starting, "_unfit", lambda *_: None)


def know_no_duplicate(patch: pytest.MonkeyPatch) -> None:
    """An event that is there already is taken for a new one."""
    _change_query(patch, "notifications_among", "found.event_id = wanted.event_id", "found.event_id = ''")


def take_ids_for_everybodys(patch: pytest.MonkeyPatch) -> None:
    """An event of one provider is taken for the same id's of another."""
    _change_query(
        patch, "notifications_among", "found.provider = wanted.provider AND ", "", "SELECT found", "SELECT wanted"
    )
    _change_query(
        patch, "notification_add", "VALUES (", "SELECT * FROM (VALUES (",
        "{rows}", "{rows}) WHERE column3 NOT IN (SELECT event_id FROM notification)",
    )  # fmt: skip


def close_under_any_lease(patch: pytest.MonkeyPatch) -> None:
    """A worker that has lost its lease ends the call all the same."""
    _change_query(patch, "close_unstarted", "lease_number = item.number AND lease_until > item.at", "1")


def release_under_any_lease(patch: pytest.MonkeyPatch) -> None:
    """A worker that has lost its lease gives back that of another."""
    _change_query(patch, "lease_release", "lease_number = item.number AND lease_until > item.at", "1")


def forget_the_hint(patch: pytest.MonkeyPatch) -> None:
    """What came in while a worker looked is forgotten when it gives the lease back."""
    _change_query(patch, "lease_release", "WHEN execution.due_at >= lease_until THEN", "WHEN 1 = 1 THEN")


def forget_the_early_event(patch: pytest.MonkeyPatch) -> None:
    """What came in before the request's id was known is not looked for."""
    _change_query(patch, "attached_and_notified", "notification.state = 'received'", "notification.state = 'none'")
    patch.setattr(notifications, "unhandled", lambda *_: False)


def prune_the_tombstone(patch: pytest.MonkeyPatch) -> None:
    """Retention removes what it is to erase only."""
    real = retention.prune

    @each
    def prune(tx: Transaction, item: Any) -> Any:
        done = real(tx, [item])[0]
        tx.run("DROP TRIGGER IF EXISTS execution_is_kept")
        tx.run("DROP TRIGGER IF EXISTS transition_is_append_only")
        tx.run("DROP TRIGGER IF EXISTS transition_is_kept")
        for table in ("wake", "transition", "execution"):
            tx.run(
                f"DELETE FROM {table} WHERE execution_id IN"
                " (SELECT execution_id FROM execution WHERE erased_at IS NOT NULL)"
            )
        return done

    patch.setattr(retention, "prune", prune)


def claim_for_anybody(patch: pytest.MonkeyPatch) -> None:
    """A claim's repeat is not told from another's claim."""
    _change_query(patch, "claim_again", "claim_id = :claim_id AND ", "")


def claim_across_epochs(patch: pytest.MonkeyPatch) -> None:
    """A call that may have been started before the store went back in time can be claimed."""
    _change_query(patch, "claim", "AND epoch = (SELECT MAX(number) FROM epoch)", "")


def forget_the_abandonment(patch: pytest.MonkeyPatch) -> None:
    """A call abandoned while it is being submitted goes on."""
    real = executions.give_up

    def give_up(tx: Transaction, row: Row, **fields: Any) -> None:
        if row["state"] != "submitting":
            real(tx, row, **fields)

    patch.setattr(executions, "give_up", give_up)


def owe_no_cancel(patch: pytest.MonkeyPatch) -> None:
    """What is abandoned while it is being submitted is not cancelled: its request's id is not known."""
    _change_query(
        patch, "execution_abandon", ":cancel_due_at,", "CASE WHEN request_id IS NOT NULL THEN :cancel_due_at END,"
    )


def call_silence_a_failure(patch: pytest.MonkeyPatch) -> None:
    """The sweep says of a call that fell silent that it did not happen."""
    _change_query(patch, "sweep_in_doubt", "'in_doubt'", "'failed'")


def compare_no_arguments(patch: pytest.MonkeyPatch) -> None:
    """What was approved is not compared with what was saved."""
    patch.setattr(boundary, "_payload_faults", lambda *_: iter(()))


def take_the_superseded(patch: pytest.MonkeyPatch) -> None:
    """A registration is taken for ever, though another has taken its place."""
    real = notifications._speaking

    def speaking(registration: Row | None, arrival: Arrival) -> Row | None:
        if registration is None:
            return None
        return real({**registration, "superseded_until": None}, arrival)

    patch.setattr(notifications, "_speaking", speaking)


PLANTS: dict[Plant, Focus] = {
    acknowledge_before_commit: focus.NOTICES,
    start_what_is_started: focus.LEASES,
    trust_the_time_before_the_commit: focus.LATE_STARTS,
    know_no_duplicate: focus.NOTICES,
    take_ids_for_everybodys: focus.NOTICES,
    close_under_any_lease: focus.LATE_STARTS,
    release_under_any_lease: focus.LEASES,
    forget_the_hint: focus.HINTS,
    forget_the_early_event: focus.EARLY,
    prune_the_tombstone: focus.RETENTION,
    claim_for_anybody: focus.CLAIMS,
    claim_across_epochs: focus.CLAIMS,
    forget_the_abandonment: focus.ABANDONMENT,
    owe_no_cancel: focus.ABANDONMENT,
    call_silence_a_failure: focus.DOUBTS,
    compare_no_arguments: focus.EVERYTHING,
    take_the_superseded: focus.NOTICES,
}
"""Every plant, and what the histories are about in which it is looked for."""


def _change_query(patch: pytest.MonkeyPatch, name: str, *texts: str) -> None:
    """Have every store in SQLite opened from now on use one query otherwise: each first text is replaced by the next.

    Raises KeyError when the query has no such text.
    """

    before = opening.load_store  # type: ignore[attr-defined]

    def load_store(dialect: Dialect) -> Mapping[str, str]:
        found = dict(before(dialect))
        for old, new in zip(texts[::2], texts[1::2], strict=True):
            if old not in found[name]:
                raise KeyError(old)
            found[name] = found[name].replace(old, new)
        return found

    patch.setattr(opening, "load_store", load_store)
