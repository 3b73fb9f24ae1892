"""Adoptions on record: found once each by their notifications, leased, and one run at a time for each thread."""

import asyncio
from dataclasses import replace

import pytest

from support.desk import Desk, new_id
from wakegate_schema import clock
from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND
from wakegate_schema.records import Adoption, AdoptionLease, RegisteredWorker, RequestIdentity
from wakegate_schema.store import Store, open_store

MINE = ["langgraph"]


async def unmatched(desk: Desk, *, ago: int = MINUTE) -> str:
    """A request that nobody saved here, and whose notification came."""
    request_id = new_id()
    await desk.store.record(desk.arrival(request_id, received_at=clock.now() - ago))
    return request_id


async def leased(desk: Desk, until: int = 15 * SECOND) -> Adoption:
    """The one adoption that is due, under a lease."""
    now = clock.now()
    (found,) = await desk.store.lease_adoptions(MINE, 10, now, now + until)
    return found


async def learned(desk: Desk, thread: str = "t", framework: str = "langgraph") -> Adoption:
    """An adoption of a thread, under a lease."""
    request_id = await unmatched(desk)
    await desk.store.adopt_unmatched(clock.now())
    found = await leased(desk)
    assert found.request_id == request_id
    assert await desk.store.adoption_learned(found.lease, framework, thread, clock.now())
    return found


async def one(desk: Desk, request_id: str) -> Adoption:
    found = await desk.store.adoption(desk.provider, desk.instance_id, request_id)
    assert found is not None
    return found


async def stands(desk: Desk, request_id: str) -> list[tuple[str, str | None]]:
    return [(e.state, e.reason) for _, e in await desk.store.notifications() if e.request_id == request_id]


async def test_what_nobody_saved_is_adopted_once_and_what_was_saved_is_not(desk: Desk) -> None:
    request_id, waiting = await unmatched(desk), await desk.waiting()
    assert waiting.request_id is not None
    await desk.store.record(desk.arrival(waiting.request_id, received_at=clock.now() - MINUTE))
    assert await desk.store.unmatched_wait()
    assert await desk.store.adopt_unmatched(clock.now()) == 2
    assert not await desk.store.unmatched_wait()
    assert await desk.store.adopt_unmatched(clock.now()) == 0
    assert [found.request_id for _, found in await desk.store.latest_adoptions()] == [request_id]


async def test_no_notification_is_passed_over(desk: Desk) -> None:
    first = await unmatched(desk)
    young = await unmatched(desk, ago=0)
    last = await unmatched(desk)
    ahead = await unmatched(desk, ago=-2 * HOUR)  # of a receiver whose clock is wrong
    assert await desk.store.adopt_unmatched(clock.now()) == 1
    assert await desk.store.adopt_unmatched(clock.now()) == 0
    assert await desk.store.adopt_unmatched(clock.now() + MINUTE, limit=2) == 2
    assert await desk.store.adopt_unmatched(clock.now() + MINUTE) == 1
    found = [found.request_id for _, found in reversed(await desk.store.latest_adoptions())]
    assert found == [first, young, last, ahead]


async def test_several_workers_that_look_at_once_adopt_each_once(desk: Desk, database: str) -> None:
    asked = {await unmatched(desk) for _ in range(20)}
    async with await open_store(database, mode="service") as other:
        steps = [store.adopt_unmatched(clock.now(), 7) for store in (desk.store, other) * 4]
        assert sum(await asyncio.gather(*steps)) == 20
    assert {found.request_id for _, found in await desk.store.latest_adoptions()} == asked


async def test_a_lease_is_one_workers_and_fences_the_one_before(desk: Desk) -> None:
    found = await learned(desk)
    assert await desk.store.lease_adoptions(MINE, 10, clock.now(), clock.now() + MINUTE) == []
    now = clock.now() + MINUTE
    (again,) = await desk.store.lease_adoptions(MINE, 10, now, now + MINUTE)
    assert (again.number, again.lease_number) == (found.number, found.lease_number + 1)
    assert not await desk.store.adoption_run(found.lease, now, now + SECOND)
    assert not await desk.store.adoption_again(found.lease, now, None, "well")
    assert not await desk.store.adoption_ended(found.lease, "consumed", now)
    assert not await desk.store.adoption_learned(found.lease, "langgraph", "other", now)
    assert (await one(desk, found.request_id)).thread == "t"


async def test_a_framework_is_leased_by_who_can_resume_it(desk: Desk) -> None:
    found = await learned(desk, framework="adk")
    await desk.store.adoption_again(found.lease, clock.now(), None)
    assert await desk.store.lease_adoptions(MINE, 10, clock.now(), clock.now() + MINUTE) == []
    assert await desk.store.resumers_wanted(clock.now()) == {"adk": 1}
    now = clock.now()
    worker = RegisteredWorker("w", "here", "default", "0.2.0", 6, 30, now, now, {}, frozenset({"adk"}))
    await desk.store.show_worker(worker, now)
    assert await desk.store.resumers_wanted(now) == {}
    assert [each.resumers for each in await desk.store.workers()] == [frozenset({"adk"})]
    await desk.store.drop_worker_tools("w")
    assert await desk.store.resumers_wanted(now) == {"adk": 1}
    assert len(await desk.store.lease_adoptions(["adk"], 10, now, now + MINUTE)) == 1


