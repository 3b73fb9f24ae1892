"""A store that may have gone back in time starts nothing of before by itself."""

import asyncio
import re
from contextlib import closing

import pytest

from support.desk import Desk, approved, new_id
from support.raw import open_raw
from wakegate_schema import clock
from wakegate_schema.records import Claimed, Closing, Execution, RequestIdentity
from wakegate_schema.states import State
from wakegate_schema.store import NotAllowed, NotFound, Store, open_store
from wakegate_schema.store.verbs.epochs import CLOCKS_DIFFER

UNSTARTED = ["save", "submitting", "waiting", "permitted"]


async def raised(store: Store) -> int:
    """Begin an epoch, as a restore does; return its number."""
    return (await store.raise_epoch("restored", "operator:mika", clock.now())).number


async def released(store: Store, execution: Execution) -> Execution:
    """Release an execution."""
    return await store.release_held(execution.execution_id, actor="operator:mika", note="found out", at=clock.now())


async def due(store: Store) -> list[str]:
    """Lease what is due, in an hour even."""
    at = clock.now() + clock.HOUR
    return [found.execution_id for found in await store.lease_due("worker-2", 100, at, at + clock.MINUTE)]


async def test_a_new_store_is_in_its_first_epoch(store: Store) -> None:
    epoch = await store.epoch()
    assert (epoch.number, epoch.reason) == (1, "created")


async def test_no_epoch_begins_before_the_last_one(store: Store) -> None:
    first = await store.raise_epoch("restored", "operator:mika", clock.now() + clock.DAY)
    assert (await store.raise_epoch("restored", "operator:mika", clock.now())).at == first.at


@pytest.mark.parametrize("state", UNSTARTED)
async def test_whatever_has_not_started_waits_for_a_release(desk: Desk, store: Store, state: str) -> None:
    execution = await getattr(desk, state)()
    assert await raised(store) == 2
    held = await store.execution(execution.execution_id)
    assert (held.state, held.problem, held.epoch) == (execution.state, "older_epoch", 1)
    assert [found.execution_id for _, found in await store.held_executions()] == [execution.execution_id]
    assert await due(store) == []
    assert await store.next_due_at() is None


async def test_what_is_resolved_is_left_alone(desk: Desk, store: Store) -> None:
    abandoned = await store.abandon((await desk.waiting()).execution_id, "x", "harness", clock.now())
    doubtful = await desk.in_doubt()
    await raised(store)
    assert await store.execution(abandoned.execution_id) == abandoned
    assert await store.execution(doubtful.execution_id) == doubtful
    assert await store.held_executions() == []


async def test_what_is_saved_afterwards_goes_on(desk: Desk, store: Store) -> None:
    await raised(store)
    saved = await desk.save()
    assert (saved.epoch, saved.problem) == (2, None)
    assert await due(store) == [saved.execution_id]


async def test_the_leases_of_before_are_void(desk: Desk, store: Store) -> None:
    waiting, submitting = await desk.waiting(), await desk.submitting()
    await raised(store)
    now = clock.now()
    assert not await store.keep_lease(waiting.lease, now, now + clock.MINUTE)
    assert not await store.release(waiting.lease, now, None, now)
    assert not await store.begin_submission(submitting.lease, None, now)
    assert not await store.close_unstarted(waiting.lease, Closing(State.REFUSED, "x"), now)
    assert await store.start(waiting.lease, approved(), now, now + clock.MINUTE) is None


async def test_a_lease_that_is_good_starts_nothing_of_an_older_epoch(desk: Desk, store: Store, database: str) -> None:
    """Permit, start and claim look at the epoch themselves, whatever a lease says."""
    worker_run, harness_run = await desk.waiting(), await desk.waiting(runs="harness")
    permitted = await desk.permitted()
    await raised(store)
    now = clock.now()
    until = now + clock.MINUTE
    with closing(open_raw(database)) as raw:
        raw.execute(f"UPDATE execution SET lease_until = {until} WHERE state = 'waiting'")
    leases = [(await store.execution(each.execution_id)).lease for each in (worker_run, harness_run)]
    assert [await store.keep_lease(lease, now, until) for lease in leases] == [True, True]
    assert await store.start(leases[0], approved(), now, until) is None
    assert not await store.permit(leases[1], approved(), now)
    answer = await store.claim(permitted.execution_id, "claim", now, until, 0)
    assert isinstance(answer, Execution)
    assert (answer.state, answer.problem) == (State.PERMITTED, "older_epoch")


