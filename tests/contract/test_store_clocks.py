"""Clocks in the store: marks and their resets, what a clock that was ahead has put off, and ends that never move."""

from contextlib import closing

import pytest

from support.desk import Desk, approved, new_id
from support.raw import open_raw
from wakegate_schema import clock
from wakegate_schema.clock import DAY, HOUR, MINUTE
from wakegate_schema.records import Approval, Claimed, Closing, Execution, PutOff
from wakegate_schema.states import State
from wakegate_schema.store import InvariantViolated, NotFound, Store


async def brought_forward(store: Store, at: int, limit: int = 500) -> int:
    """Take every step and return how many executions became due."""
    step, count = await store.bring_forward(at, None, limit), 0
    while step is not None:
        count, step = step.count, await store.bring_forward(at, step, limit)
    return count


async def test_a_reset_lowers_the_mark_and_is_kept_for_good(database: str, store: Store) -> None:
    now = clock.now()
    await store.mark_clock("here", now + DAY)
    reset = await store.reset_clock("here", "operator:Ada", now)
    assert reset is not None
    assert (reset.from_at, reset.to_at, reset.actor) == (now + DAY, now, "operator:Ada")
    assert [(mark.host, mark.highest_at) for mark in await store.clock_marks()] == [("here", now)]
    assert await store.clock_resets() == [reset]
    for change in ("UPDATE clock_reset SET actor = 'nobody'", "DELETE FROM clock_reset"):
        with closing(open_raw(database)) as raw:
            assert "append-only" in raw.refusal(change).message


async def test_a_mark_that_is_not_ahead_is_not_reset(store: Store) -> None:
    now = clock.now()
    await store.mark_clock("here", now)
    assert await store.reset_clock("here", "operator:Ada", now) is None
    assert await store.clock_resets() == []


async def test_a_host_without_a_mark_has_nothing_to_reset(store: Store) -> None:
    with pytest.raises(NotFound, match="clock show"):
        await store.reset_clock("nowhere", "operator:Ada", clock.now())


@pytest.mark.parametrize("limit", [2, 500])
async def test_what_a_fast_clock_has_put_off_is_due_at_once(desk: Desk, store: Store, limit: int) -> None:
    now = clock.now()
    fast = now + DAY
    put_off = []
    for _ in range(5):
        waiting = await desk.waiting()
        await store.release(waiting.lease, fast, None, now)
        put_off.append(waiting.execution_id)
    soon = await desk.waiting()
    await store.release(soon.lease, now + MINUTE, None, now)
    assert await brought_forward(store, now, limit) == 5
    leased = await store.lease_due("worker-2", 100, now, now + MINUTE)
    assert {execution.execution_id for execution in leased} == set(put_off)


async def test_a_lease_that_a_fast_clock_gave_keeps_nobody_waiting(desk: Desk, store: Store) -> None:
    saved = await desk.save()
    now = clock.now()
    (leased,) = await store.lease_due("worker-1", 100, now, now + DAY)
    assert await store.lease_due("worker-2", 100, now, now + MINUTE) == []
    await brought_forward(store, now)
    (again,) = await store.lease_due("worker-2", 100, now, now + MINUTE)
    assert again.execution_id == saved.execution_id
    assert not await store.begin_submission(leased.lease, "1", now)  # the fencing number is another