async def test_what_is_learned_handles_the_notifications_those_that_come_later_too(desk: Desk) -> None:
    found = await learned(desk)
    assert await stands(desk, found.request_id) == [("handled", "adopted")]
    await desk.store.adoption_again(found.lease, clock.now() + HOUR, None)
    await desk.store.record(desk.arrival(found.request_id, received_at=clock.now() - MINUTE))
    at = clock.now()
    await desk.store.adopt_unmatched(at)
    assert await stands(desk, found.request_id) == [("handled", "adopted")] * 2
    assert (await one(desk, found.request_id)).due_at == at


async def test_a_notification_that_comes_during_a_run_makes_nobody_run_beside_it(desk: Desk) -> None:
    found, now = await learned(desk), clock.now()
    assert await desk.store.adoption_run(found.lease, now, now + HOUR)
    await desk.store.record(desk.arrival(found.request_id, received_at=clock.now() - MINUTE))
    await desk.store.adopt_unmatched(clock.now())
    assert await desk.store.lease_adoptions(MINE, 10, clock.now(), clock.now() + MINUTE) == []


async def test_a_request_that_was_saved_here_after_all_is_left_to_its_execution(desk: Desk) -> None:
    request_id, now = await unmatched(desk), clock.now()
    await desk.store.adopt_unmatched(now)
    found, submitting = await leased(desk), await desk.submitting()
    await desk.store.attach(submitting.execution_id, RequestIdentity(request_id, now, now + HOUR), now)
    assert not await desk.store.adoption_learned(found.lease, "langgraph", "t", clock.now())
    assert (await one(desk, request_id)).reason == "saved_here"
    assert await stands(desk, request_id) == [("received", None)]


async def test_a_thread_has_one_run_at_a_time(desk: Desk, database: str) -> None:
    first, second, other = await learned(desk), await learned(desk), await learned(desk, "u")
    now = clock.now()
    async with await open_store(database, mode="service") as store:
        may = await asyncio.gather(
            desk.store.adoption_run(first.lease, now, now + SECOND),
            store.adoption_run(second.lease, now, now + SECOND),
            store.adoption_run(other.lease, now, now + SECOND),
        )
    assert sorted(may[:2]) == [False, True]
    assert may[2]
    winner, loser = (first, second) if may[0] else (second, first)
    assert await desk.store.adoption_keep(winner.lease, now, now + MINUTE)
    assert not await desk.store.adoption_run(loser.lease, now + 2 * SECOND, now + MINUTE)
    assert await desk.store.adoption_again(winner.lease, now + HOUR, None, "well")
    assert await desk.store.adoption_run(loser.lease, now + 2 * SECOND, now + MINUTE)
    told = await one(desk, winner.request_id)
    assert (told.runs, told.well_runs, told.last_end, told.run_until) == (1, 1, "well", None)


async def test_a_run_that_nobody_keeps_has_lost_its_thread(desk: Desk) -> None:
    first, second, now = await learned(desk), await learned(desk), clock.now()
    assert await desk.store.adoption_run(first.lease, now, now + SECOND)
    later = now + 2 * SECOND
    assert not await desk.store.adoption_keep(first.lease, later, later + SECOND)
    assert await desk.store.adoption_run(second.lease, later, later + SECOND)
    assert (await one(desk, first.request_id)).last_end == "badly"
    later += 2 * SECOND  # nobody keeps the second's, either
    (again,) = await desk.store.lease_adoptions(MINE, 1, later, later + SECOND)
    assert (again.request_id, again.last_end, again.run_until) == (first.request_id, "badly", None)
    assert not await desk.store.adoption_again(first.lease, later, None, "well")


async def test_a_try_that_brought_nothing_is_counted(desk: Desk) -> None:
    found, now = await learned(desk), clock.now()
    for tries in (1, 2):
        assert await desk.store.adoption_again(found.lease, now, "http_503")
        assert (await one(desk, found.request_id)).tries == tries
    assert await desk.store.adoption_again(found.lease, now, None)
    assert (await one(desk, found.request_id)).tries == 2, "somebody else had the thread"
    assert await desk.store.adoption_again(found.lease, now, None, "well")
    told = await one(desk, found.request_id)
    assert (told.tries, told.problem) == (0, None)