async def test_what_was_started_is_in_doubt_at_once_and_no_claim_of_it_is_answered_again(
    desk: Desk, store: Store
) -> None:
    started = await desk.started(runs="harness")
    begun = clock.now()
    await raised(store)
    now = clock.now()
    for at in (now, begun):  # with a clock that was set back since, too
        assert isinstance(await store.claim(started.execution_id, "claim", at, at + clock.MINUTE, 0), Execution)
    assert (await store.sweep(now)).in_doubt == (started.execution_id,)


async def test_cancels_lapses_holds_and_abandonment_go_on(desk: Desk, store: Store) -> None:
    owing = await store.abandon((await desk.waiting()).execution_id, "x", "harness", clock.now())
    lapsing, unwanted = await desk.permitted(), await desk.waiting()
    let_go = await desk.save(runs="harness", hold_id="hold", hold_until=clock.now() + clock.SECOND)
    await raised(store)
    at = clock.now() + clock.HOUR
    assert [e.execution_id for e in await store.lease_cancels(10, at, at)] == [owing.execution_id]
    swept = await store.sweep(at)
    assert (swept.lapsed, swept.abandoned) == ((lapsing.execution_id,), (let_go.execution_id,))
    assert (await store.abandon(unwanted.execution_id, "ran already", "operator:mika", at)).state is State.ABANDONED
    assert await store.held_executions() == []
    for each in (lapsing, let_go, unwanted):
        assert (await store.execution(each.execution_id)).problem is None


@pytest.mark.parametrize("state", UNSTARTED)
async def test_a_release_lets_it_go_on_and_is_kept_as_a_transition(desk: Desk, store: Store, state: str) -> None:
    execution = await getattr(desk, state)()
    before = await store.transitions(execution.execution_id)
    await raised(store)
    free = await released(store, execution)
    assert (free.state, free.problem, free.epoch, free.release_note) == (execution.state, None, 2, "found out")
    assert free.released_at is not None
    *earlier, last = await store.transitions(execution.execution_id)
    assert earlier == before
    assert (last.from_state, last.to_state, last.reason) == (execution.state, execution.state, "released")
    assert (last.actor, last.number) == ("operator:mika", len(before) + 1)
    assert await due(store) == ([] if state == "permitted" else [execution.execution_id])


