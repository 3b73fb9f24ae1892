"""Saving, leasing, claiming: one winner, and nothing under an old number."""

import asyncio
from dataclasses import replace

import pytest

from support.desk import Desk, approved, new_id
from support.tables import each_row
from wakegate_schema import clock
from wakegate_schema.records import Claimed, Closing, Lease, Outcome, RequestIdentity
from wakegate_schema.states import State
from wakegate_schema.store import InvariantViolated, KeyConflict, NotAllowed, NotFound, Store, open_store

FAR = 30 * clock.DAY


async def test_the_same_key_and_call_return_the_saved_execution(desk: Desk, store: Store) -> None:
    suspension = desk.suspension()
    first = await store.save(suspension)
    again = await store.save(replace(suspension, execution_id=new_id(), at=suspension.at + 5))
    assert again == first


@each_row(
    "change",
    [
        {"tool": "other"},
        {"arguments": b'{"amount": 4901}'},
        {"context": b"{}"},
        {"reasoning": None},
        {"timeout": "31m"},
        {"runs": "harness"},
        {"wake": "elsewhere"},
        {"group": "turn-1"},
    ],
)
async def test_the_same_key_for_another_call_is_a_conflict(desk: Desk, store: Store, change: dict[str, object]) -> None:
    suspension = desk.suspension()
    await store.save(suspension)
    with pytest.raises(KeyConflict, match="new key"):
        await store.save(replace(suspension, execution_id=new_id(), **change))  # type: ignore[arg-type]


async def test_an_old_key_finds_that_it_has_run_long_after_retention(desk: Desk, store: Store) -> None:
    suspension = desk.suspension()
    await store.save(suspension)
    leased = await desk.lease(suspension.execution_id)
    await store.begin_submission(leased.lease, None, clock.now())
    now = clock.now()
    waiting = await store.attach(suspension.execution_id, RequestIdentity(new_id(), now, now + clock.HOUR), now)
    await store.start(waiting.lease, approved(), now, now + clock.MINUTE)
    await store.finish(waiting.lease, Outcome("succeeded", "returned", b"{}"), clock.now())
    assert (await store.prune(now + FAR, now + FAR)).payloads == 1
    assert (await store.prune(now + FAR, now + FAR)).total == 0
    replayed = await store.save(replace(suspension, execution_id=new_id()))
    assert (replayed.execution_id, replayed.state, replayed.arguments) == (waiting.execution_id, State.SUCCEEDED, None)
    with pytest.raises(KeyConflict):
        await store.save(replace(suspension, arguments=b"{}"))


async def test_a_payload_stays_while_a_cancel_may_have_to_submit_it_again(desk: Desk, store: Store) -> None:
    submitting = await desk.submitting()
    await store.abandon(submitting.execution_id, "closed", "harness", clock.now())
    later = clock.now() + FAR
    assert (await store.prune(later, later)).payloads == 0
    (owing,) = await store.lease_cancels(1, later, later + 1)
    assert owing.arguments == submitting.arguments
    await store.cancel_settled(owing.execution_id)
    assert (await store.prune(later, later)).payloads == 1


async def test_a_payload_stays_while_a_wake_is_owed(desk: Desk, store: Store) -> None:
    saved = await desk.save(wake="my-harness")
    await store.abandon(saved.execution_id, "closed", "harness", clock.now())
    later = clock.now() + FAR
    assert (await store.prune(later, later)).payloads == 0
    (wake,) = await store.lease_wakes(1, later, later + 1)
    await store.wake_delivered(wake.wake_id, later)
    assert (await store.prune(later, later)).payloads == 1


async def test_an_unknown_or_retired_instance_saves_nothing(desk: Desk, store: Store) -> None:
    with pytest.raises(NotFound, match="no instance"):
        await desk.save(instance_id=new_id())
    await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", clock.now())
    with pytest.raises(NotAllowed, match="retired"):
        await desk.save()


