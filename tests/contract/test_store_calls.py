"""The calls of a harness over the store stay within their scope, and the records say whose they are."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from support import driving
from support.desk import Desk, new_id
from support.tables import each_row
from wakegate_schema import clock
from wakegate_schema.calls import Call, CallRefused, Grant, InstanceUnclear, Scope, StoreCalls, Taken
from wakegate_schema.records import Outcome
from wakegate_schema.resolution import Resolution
from wakegate_schema.states import State
from wakegate_schema.store import NotAllowed, NotFound, Store, StoreUnavailable

OURS = Scope("harness:ours", frozenset({"ours"}))
DONE = Outcome("succeeded", "returned", result=b"1")


@pytest.fixture
async def theirs(store: Store) -> StoreCalls:
    """The calls of another harness, with an instance of its own."""
    await Desk(store, name="theirs").open()
    return StoreCalls(store, Scope("harness:theirs", frozenset({"theirs"})))


@pytest.fixture
async def ours(store: Store) -> StoreCalls:
    """Our calls, with an instance of our own."""
    await Desk(store, name="ours").open()
    return StoreCalls(store, OURS)


async def saved(calls: StoreCalls, **options: Any) -> str:
    """A call that its harness runs; its execution id."""
    standing, _ = await calls.suspend(Call("issue_refund", {"amount": 1}, **options), "harness", "none")
    return standing.resolution.execution_id


async def taken(calls: StoreCalls, store: Store) -> Taken:
    """A call that was claimed."""
    execution_id = await saved(calls)
    await driving.approve(store, execution_id)
    return await calls.take(execution_id, "claim")


Use = Callable[[StoreCalls, Grant], Awaitable[object]]
USES: dict[str, Use] = {
    "show": lambda calls, grant: calls.show(grant.execution_id),
    "show and wait": lambda calls, grant: calls.show(grant.execution_id, unlike="x", wait=0.1),
    "keep_hold": lambda calls, grant: calls.keep_hold(grant.execution_id, "hold"),
    "take": lambda calls, grant: calls.take(grant.execution_id, "claim"),
    "renew": lambda calls, grant: calls.renew(grant),
    "runs_on": lambda calls, grant: calls.runs_on(grant),
    "finish": lambda calls, grant: calls.finish(grant, DONE),
    "abandon": lambda calls, grant: calls.abandon(grant.execution_id, "no more"),
}


@each_row("use", USES.values(), ids=USES.keys())
async def test_anothers_call_is_not_found_in_the_words_of_one_that_is_not_there(
    ours: StoreCalls, theirs: StoreCalls, store: Store, use: Use
) -> None:
    found = await taken(theirs, store)
    assert found.grant is not None
    before = await store.execution(found.grant.execution_id)
    nowhere = replace(found.grant, execution_id=new_id())
    said = []
    for grant in (found.grant, replace(found.grant, execution_id=found.grant.execution_id.upper()), nowhere):
        with pytest.raises(NotFound) as refused:
            await use(ours, grant)
        said.append((str(refused.value).replace(grant.execution_id.lower(), "ID"), refused.value.reason))
    assert len(set(said)) == 1
    assert await store.execution(found.grant.execution_id) == before
    assert (await theirs.finish(found.grant, DONE)).state is State.SUCCEEDED


async def test_nothing_is_saved_under_anothers_instance(ours: StoreCalls, theirs: StoreCalls, store: Store) -> None:
    (their_id,) = [found.instance_id for found in await store.instances() if found.name == "theirs"]
    for instance in ("theirs", their_id):
        with pytest.raises(InstanceUnclear, match=r"there is no such one; in use are: ours$"):
            await ours.suspend(Call("t", {}, instance=instance), "worker", "none")
    standing, created = await ours.suspend(Call("t", {}), "worker", "none")
    assert created
    assert (await store.execution(standing.resolution.execution_id)).instance_id != their_id


async def test_the_same_key_of_two_harnesses_is_two_calls(ours: StoreCalls, theirs: StoreCalls) -> None:
    assert await saved(ours, key="k") != await saved(theirs, key="k")


async def test_an_instances_id_in_the_scope_does_for_its_name(ours: StoreCalls, store: Store) -> None:
    (found,) = await store.instances()
    by_id = StoreCalls(store, Scope("harness:by-id", frozenset({found.instance_id})))
    assert (await by_id.show(await saved(ours))).state is State.SAVED


async def test_the_records_say_which_harness_it_was(ours: StoreCalls, store: Store) -> None:
    found = await taken(ours, store)
    assert found.grant is not None
    await ours.finish(found.grant, DONE)
    actors = {change.to_state: change.actor for change in await store.transitions(found.grant.execution_id)}
    assert actors[State.SAVED] == actors[State.STARTED] == actors[State.SUCCEEDED] == "harness:ours"
    given_up = await saved(ours)
    await ours.abandon(given_up, "no more")
    assert (await store.transitions(given_up))[-1].actor == "harness:ours"


async def test_a_harness_that_opened_the_store_is_just_a_harness(desk: Desk, store: Store) -> None:
    execution_id = await saved(StoreCalls(store))
    assert (await store.transitions(execution_id))[0].actor == "harness"


async def test_a_list_has_ones_own_calls_only_page_by_page(ours: StoreCalls, theirs: StoreCalls, store: Store) -> None:
    mine = [await saved(calls) for calls in (ours, theirs, ours, theirs, ours)][::2]
    first, following = await ours.listed(limit=2)
    rest, end = await ours.listed(limit=2, before=following)
    assert [found.resolution.execution_id for found in first + rest] == mine[::-1]
    assert end is None
    await ours.abandon(mine[0], "no more")
    (abandoned,), _ = await ours.listed(state=State.ABANDONED)
    assert abandoned.resolution.execution_id == mine[0]
    grouped = await saved(ours, group="g")
    await saved(theirs, group="g")
    (found,), _ = await ours.listed(group="g")
    assert found.resolution.execution_id == grouped


async def test_looking_waits_for_another_version_and_no_longer_than_asked(ours: StoreCalls, store: Store) -> None:
    execution_id = await saved(ours)
    version = (await ours.show(execution_id)).version
    assert (await ours.show(execution_id, unlike=version, wait=0.2)).version == version
    assert (await ours.show(execution_id, unlike="another", wait=30)).version == version
    looking = asyncio.create_task(ours.show(execution_id, unlike=version, wait=30))
    await asyncio.sleep(0.05)
    await ours.abandon(execution_id, "no more")
    async with asyncio.timeout(10):
        assert (await looking).state is State.ABANDONED


async def test_sealing_a_group_gives_its_calls_and_lets_no_more_in(
    ours: StoreCalls, theirs: StoreCalls, store: Store
) -> None:
    calls = [await saved(ours, group="g"), await saved(ours, group="g")]
    await saved(theirs, group="theirs-only")
    for _ in range(2):
        page, following = await ours.seal("g")
        assert ([found.resolution.execution_id for found in page], following) == (calls, None)
    (first,), following = await ours.seal("g", limit=1)
    (second,), _ = await ours.seal("g", after=following, limit=1)
    assert [found.resolution.execution_id for found in (first, second)] == calls
    with pytest.raises(NotAllowed):
        await saved(ours, group="g")
    with pytest.raises(NotFound):
        await ours.seal("theirs-only")
    with pytest.raises(InstanceUnclear):
        await ours.seal("theirs-only", "theirs")
    with pytest.raises(InstanceUnclear):
        await StoreCalls(store).seal("g")
    assert await saved(theirs, group="theirs-only")


# The stream


async def first(told: AsyncIterator[tuple[str, Resolution]], count: int) -> list[tuple[str, str]]:
    """The next of a stream: cursors and execution ids."""
    async with asyncio.timeout(10):
        found = [await anext(told) for _ in range(count)]
    return [(cursor, resolution.execution_id) for cursor, resolution in found]


async def abandoned(calls: StoreCalls) -> str:
    """A call that was given up."""
    execution_id = await saved(calls)
    await calls.abandon(execution_id, "no more")
    return execution_id


async def test_the_stream_tells_of_ones_own_calls_and_is_resumed_anywhere(ours: StoreCalls, theirs: StoreCalls) -> None:
    mine = [await abandoned(calls) for calls in (ours, theirs, ours, ours)]
    del mine[1]
    async with aclosing(ours.resolutions("")) as told:
        found = await first(told, 3)
        assert [execution_id for _, execution_id in found] == mine
        mine.append(await abandoned(ours))
        found += await first(told, 1)
    async with aclosing(ours.resolutions(found[1][0])) as told:
        assert await first(told, 2) == found[2:]
    assert await ours.end_of_stream() == found[-1][0]


async def test_the_stream_may_begin_with_what_comes_from_now_on(ours: StoreCalls) -> None:
    await abandoned(ours)
    async with aclosing(ours.resolutions()) as told:
        waiting = asyncio.create_task(first(told, 1))
        await asyncio.sleep(0.2)
        execution_id = await abandoned(ours)
        ((_, found),) = await waiting
    assert found == execution_id


async def test_a_state_that_was_left_since_is_told_as_it_was(ours: StoreCalls, store: Store) -> None:
    found = await taken(ours, store)
    assert found.grant is not None
    await ours.finish(found.grant, DONE)
    async with aclosing(ours.resolutions("")) as told:
        (_, permitted), (_, succeeded) = [await anext(told) for _ in range(2)]
    assert (permitted.state, permitted.result) == (State.PERMITTED, None)
    assert (succeeded.state, succeeded.result) == (State.SUCCEEDED, 1)
    assert permitted.id != succeeded.id


async def test_a_place_of_an_older_epoch_is_resumed_no_later_than_that_epoch_reached(
    ours: StoreCalls, store: Store
) -> None:
    await abandoned(ours)
    before = await ours.end_of_stream()
    await store.raise_epoch("restored", "operator", clock.now())
    after = await abandoned(ours)
    epoch, number = before.split("-")
    beyond = f"{epoch}-{int(number) + 1}"  # what the store has forgotten
    for cursor in (before, beyond):
        async with aclosing(ours.resolutions(cursor)) as told:
            ((_, execution_id),) = await first(told, 1)
        assert execution_id == after


@each_row("cursor", ["x", "1", "1-", "-1", "0-1", "1-01", "1-1 ", "1-" + "9" * 30])
async def test_what_is_no_cursor_is_refused(ours: StoreCalls, cursor: str) -> None:
    with pytest.raises(CallRefused) as refused:
        await anext(ours.resolutions(cursor))
    assert refused.value.reason == "bad_cursor"


async def test_a_stream_hears_that_its_store_was_closed(ours: StoreCalls) -> None:
    async with aclosing(ours.resolutions()) as told:
        waiting = asyncio.create_task(first(told, 1))
        await asyncio.sleep(0.1)
        await ours.close()
        with pytest.raises(StoreUnavailable):
            await waiting


@each_row("seconds", [0, -1, float("nan"), float("inf"), 3601])
async def test_a_hold_lasts_a_time_that_can_be_waited_for(ours: StoreCalls, seconds: float) -> None:
    with pytest.raises(CallRefused) as refused:
        await ours.suspend(Call("t", {}), "harness", "none", hold_id="hold", hold_seconds=seconds)
    assert refused.value.reason == "bad_hold_seconds"