async def test_what_has_ended_is_forgotten_after_eight_days(desk: Desk) -> None:
    found, now = await learned(desk), clock.now()
    assert await desk.store.adoption_ended(found.lease, "consumed", now)
    ended = await one(desk, found.request_id)
    assert (ended.state, ended.reason, ended.due_at, ended.ended_at) == ("ended", "consumed", None, now)
    assert await desk.store.lease_adoptions(MINE, 10, now + HOUR, now + HOUR) == []
    await desk.store.prune(now + 7 * DAY, now)
    assert await desk.store.adoption(desk.provider, desk.instance_id, found.request_id) == ended
    await desk.store.prune(now + 9 * DAY, now)
    assert await desk.store.adoption(desk.provider, desk.instance_id, found.request_id) is None


async def test_what_nobody_can_resume_is_given_up_after_eight_days(desk: Desk) -> None:
    found, now = await learned(desk, framework="adk"), clock.now()
    await desk.store.adoption_again(found.lease, now, None)
    await desk.store.prune(now + 7 * DAY, now)
    assert (await one(desk, found.request_id)).state == "owed"
    await desk.store.prune(now + 9 * DAY, now)
    assert (await one(desk, found.request_id)).reason == "given_up"


async def test_a_retired_instance_and_a_new_credential(desk: Desk) -> None:
    found, now = await learned(desk), clock.now()
    await desk.store.adoption_again(found.lease, now + HOUR, "instance_parked")
    await desk.store.set_credential(desk.provider, desk.instance_id, b"another", None, now)
    assert (await one(desk, found.request_id)).due_at == now
    await desk.store.retire_instance(desk.provider, desk.instance_id, "operator:anna", now)
    assert (await one(desk, found.request_id)).reason == "instance_retired"


async def test_a_retired_instance_keeps_the_thread_of_a_run_until_that_has_ended(desk: Desk) -> None:
    found, now = await learned(desk), clock.now()
    assert await desk.store.adoption_run(found.lease, now, now + 15 * SECOND)
    await desk.store.retire_instance(desk.provider, desk.instance_id, "operator:anna", now)
    assert (await one(desk, found.request_id)).run_until == now + 15 * SECOND
    assert not await desk.store.adoption_keep(found.lease, now, now + 20 * SECOND)
    assert await desk.store.adoption_again(found.lease, now, "thread_lost", "badly")


async def test_a_run_whose_worker_died_is_given_up_too(desk: Desk) -> None:
    found, now = await learned(desk, framework="adk"), clock.now()
    await desk.store.adoption_run(found.lease, now, now + 9 * DAY)
    await desk.store.prune(now + 8 * DAY + HOUR, now)
    assert (await one(desk, found.request_id)).state == "owed", "it is kept"
    await desk.store.prune(now + 10 * DAY, now)
    ended = await one(desk, found.request_id)
    assert (ended.reason, ended.last_end, ended.run_until) == ("given_up", "badly", None)


@pytest.mark.parametrize("runs", [False, True])
async def test_a_clock_that_was_ahead_is_made_good(desk: Desk, *, runs: bool) -> None:
    found, now = await learned(desk), clock.now()
    if runs:
        await desk.store.adoption_run(found.lease, now, now + 3 * DAY)
    else:
        await desk.store.adoption_again(found.lease, now + 3 * DAY, None)
    await desk.store.bring_forward(now)
    assert ((await one(desk, found.request_id)).due_at or 0) <= now + HOUR


async def test_the_census_counts_what_is_owed(desk: Desk, store: Store) -> None:
    found, now = await learned(desk), clock.now()
    assert (await store.census()).adoptions == 1
    assert "adoption" not in (await store.census()).due, "nobody can resume it, however long it waits"
    worker = RegisteredWorker("w", "here", "default", "0.2.0", 6, 30, now, now, {}, frozenset(MINE))
    await store.show_worker(worker, now)
    assert "adoption" in (await store.census()).due
    await store.adoption_ended(found.lease, "consumed", clock.now())
    assert (await store.census()).adoptions == 0


async def test_a_lease_of_nothing_is_lost(desk: Desk) -> None:
    lease, now = AdoptionLease(77, 1), clock.now()
    assert not await desk.store.adoption_learned(lease, "langgraph", "t", now)
    assert not await desk.store.adoption_run(replace(lease, lease_number=2), now, now)


async def test_what_waits_for_its_threads_run_is_not_leased_meanwhile(desk: Desk) -> None:
    runs, waits = await learned(desk), await learned(desk)
    now = clock.now()
    assert await desk.store.adoption_run(runs.lease, now, now + MINUTE)
    await desk.store.adoption_again(waits.lease, now, None)
    assert await desk.store.lease_adoptions(MINE, 10, now, now + SECOND) == []
    worker = RegisteredWorker("w", "here", "default", "0.2.0", 6, 30, now, now, {}, frozenset(MINE))
    await desk.store.show_worker(worker, now)
    assert (await desk.store.census()).due["adoption"] == now + MINUTE, "it does not lag"
    await desk.store.adoption_again(runs.lease, now + HOUR, None, "well")
    (found,) = await desk.store.lease_adoptions(MINE, 10, now, now + SECOND)
    assert found.number == waits.number
