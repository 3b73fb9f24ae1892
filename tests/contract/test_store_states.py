"""Every arrow of the state diagram is reached through the verbs; `test_store_invariants` has what is not possible."""

import pytest

from support.desk import Desk, approved
from wakegate_schema import clock
from wakegate_schema.records import Closing, Outcome
from wakegate_schema.states import State
from wakegate_schema.store import NotAllowed, Store

S = State


async def arrows_of(store: Store, execution_id: str) -> list[tuple[State | None, State]]:
    """The changes on record."""
    return [(t.from_state, t.to_state) for t in await store.transitions(execution_id)]


@pytest.mark.parametrize("to", [S.REFUSED, S.UNOBTAINED])
async def test_a_saved_call_can_end_without_being_submitted(desk: Desk, store: Store, to: State) -> None:
    saved = await desk.save()
    leased = await desk.lease(saved.execution_id)
    assert await store.close_unstarted(leased.lease, Closing(to, "because"), clock.now())
    assert await arrows_of(store, saved.execution_id) == [(None, S.SAVED), (S.SAVED, to)]


@pytest.mark.parametrize("to", [S.REFUSED, S.UNOBTAINED])
async def test_a_submission_can_end_without_a_request(desk: Desk, store: Store, to: State) -> None:
    submitting = await desk.submitting()
    assert await store.close_unstarted(submitting.lease, Closing(to, "because"), clock.now())
    assert (await arrows_of(store, submitting.execution_id))[-1] == (S.SUBMITTING, to)


@pytest.mark.parametrize("to", [S.DENIED, S.EXPIRED, S.CANCELLED, S.LAPSED, S.REFUSED, S.UNOBTAINED])
async def test_a_waiting_call_can_end_without_a_start(desk: Desk, store: Store, to: State) -> None:
    waiting = await desk.waiting()
    assert await store.close_unstarted(waiting.lease, Closing(to, "because"), clock.now())
    found = await store.execution(waiting.execution_id)
    assert (found.state, found.reason, found.due_at, found.lease_until) == (to, "because", None, None)
    assert found.finished_at is not None


@pytest.mark.parametrize("given_up", ["save", "submitting", "waiting", "permitted"])
async def test_whatever_has_not_started_can_be_abandoned(desk: Desk, store: Store, given_up: str) -> None:
    execution = await getattr(desk, given_up)()
    abandoned = await store.abandon(execution.execution_id, "conversation closed", "harness", clock.now())
    assert (abandoned.state, abandoned.reason) == (S.ABANDONED, "conversation closed")
    owes = abandoned.cancel_due_at is not None
    assert owes == (given_up in ("submitting", "waiting"))
    again = await store.abandon(execution.execution_id, "again", "harness", clock.now())
    assert again == abandoned


@pytest.mark.parametrize("begun", ["started", "in_doubt"])
async def test_what_has_started_cannot_be_abandoned(desk: Desk, store: Store, begun: str) -> None:
    execution = await getattr(desk, begun)()
    with pytest.raises(NotAllowed, match="may have happened"):
        await store.abandon(execution.execution_id, "too late", "harness", clock.now())


async def test_a_worker_run_call_passes_through_permitted_in_one_commit(desk: Desk, store: Store) -> None:
    started = await desk.started()
    assert (await arrows_of(store, started.execution_id))[-2:] == [(S.WAITING, S.PERMITTED), (S.PERMITTED, S.STARTED)]
    assert started.attempt_number == started.lease_number


async def test_a_harness_run_call_waits_permitted_until_it_is_claimed(desk: Desk, store: Store) -> None:
    permitted = await desk.permitted()
    assert permitted.state is S.PERMITTED
    assert permitted.lease_until is None
    started = await desk.started(runs="harness")
    assert started.state is S.STARTED


@pytest.mark.parametrize(
    ("outcome", "to"),
    [
        (Outcome("succeeded", "returned", b"1"), S.SUCCEEDED),
        (Outcome("failed", "declared"), S.FAILED),
        (Outcome("in_doubt", "timeout"), S.IN_DOUBT),
        (Outcome("not_begun", "clock"), S.LAPSED),
    ],
)
async def test_an_attempt_ends_as_its_holder_says(desk: Desk, store: Store, outcome: Outcome, to: State) -> None:
    started = await desk.started()
    finished = await store.finish(started.lease, outcome, clock.now())
    assert finished.state is to
    assert (finished.finished_at is None) == (to is S.IN_DOUBT)
    assert await store.finish(started.lease, outcome, clock.now()) == finished


@pytest.mark.parametrize(("happened", "to"), [(True, S.SUCCEEDED), (False, S.FAILED)])
async def test_a_person_settles_what_is_in_doubt(desk: Desk, store: Store, happened: bool, to: State) -> None:
    doubtful = await desk.in_doubt()
    settled = await store.settle(doubtful.execution_id, happened=happened, by="mika", note="asked", at=clock.now())
    assert settled.state is to
    assert (await store.transitions(doubtful.execution_id))[-1].actor == "operator:mika"
    assert (settled.resolution_note, settled.error) == ("asked", doubtful.error)


async def test_the_attempts_own_late_word_settles_what_is_in_doubt(desk: Desk, store: Store) -> None:
    doubtful = await desk.in_doubt()
    late = await store.finish(doubtful.lease, Outcome("succeeded", "returned", b"{}"), clock.now())
    assert late.state is S.SUCCEEDED
    assert await store.anomalies() == []


async def test_a_late_word_against_a_persons_is_kept_as_an_anomaly(desk: Desk, store: Store) -> None:
    doubtful = await desk.in_doubt()
    await store.settle(doubtful.execution_id, happened=False, by="mika", note="asked", at=clock.now())
    late = await store.finish(doubtful.lease, Outcome("succeeded", "returned", b"{}"), clock.now())
    assert late.state is S.FAILED
    (anomaly,) = await store.anomalies()
    assert (anomaly.kind, anomaly.subject_id) == ("late_word", doubtful.execution_id)


async def test_a_late_word_that_says_nothing_is_no_anomaly(desk: Desk, store: Store) -> None:
    doubtful = await desk.in_doubt()
    await store.settle(doubtful.execution_id, happened=True, by="mika", note="asked", at=clock.now())
    assert (await store.finish(doubtful.lease, Outcome("in_doubt", "timeout"), clock.now())).state is S.SUCCEEDED
    assert await store.anomalies() == []


async def test_a_probe_settles_only_what_is_in_doubt(desk: Desk, store: Store) -> None:
    doubtful = await desk.in_doubt()
    outcome = Outcome("failed", "probe_did_not_happen")
    assert await store.settle_by_probe(doubtful.execution_id, outcome, clock.now())
    assert not await store.settle_by_probe(doubtful.execution_id, outcome, clock.now())


async def test_only_what_is_in_doubt_can_be_settled_by_a_person(desk: Desk, store: Store) -> None:
    started = await desk.started()
    with pytest.raises(NotAllowed, match="not in_doubt"):
        await store.settle(started.execution_id, happened=True, by="mika", note="", at=clock.now())


async def test_a_permitted_call_that_nobody_claims_lapses(desk: Desk, store: Store) -> None:
    permitted = await desk.permitted(approved(valid=clock.SECOND))
    swept = await store.sweep(clock.now() + 2 * clock.SECOND)
    assert swept.lapsed == (permitted.execution_id,)
    assert (await store.execution(permitted.execution_id)).reason == "not_claimed"
