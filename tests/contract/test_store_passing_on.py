"""Passing on: what one worker cannot run, another gets before the first may look again."""

from support.desk import Desk
from wakegate_schema import clock
from wakegate_schema.store import Store

FAR = 30 * clock.DAY


async def test_an_execution_that_was_passed_on_goes_to_somebody_else_first(desk: Desk, store: Store) -> None:
    saved = await desk.save()
    now = clock.now()
    (leased,) = await store.lease_due("a", 1, now, now + clock.MINUTE)
    assert await store.release(leased.lease, now + clock.SECOND, "no_thread", now, pass_on=True)
    later = now + clock.SECOND
    assert await store.lease_due("a", 1, later + clock.SECOND, FAR) == []
    (taken,) = await store.lease_due("b", 1, later, now + FAR)
    assert (taken.execution_id, taken.problem) == (saved.execution_id, "no_thread")


async def test_the_owner_that_passed_it_on_may_look_again_two_seconds_later(desk: Desk, store: Store) -> None:
    await desk.save()
    now = clock.now()
    (leased,) = await store.lease_due("a", 1, now, now + clock.MINUTE)
    await store.release(leased.lease, now, "no_thread", now, pass_on=True)
    assert await store.lease_due("a", 1, now + 2 * clock.SECOND - 1, now + FAR) == []
    assert len(await store.lease_due("a", 1, now + 2 * clock.SECOND, now + FAR)) == 1


async def test_an_owner_is_told_when_it_may_look_again_itself(desk: Desk, store: Store) -> None:
    await desk.save()
    now = clock.now()
    (leased,) = await store.lease_due("a", 1, now, now + clock.MINUTE)
    await store.release(leased.lease, now, "no_thread", now, pass_on=True)
    assert await store.next_due_at("a") == now + 2 * clock.SECOND
    assert await store.next_due_at("b") == now
    assert await store.next_due_at() == now


async def test_an_owner_whose_lease_ran_out_takes_it_again_at_once(desk: Desk, store: Store) -> None:
    await desk.save()
    now = clock.now()
    await store.lease_due("a", 1, now, now + clock.SECOND)
    assert await store.next_due_at("a") == now + clock.SECOND
    assert len(await store.lease_due("a", 1, now + clock.SECOND, now + FAR)) == 1


async def test_a_release_that_passes_nothing_on_forgets_its_owner(desk: Desk, store: Store) -> None:
    await desk.save()
    now = clock.now()
    (leased,) = await store.lease_due("a", 1, now, now + clock.MINUTE)
    await store.release(leased.lease, now, "no_thread", now, pass_on=True)
    (leased,) = await store.lease_due("b", 1, now, now + clock.MINUTE)
    await store.release(leased.lease, now, "http_503", now)
    assert len(await store.lease_due("b", 1, now, now + FAR)) == 1


async def test_others_have_their_head_start_also_when_a_notification_came_under_the_lease(
    desk: Desk, store: Store
) -> None:
    waiting = await desk.waiting()
    assert waiting.request_id is not None
    await store.record(desk.arrival(waiting.request_id))
    now = clock.now() + 10 * clock.SECOND
    assert await store.release(waiting.lease, now + clock.SECOND, "timeout", now, pass_on=True)
    assert await store.lease_due("worker-1", 1, now + clock.SECOND, FAR) == []
    assert len(await store.lease_due("b", 1, now, FAR)) == 1