async def test_a_notification_under_a_lease_of_a_fast_clock_is_not_kept_waiting(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    now = clock.now()
    await store.release(waiting.lease, now, None, now)
    (leased,) = await store.lease_due("worker-1", 100, now, now + DAY)
    await store.record(desk.arrival(leased.request_id or ""))
    now = clock.now()
    assert await store.lease_due("worker-2", 100, now, now + MINUTE) == []
    await brought_forward(store, now)
    assert len(await store.lease_due("worker-2", 100, now, now + MINUTE)) == 1


async def test_a_dead_attempt_of_a_fast_clock_is_in_doubt_within_the_hour(desk: Desk, store: Store) -> None:
    started = await desk.started(lease=DAY)
    now = clock.now()
    await brought_forward(store, now)
    assert (await store.sweep(now + HOUR)).in_doubt == (started.execution_id,)


async def test_wakes_and_cancels_that_were_put_off_are_due_at_once(desk: Desk, store: Store) -> None:
    now = clock.now()
    saved = await desk.save(wake="my-harness", at=now)
    submitting = (await store.lease_due("worker-1", 100, now, now + MINUTE))[0]
    await store.begin_submission(submitting.lease, "1", now)
    await store.abandon(saved.execution_id, "closed", "harness", now + DAY)
    assert await store.lease_wakes(100, now, now + MINUTE) == []
    assert await store.lease_cancels(100, now, now + MINUTE) == []
    await brought_forward(store, now)
    assert len(await store.lease_wakes(100, now, now + MINUTE)) == 1
    assert len(await store.lease_cancels(100, now, now + MINUTE)) == 1


async def test_a_lease_that_is_kept_is_left_alone(desk: Desk, store: Store) -> None:
    await desk.save()
    now = clock.now()
    (leased,) = await store.lease_due("worker-1", 100, now, now + MINUTE)
    assert await brought_forward(store, now) == 0
    assert await store.keep_lease(leased.lease, now, now + MINUTE)


async def test_steps_end_although_workers_put_off_again_what_was_brought_forward(desk: Desk, store: Store) -> None:
    now = clock.now()
    for _ in range(4):
        waiting = await desk.waiting()
        await store.release(waiting.lease, now + DAY, None, now)
    step: PutOff | None = await store.bring_forward(now, None, 1)
    steps = 0
    while step is not None:
        steps += 1
        for execution in await store.lease_due(new_id(), 100, now, now + MINUTE):
            await store.release(execution.lease, now + 2 * DAY, None, now)
        step = await store.bring_forward(now, step, 1)
    assert steps == 4


async def pinned(desk: Desk, store: Store) -> tuple[Execution, Approval]:
    """An execution whose approval was read and could not be used yet, under a new lease."""
    waiting, approval, now = await desk.waiting(), approved(), clock.now()
    await store.release(waiting.lease, now, "no_thread", now, approval=approval)
    (leased,) = await store.lease_due("worker-1", 100, now, now + MINUTE)
    return leased, approval


async def test_an_approval_that_was_read_is_on_record_before_it_is_used(desk: Desk, store: Store) -> None:
    leased, approval = await pinned(desk, store)
    assert (leased.state, leased.decided_at, leased.expires_at) == (
        State.WAITING, approval.decided_at, approval.expires_at,
    )  # fmt: skip
    started = await store.start(leased.lease, approval, clock.now(), clock.now() + MINUTE)
    assert started is not None


@pytest.mark.parametrize("runs", ["worker", "harness"])
@pytest.mark.parametrize("moved", [-1, 1, DAY])
async def test_no_path_moves_the_end_of_an_approval(desk: Desk, store: Store, moved: int, runs: str) -> None:
    waiting, approval, now = await desk.waiting(runs=runs), approved(), clock.now()
    await store.release(waiting.lease, now, "clock_behind", now, approval=approval)
    (leased,) = await store.lease_due("worker-1", 100, now, now + MINUTE)
    other = Approval(approval.decided_at, approval.expires_at + moved, None)
    if runs == "worker":
        with pytest.raises(InvariantViolated):
            await store.start(leased.lease, other, clock.now(), clock.now() + MINUTE)
    else:
        with pytest.raises(InvariantViolated):
            await store.permit(leased.lease, other, clock.now())
    await store.release(leased.lease, now, "clock_behind", clock.now(), approval=other)
    found = await store.execution(leased.execution_id)
    assert (found.state, found.expires_at) == (State.WAITING, approval.expires_at)


async def test_a_call_with_an_approval_on_record_can_still_end_otherwise(desk: Desk, store: Store) -> None:
    leased, approval = await pinned(desk, store)
    assert await store.close_unstarted(leased.lease, Closing(State.REFUSED, "decision_differs"), clock.now())
    found = await store.execution(leased.execution_id)
    assert (found.state, found.expires_at) == (State.REFUSED, approval.expires_at)


@pytest.mark.parametrize(("left", "claimed"), [(MINUTE, True), (MINUTE - 1, False), (0, False)])
async def test_a_claim_has_as_much_less_time_as_the_providers_clock_is_ahead(
    desk: Desk, store: Store, left: int, claimed: bool
) -> None:
    waiting, approval, margin = await desk.waiting(runs="harness"), approved(), MINUTE
    assert await store.permit(waiting.lease, approval, clock.now(), ahead=5 * MINUTE)
    at = approval.expires_at - 5 * MINUTE - left
    taken = await store.claim(waiting.execution_id, "claim", at, at + MINUTE, margin)
    assert isinstance(taken, Claimed) == claimed