async def test_a_lease_has_one_holder_until_it_runs_out(desk: Desk, store: Store) -> None:
    saved = await desk.save()
    now = clock.now()
    (first,) = await store.lease_due("a", 10, now, now + clock.SECOND)
    assert await store.lease_due("b", 10, now, now + clock.SECOND) == []
    (second,) = await store.lease_due("b", 10, now + clock.SECOND, now + clock.MINUTE)
    assert (second.execution_id, second.lease_number) == (saved.execution_id, first.lease_number + 1)
    assert not await store.begin_submission(first.lease, None, now)
    assert not await store.release(first.lease, now, None, now)
    assert not await store.keep_lease(first.lease, now, now + FAR)
    assert not await store.close_unstarted(first.lease, Closing(State.REFUSED, "late"), now)


async def test_a_lease_that_ran_out_starts_nothing(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    late = clock.now() + 2 * clock.MINUTE
    assert await store.start(waiting.lease, approved(), late, late + clock.MINUTE) is None
    assert (await store.execution(waiting.execution_id)).state is State.WAITING


async def test_a_fenced_worker_starts_nothing(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    later = clock.now() + clock.MINUTE
    (newer,) = await store.lease_due("b", 1, later, later + clock.MINUTE)
    assert await store.start(waiting.lease, approved(), clock.now(), later) is None
    assert await store.start(newer.lease, approved(), clock.now(), later) is not None


async def test_an_approval_that_has_expired_starts_nothing(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    approval = approved(valid=clock.SECOND)
    assert await store.start(waiting.lease, approval, approval.expires_at, clock.now() + FAR) is None
    assert not await store.permit(waiting.lease, approval, approval.expires_at)
    assert (await store.execution(waiting.execution_id)).decided_at is None


async def test_a_worker_cannot_start_what_the_harness_runs_nor_the_reverse(desk: Desk, store: Store) -> None:
    for_harness = await desk.waiting(runs="harness")
    assert await store.start(for_harness.lease, approved(), clock.now(), clock.now() + FAR) is None
    for_worker = await desk.waiting()
    assert not await store.permit(for_worker.lease, approved(), clock.now())


async def test_fifty_starts_at_once_have_one_winner(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    now, approval = clock.now(), approved()
    starts = await asyncio.gather(*(store.start(waiting.lease, approval, now, now + FAR) for _ in range(50)))
    assert len([s for s in starts if s is not None]) == 1


async def test_fifty_claims_at_once_have_one_winner(desk: Desk, store: Store) -> None:
    permitted = await desk.permitted()
    now = clock.now()
    claims = await asyncio.gather(
        *(store.claim(permitted.execution_id, f"claim-{i}", now, now + FAR, 0) for i in range(50))
    )
    assert len([c for c in claims if isinstance(c, Claimed)]) == 1


@pytest.mark.parametrize("position", [0, 5, 50])
async def test_of_fifty_claims_and_an_abandonment_at_once_one_wins(
    desk: Desk, store: Store, database: str, position: int
) -> None:
    permitted = await desk.permitted()
    now = clock.now()
    async with await open_store(database, mode="use") as other:
        acts = [(store, other)[i % 2].claim(permitted.execution_id, f"claim-{i}", now, now + FAR, 0) for i in range(50)]
        abandoning = other.abandon(permitted.execution_id, "closed", "operator:me", now)
        answers = await asyncio.gather(*acts[:position], abandoning, *acts[position:], return_exceptions=True)
    done = await store.execution(permitted.execution_id)
    claimed = [answer for answer in answers if isinstance(answer, Claimed)]
    assert len(claimed) + (done.state is State.ABANDONED) == 1


async def test_a_repeated_claim_returns_the_same_attempt(desk: Desk, store: Store) -> None:
    permitted = await desk.permitted()
    now = clock.now()
    first = await store.claim(permitted.execution_id, "mine", now, now + clock.MINUTE, 0)
    again = await store.claim(permitted.execution_id, "mine", now, now + clock.MINUTE, 0)
    assert isinstance(first, Claimed)
    assert isinstance(again, Claimed)
    assert again.execution.attempt_number == first.execution.attempt_number
    lease = again.execution.lease
    assert not await store.renew(lease, now, now + FAR, first.attempt_token), "a fresh token replaces the old one"
    assert await store.renew(lease, now, now + FAR, again.attempt_token)


async def test_a_claim_needs_its_margin_before_the_approval_expires(desk: Desk, store: Store) -> None:
    permitted = await desk.permitted(approved(valid=10 * clock.SECOND))
    at = (permitted.expires_at or 0) - clock.SECOND
    refused = await store.claim(permitted.execution_id, "mine", at, at + clock.MINUTE, 2 * clock.SECOND)
    assert not isinstance(refused, Claimed)
    assert refused.state is State.PERMITTED


async def test_finishing_a_claim_needs_its_token(desk: Desk, store: Store) -> None:
    permitted = await desk.permitted()
    now = clock.now()
    claimed = await store.claim(permitted.execution_id, "mine", now, now + clock.MINUTE, 0)
    assert isinstance(claimed, Claimed)
    done = Outcome("succeeded", "returned", b"1")
    for token in (None, "guess"):
        with pytest.raises(NotAllowed, match="no such attempt"):
            await store.finish(claimed.execution.lease, done, now, token)
    with pytest.raises(NotAllowed):
        await store.finish(Lease(permitted.execution_id, 99), done, now, claimed.attempt_token)
    finished = await store.finish(claimed.execution.lease, done, now, claimed.attempt_token)
    assert finished.state is State.SUCCEEDED


async def test_a_started_call_whose_lease_ran_out_is_in_doubt_and_never_leased_again(desk: Desk, store: Store) -> None:
    started = await desk.started(lease=clock.SECOND)
    assert await store.renew(started.lease, clock.now(), clock.now() + 2 * clock.SECOND)
    later = clock.now() + 3 * clock.SECOND
    assert (await store.sweep(later)).in_doubt == (started.execution_id,)
    assert (await store.sweep(later)).in_doubt == ()
    assert not await store.renew(started.lease, later, later + FAR)
    assert await store.lease_due("b", 10, later + FAR, later + 2 * FAR) == []


async def test_attaching_works_in_every_state_and_only_once(desk: Desk, store: Store) -> None:
    submitting = await desk.submitting()
    await store.abandon(submitting.execution_id, "closed", "harness", clock.now())
    now = clock.now()
    identity = RequestIdentity(new_id(), now, now + clock.HOUR)
    attached = await store.attach(submitting.execution_id, identity, now)
    assert (attached.state, attached.request_id) == (State.ABANDONED, identity.request_id)
    assert await store.attach(submitting.execution_id, identity, now) == attached
    with pytest.raises(InvariantViolated, match="has request"):
        await store.attach(submitting.execution_id, replace(identity, request_id=new_id()), now)


async def test_an_owed_cancel_is_kept_until_it_is_settled(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    await store.abandon(waiting.execution_id, "closed", "harness", clock.now())
    now = clock.now()
    (owing,) = await store.lease_cancels(10, now, now + clock.SECOND)
    assert await store.lease_cancels(10, now, now + clock.SECOND) == []
    await store.cancel_retry(owing.execution_id, now + clock.MINUTE)
    (again,) = await store.lease_cancels(10, now + clock.MINUTE, now + FAR)
    assert again.cancel_tries == 1
    await store.cancel_settled(owing.execution_id)
    assert await store.lease_cancels(10, now + 2 * FAR, now + 3 * FAR) == []


async def test_a_problem_counts_tries_and_success_clears_them(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    now = clock.now()
    await store.release(waiting.lease, now, "http_503", now)
    (leased,) = await store.lease_due("w", 1, now, now + clock.MINUTE)
    assert (leased.problem, leased.tries) == ("http_503", 1)
    await store.release(leased.lease, now, None, now)
    (leased,) = await store.lease_due("w", 1, now, now + clock.MINUTE)
    assert (leased.problem, leased.tries) == (None, 0)


async def test_a_lost_hold_abandons_and_a_kept_one_does_not(desk: Desk, store: Store) -> None:
    now = clock.now()
    kept = await desk.save(hold_id="a", hold_until=now + clock.SECOND)
    lost = await desk.save(hold_id="b", hold_until=now + clock.SECOND)
    assert await store.keep_hold(kept.execution_id, "a", now + clock.HOUR, now)
    assert not await store.keep_hold(kept.execution_id, "b", now + clock.HOUR, now)
    swept = await store.sweep(now + clock.SECOND)
    assert swept.abandoned == (lost.execution_id,)
    assert (await store.execution(lost.execution_id)).reason == "hold_lost"
    assert not await store.keep_hold(lost.execution_id, "b", now + FAR, now + clock.SECOND)


async def test_one_bad_item_does_not_spoil_its_batch(desk: Desk, store: Store) -> None:
    suspension = desk.suspension()
    await store.save(suspension)
    other = replace(suspension, execution_id=new_id(), tool="other")
    good = [desk.suspension() for _ in range(10)]
    answers = await asyncio.gather(*(store.save(s) for s in [other, *good]), return_exceptions=True)
    assert isinstance(answers[0], KeyConflict)
    assert [a.execution_id for a in answers[1:] if not isinstance(a, BaseException)] == [s.execution_id for s in good]


async def test_due_work_is_taken_soonest_first(desk: Desk, store: Store) -> None:
    now = clock.now()
    ids = [(await desk.save(at=now - i)).execution_id for i in range(5)]
    taken = [(await store.lease_due("w", 1, now, now + FAR))[0].execution_id for _ in range(5)]
    assert taken == ids[::-1]
    assert await store.next_due_at() == now + FAR


async def test_wakes_are_owed_by_the_database_itself(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting(wake="my-harness", runs="harness")
    await store.permit(waiting.lease, approved(), clock.now())
    await store.abandon(waiting.execution_id, "closed", "harness", clock.now())
    wakes = await store.wakes(waiting.execution_id)
    assert [(w.to_state, w.target) for w in wakes] == [
        (State.PERMITTED, "my-harness"),
        (State.ABANDONED, "my-harness"),
    ]
    now = clock.now()
    assert len(await store.lease_wakes(10, now, now + FAR)) == 2
    assert await store.lease_wakes(10, now, now + FAR) == []
    await store.wake_delivered(wakes[0].wake_id, now)
    await store.wake_failed(wakes[1].wake_id, None, "no_such_target")
    told = await store.wakes(waiting.execution_id)
    assert [(w.state, w.problem) for w in told] == [("delivered", None), ("undelivered", "no_such_target")]


async def test_a_wake_that_one_gave_up_and_another_delivered_is_delivered(desk: Desk, store: Store) -> None:
    saved = await desk.save(wake="my-harness")
    await store.abandon(saved.execution_id, "closed", "harness", clock.now())
    now = clock.now()
    (wake,) = await store.lease_wakes(1, now, now + clock.SECOND)
    await store.wake_failed(wake.wake_id, None, "timeout")
    await store.wake_delivered(wake.wake_id, now)
    assert [w.state for w in await store.wakes(saved.execution_id)] == ["delivered"]
    assert await store.lease_wakes(1, now + FAR, now + FAR) == []


async def test_a_harness_that_asks_is_not_woken(desk: Desk, store: Store) -> None:
    started = await desk.started()
    await store.finish(started.lease, Outcome("succeeded", "returned", b"1"), clock.now())
    assert await store.wakes(started.execution_id) == []


async def test_the_clock_mark_only_rises(store: Store) -> None:
    assert await store.mark_clock("host", 100) == 0
    assert await store.mark_clock("host", 50) == 100
    assert await store.mark_clock("host", 200) == 100
    assert await store.mark_clock("other", 1) == 0