async def test_a_released_permission_is_told_of_again_and_can_be_claimed(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting(runs="harness", wake="my-harness")
    await store.permit(waiting.lease, approved(), clock.now())
    await raised(store)
    await released(store, waiting)
    told = await store.wakes(waiting.execution_id)
    assert [wake.to_state for wake in told] == [State.PERMITTED, State.PERMITTED]
    assert len({wake.wake_id for wake in told}) == 2
    now = clock.now()
    assert isinstance(await store.claim(waiting.execution_id, "claim", now, now + clock.MINUTE, 0), Claimed)


async def test_only_what_waits_for_it_is_released(desk: Desk, store: Store) -> None:
    present, done = await desk.waiting(), await desk.in_doubt()
    await raised(store)
    await released(store, present)
    for execution in (present, done):
        with pytest.raises(NotAllowed, match="waits for no release"):
            await released(store, execution)
    with pytest.raises(NotFound):
        await store.release_held(new_id(), actor="operator:mika", note=None, at=clock.now())


async def test_the_next_epoch_holds_what_was_released_into_the_one_before(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    await raised(store)
    await released(store, waiting)
    assert await raised(store) == 3
    held = await store.execution(waiting.execution_id)
    assert (held.epoch, held.problem) == (2, "older_epoch")
    assert (await released(store, waiting)).epoch == 3


async def submitted_again(desk: Desk, store: Store, made: int) -> Execution:
    """Submit a call in the present epoch, and have the provider answer with a request made at `made`."""
    saved = await desk.save()
    leased = await desk.lease(saved.execution_id)
    await store.begin_submission(leased.lease, "1", clock.now())
    identity = RequestIdentity(new_id(), made, made + 30 * clock.MINUTE)
    return await store.attach(saved.execution_id, identity, clock.now())


@pytest.mark.parametrize(("later", "held"), [(-clock.DAY, True), (CLOCKS_DIFFER - 1, True), (CLOCKS_DIFFER, False)])
async def test_a_request_that_is_older_than_the_epoch_holds_its_execution(
    desk: Desk, store: Store, later: int, held: bool
) -> None:
    """The harness repeats a key that the restore has lost: the provider still has its request."""
    await raised(store)
    attached = await submitted_again(desk, store, (await store.epoch()).at + later)
    assert (attached.state, attached.problem) == (State.WAITING, "older_epoch" if held else None)
    assert attached.epoch == (1 if held else 2)
    now = clock.now()
    started = await store.start(attached.lease, approved(), now, now + clock.MINUTE)
    assert (started is None) == held


async def test_what_was_released_before_it_is_submitted_again_goes_on(desk: Desk, store: Store) -> None:
    submitting = await desk.submitting()
    await raised(store)
    await released(store, submitting)
    leased = await desk.lease(submitting.execution_id)
    made = submitting.created_at
    attached = await store.attach(
        leased.execution_id, RequestIdentity(new_id(), made, made + 30 * clock.MINUTE), clock.now()
    )
    assert (attached.problem, attached.epoch, attached.lease) == (None, 2, leased.lease)


async def test_in_the_first_epoch_no_request_is_too_old(desk: Desk, store: Store) -> None:
    attached = await submitted_again(desk, store, clock.now() - clock.DAY)
    assert (attached.problem, attached.epoch) == (None, 1)


async def test_a_new_credential_releases_nothing(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    await raised(store)
    await store.set_credential(desk.provider, desk.instance_id, b"sealed", None, clock.now())
    assert (await store.execution(waiting.execution_id)).problem == "older_epoch"
    assert await due(store) == []


async def test_a_notification_releases_nothing_and_is_found_by_the_release(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    await raised(store)
    await store.record(desk.arrival(waiting.request_id or ""))
    assert await due(store) == []
    await released(store, waiting)
    assert await due(store) == [waiting.execution_id]
    assert await store.notified(desk.provider, desk.instance_id, waiting.request_id or "")


async def test_a_key_of_before_finds_its_execution_held(desk: Desk, store: Store) -> None:
    saved = await desk.save(idempotency_key="run-7:call-2")
    await raised(store)
    again = await desk.save(idempotency_key="run-7:call-2")
    assert (again.execution_id, again.problem) == (saved.execution_id, "older_epoch")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE epoch SET at = 0",
        "DELETE FROM epoch",
        "INSERT INTO epoch VALUES (7, 'x', 'x', 0)",
        "INSERT INTO epoch VALUES (1, 'x', 'x', 0)",
    ],
)
async def test_the_database_itself_keeps_every_epoch(store: Store, database: str, change: str) -> None:
    with closing(open_raw(database)) as raw:
        assert re.search(r"append-only|plus one", raw.refusal(change).message)
    assert (await store.epoch()).number == 1


@pytest.mark.file
async def test_sqlite_replaces_no_epoch(store: Store, database: str) -> None:
    with closing(open_raw(database)) as raw:
        refusal = raw.refusal("INSERT OR REPLACE INTO epoch VALUES (1, 'x', 'x', 0)")
    assert refusal.kind == "trigger"
    assert (await store.epoch()).number == 1


async def test_the_payload_of_a_release_goes_with_the_rest(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    await raised(store)
    await released(store, waiting)
    await store.abandon(waiting.execution_id, "x", "harness", clock.now())
    await store.cancel_settled(waiting.execution_id)
    later = clock.now() + clock.DAY
    await store.prune(later, later)
    assert (await store.execution(waiting.execution_id)).release_note is None


async def test_a_start_that_races_with_a_new_epoch_has_started_before_it_or_waits(
    desk: Desk, store: Store, database: str
) -> None:
    waiting = [await desk.waiting() for _ in range(24)]
    async with await open_store(database, mode="use") as worker, await open_store(database, mode="use") as console:
        now = clock.now()
        starts = [worker.start(each.lease, approved(), now, now + clock.MINUTE) for each in waiting]
        begun = [asyncio.ensure_future(start) for start in starts[:12]]
        await asyncio.sleep(0)
        raising = asyncio.ensure_future(console.raise_epoch("promoted", "operator:mika", clock.now()))
        await asyncio.sleep(0)
        begun += [asyncio.ensure_future(start) for start in starts[12:]]
        done = await asyncio.gather(*begun)
        await raising
        for call, started in zip(waiting, done, strict=True):
            found = await store.execution(call.execution_id)
            assert (found.state, found.problem) in {(State.STARTED, None), (State.WAITING, "older_epoch")}
            assert (started is not None) == (found.state is State.STARTED)
            assert await worker.start(call.lease, approved(), now, now + clock.MINUTE) is None
