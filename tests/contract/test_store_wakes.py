"""Wakes: leased by target, kept while they are delivered, owed anew, and listed."""

import pytest

from support.desk import Desk
from wakegate_schema import clock
from wakegate_schema.records import Wake
from wakegate_schema.store import NotFound, Store

FAR = 30 * clock.DAY


async def owed(desk: Desk, *targets: str) -> list[Wake]:
    """A wake for each target."""
    found = []
    for target in targets:
        saved = await desk.save(wake=target)
        await desk.store.abandon(saved.execution_id, "over", "harness", clock.now())
        found += await desk.store.wakes(saved.execution_id)
    return found


async def test_wakes_of_one_target_are_leased_apart_from_all_others(desk: Desk, store: Store) -> None:
    mine, theirs, mine_too, nobodys = await owed(desk, "mine", "theirs", "mine", "nobodys")
    now = clock.now()
    leased = await store.lease_wakes(10, now, now + FAR, target="mine")
    assert {wake.wake_id for wake in leased} == {mine.wake_id, mine_too.wake_id}
    rest = await store.lease_wakes(10, now, now + FAR, but=("mine", "theirs"))
    assert [wake.wake_id for wake in rest] == [nobodys.wake_id]
    assert [wake.wake_id for wake in await store.lease_wakes(10, now, now + FAR)] == [theirs.wake_id]


async def test_a_lease_is_kept_only_by_who_has_it(desk: Desk, store: Store) -> None:
    await owed(desk, "mine")
    now = clock.now()
    (wake,) = await store.lease_wakes(1, now, now + clock.SECOND)
    assert await store.keep_wake(wake.wake_id, now + clock.SECOND, now + 2 * clock.SECOND)
    assert not await store.keep_wake(wake.wake_id, now + clock.SECOND, now + 3 * clock.SECOND)
    assert await store.lease_wakes(1, now + clock.SECOND, now + FAR) == []
    assert len(await store.lease_wakes(1, now + 2 * clock.SECOND, now + FAR)) == 1
    assert not await store.keep_wake(wake.wake_id, now + 2 * clock.SECOND, now + 4 * clock.SECOND)
    await store.wake_delivered(wake.wake_id, now)
    assert not await store.keep_wake(wake.wake_id, now + FAR, now + FAR)


async def test_a_wake_that_was_given_up_is_owed_anew_with_its_own_id(desk: Desk, store: Store) -> None:
    (wake,) = await owed(desk, "mine")
    await store.wake_failed(wake.wake_id, clock.now(), "timeout")
    await store.wake_failed(wake.wake_id, None, "exit_1")
    later = clock.now() + FAR
    again = await store.replay_wake(wake.wake_id, later)
    assert (again.state, again.tries, again.problem, again.due_at, again.owed_since) == ("owed", 0, None, later, later)
    assert (again.wake_id, again.created_at) == (wake.wake_id, wake.created_at)
    assert await store.wake(wake.wake_id) == again
    assert [each.wake_id for each in await store.lease_wakes(1, later, later + 1)] == [wake.wake_id]


async def test_a_wake_that_was_delivered_or_is_being_tried_is_owed_anew(desk: Desk, store: Store) -> None:
    delivered, leased = await owed(desk, "mine", "mine")
    now = clock.now()
    await store.lease_wakes(2, now, now + FAR)
    await store.wake_delivered(delivered.wake_id, now)
    for wake in (delivered, leased):
        again = await store.replay_wake(wake.wake_id, now)
        assert (again.state, again.due_at, again.delivered_at) == ("owed", now, None)
    assert len(await store.lease_wakes(2, now, now + 1)) == 2


async def test_a_wake_that_does_not_exist_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="wake list"):
        await store.replay_wake("no_1", clock.now())
    with pytest.raises(NotFound, match="wake list"):
        await store.wake("no_1")


async def test_wakes_are_paged_by_state_the_latest_first(desk: Desk, store: Store) -> None:
    found = [wake.wake_id for wake in await owed(desk, *["mine"] * 6)]
    await store.wake_delivered(found[0], clock.now())
    await store.wake_delivered(found[3], clock.now())
    await store.wake_failed(found[1], None, "timeout")
    assert await _all(store, None) == found[::-1]
    assert await _all(store, "delivered") == [found[3], found[0]]
    assert await _all(store, "undelivered") == [found[1]]
    assert await _all(store, "owed") == [found[5], found[4], found[2]]


async def test_wakes_are_found_by_the_beginning_of_their_ids(desk: Desk, store: Store) -> None:
    one, _ = await owed(desk, "mine", "mine")
    assert await store.wakes_called(one.wake_id[:13]) == [one]
    assert await store.wakes_called(one.wake_id) == [one]


async def _all(store: Store, state: str | None) -> list[str]:
    before, found = None, []
    while page := await store.latest_wakes(before, 2, state):  # type: ignore[arg-type]
        before = page[-1][0]
        found += [wake.wake_id for _, wake in page]
    return found
