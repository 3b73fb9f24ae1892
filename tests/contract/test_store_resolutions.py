"""What harnesses ask for: executions of some instances, and the log of what harnesses are told."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import closing

import pytest

from support.desk import Desk, approved, new_id
from support.raw import open_raw
from wakegate_schema import clock
from wakegate_schema.records import Closing, Told
from wakegate_schema.states import RESOLVED, State
from wakegate_schema.store import Store
from wakegate_schema.store.transaction import Row, Transaction
from wakegate_schema.store.verbs import resolutions

Identity = tuple[str, str]


async def two_desks(store: Store) -> tuple[Desk, Desk]:
    return await Desk(store, name="ours").open(), await Desk(store, name="theirs").open()


def identity(desk: Desk) -> Identity:
    return desk.provider, desk.instance_id


async def abandoned(desk: Desk, **changes: object) -> str:
    saved = await desk.save(**changes)
    await desk.store.abandon(saved.execution_id, "closed", "harness", clock.now())
    return saved.execution_id


def told(lines: list[Told]) -> list[tuple[str, State]]:
    return [(line.execution_id, line.to_state) for line in lines]


# Executions of instances


async def test_pages_hold_the_latest_of_these_instances_and_of_no_other(store: Store) -> None:
    ours, theirs = await two_desks(store)
    third = await Desk(store, name="third").open()
    saved = []
    for _ in range(3):
        saved += [(await desk.save()).execution_id for desk in (ours, third)]
        await theirs.save()
    wanted, seen, before = [identity(ours), identity(third)], [], None
    while page := await store.executions_of(wanted, before, 2, None, None):
        assert len(page) <= 2
        seen += [record.execution_id for _, record in page]
        before = page[-1][0]
    assert seen == saved[::-1]


async def test_an_instance_is_that_of_its_own_provider(store: Store) -> None:
    ours = await Desk(store, name="ours").open()
    same_id = await Desk(store, name="theirs", provider="http://127.0.0.1:10", instance_id=ours.instance_id).open()
    await same_id.save()
    mine = await ours.save()
    found = await store.executions_of([identity(ours)], None, 10, None, None)
    assert [record.execution_id for _, record in found] == [mine.execution_id]
    assert await store.executions_of([], None, 10, None, None) == []


async def test_the_same_instance_twice_is_one(store: Store) -> None:
    ours = await Desk(store).open()
    await ours.save()
    assert len(await store.executions_of([identity(ours)] * 2, None, 10, None, None)) == 1
    await abandoned(ours)
    assert len(await store.resolutions([identity(ours)] * 2, None, 10)) == 1


async def test_pages_by_state_and_by_group(store: Store) -> None:
    ours, theirs = await two_desks(store)
    wanted = [identity(ours)]
    waiting = (await ours.save(group="turn-1")).execution_id
    closed = await abandoned(ours, group="turn-1")
    other_turn = (await ours.save(group="turn-2")).execution_id
    no_turn = await abandoned(ours)
    await theirs.save(group="turn-1")
    await abandoned(theirs)

    async def found(state: State | None, group: str | None) -> list[str]:
        return [record.execution_id for _, record in await store.executions_of(wanted, None, 10, state, group)]

    assert await found(None, "turn-1") == [closed, waiting]
    assert await found(State.SAVED, "turn-1") == [waiting]
    assert await found(State.SAVED, None) == [other_turn, waiting]
    assert await found(State.ABANDONED, None) == [no_turn, closed]
    assert await found(State.DENIED, None) == []
    assert await found(None, "turn-3") == []


# What was told


async def test_what_was_told_comes_in_the_order_of_the_commits(store: Store) -> None:
    ours, theirs = await two_desks(store)
    first, permitted = await abandoned(ours), await ours.permitted()
    foreign = await abandoned(theirs)
    refused = await ours.waiting()
    await store.close_unstarted(refused.lease, Closing(State.REFUSED, "mismatch"), clock.now())
    mine = [(first, State.ABANDONED), (permitted.execution_id, State.PERMITTED), (refused.execution_id, State.REFUSED)]
    assert told(await store.resolutions([identity(ours)], None, 10)) == mine
    assert told(await store.resolutions([identity(theirs)], None, 10)) == [(foreign, State.ABANDONED)]
    everything = told(await store.resolutions(None, None, 10))
    assert everything == [*mine[:2], (foreign, State.ABANDONED), mine[2]]
    assert told(await store.resolutions([identity(theirs), identity(ours)], None, 10)) == everything


async def test_it_is_read_in_pages_from_the_place_of_the_last_line(store: Store) -> None:
    ours, theirs = await two_desks(store)
    expected = [await abandoned(desk) for desk in (ours, theirs, ours, ours, theirs)]
    for wanted in ([identity(ours), identity(theirs)], None):
        seen: list[str] = []
        place = None
        while page := await store.resolutions(wanted, place, 2):
            assert len(page) <= 2
            seen += [line.execution_id for line in page]
            place = page[-1].place
        assert seen == expected


async def test_who_follows_several_instances_misses_nothing_that_is_told_while_a_page_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    desks, expected = await two_desks(store), list[str]()
    loop, one_by_one = asyncio.get_running_loop(), resolutions._of_each

    async def tell() -> None:
        expected.extend([await abandoned(desk) for desk in desks])

    def telling(tx: Transaction, query: str, instances: Sequence[Identity], params: dict[str, object]) -> Iterable[Row]:
        for instance in instances:
            yield from one_by_one(tx, query, [instance], params)
            asyncio.run_coroutine_threadsafe(tell(), loop).result(10)

    wanted, seen = [identity(desk) for desk in desks], list[str]()
    await tell()
    monkeypatch.setattr(resolutions, "_of_each", telling)
    place = await store.resolutions_end(wanted)
    before = len(expected) - 4
    for _ in range(3):
        page = await store.resolutions(wanted, place, 10)
        seen += [line.execution_id for line in page]
        place = page[-1].place if page else place
    monkeypatch.undo()
    seen += [line.execution_id for line in await store.resolutions(wanted, place, 20)]
    assert seen == expected[before:]


async def test_a_line_bears_the_id_of_its_wake(store: Store) -> None:
    ours = await Desk(store).open()
    saved = await abandoned(ours, wake="desk")
    (line,), (wake,) = await store.resolutions(None, None, 10), await store.wakes(saved)
    assert (line.wake_id, line.from_state) == (wake.wake_id, State.SAVED)


async def test_what_only_the_worker_acts_on_is_not_told(store: Store) -> None:
    ours = await Desk(store).open()
    started = await ours.started("worker")
    assert await store.resolutions(None, None, 10) == []
    await store.sweep(clock.now() + clock.HOUR)
    assert told(await store.resolutions(None, None, 10)) == [(started.execution_id, State.IN_DOUBT)]


async def test_the_end_is_the_place_of_ones_own_last_line(store: Store) -> None:
    ours, theirs = await two_desks(store)
    assert await store.resolutions_end([identity(ours)]) == (1, 0) == await store.resolutions_end([])
    await abandoned(ours)
    before = await store.resolutions_end([identity(ours)])
    foreign = await abandoned(theirs)
    assert await store.resolutions_end([identity(ours)]) == before, "what others are told moves nobody's end"
    (line,) = await store.resolutions([identity(theirs)], None, 10)
    assert await store.resolutions_end() == line.place == await store.resolutions_end([identity(theirs)])
    assert (line.execution_id, await store.resolutions([identity(ours)], before, 10)) == (foreign, [])
    mine = await abandoned(ours)
    assert told(await store.resolutions([identity(ours)], before, 10)) == [(mine, State.ABANDONED)]


# Epochs


async def test_a_place_of_an_epoch_before_resumes_with_what_that_epoch_has_not_left_here(store: Store) -> None:
    """As after a restore: the epoch's last two lines are lost, and their numbers were given again."""
    ours = await Desk(store).open()
    kept = [await abandoned(ours) for _ in range(2)]
    lost_places = [(1, 3), (1, 4)]
    await store.raise_epoch("restored", "operator", clock.now())
    new = [await abandoned(ours) for _ in range(3)]
    for place in lost_places:
        assert [line.execution_id for line in await store.resolutions(None, place, 10)] == new
    assert [line.execution_id for line in await store.resolutions(None, (1, 1), 10)] == [kept[1], *new]
    assert [line.execution_id for line in await store.resolutions(None, (2, 3), 10)] == new[1:]
    assert (await store.resolutions_end())[0] == 2


async def test_a_place_before_every_line_begins_with_the_first(store: Store) -> None:
    ours = await Desk(store).open()
    await store.raise_epoch("restored", "operator", clock.now())
    new = [await abandoned(ours) for _ in range(2)]
    for place in ((1, 0), (1, 7), (2, 0)):
        assert [line.execution_id for line in await store.resolutions(None, place, 10)] == new


async def test_a_place_of_an_epoch_that_never_was_begins_with_the_first(store: Store) -> None:
    ours = await Desk(store).open()
    mine = await abandoned(ours)
    assert [line.execution_id for line in await store.resolutions(None, (9, 1), 10)] == [mine]


async def test_a_place_beyond_the_end_is_the_end(store: Store) -> None:
    ours = await Desk(store).open()
    await abandoned(ours)
    assert await store.resolutions(None, (1, 99), 10) == []
    later = await abandoned(ours)
    assert [line.execution_id for line in await store.resolutions(None, (1, 1), 10)] == [later]


async def test_a_release_into_the_present_epoch_is_told_again(store: Store) -> None:
    ours = await Desk(store).open()
    permitted = await ours.permitted(approved(clock.HOUR))
    await store.raise_epoch("restored", "operator", clock.now())
    await store.release_held(permitted.execution_id, actor="operator:x", note=None, at=clock.now())
    assert [(line.from_state, line.to_state) for line in await store.resolutions(None, None, 10)] == [
        (State.WAITING, State.PERMITTED),
        (State.PERMITTED, State.PERMITTED),
    ]


# Retention


async def test_old_lines_go_in_bounded_steps(store: Store) -> None:
    ours = await Desk(store).open()
    for _ in range(5):
        await abandoned(ours)
    end, later = await store.resolutions_end(), clock.now() + 1
    new = await abandoned(ours)
    assert (await store.prune(later, 0)).resolutions == 0
    assert [(await store.prune(later, later, 2)).resolutions for _ in range(4)] == [2, 2, 1, 0]
    assert [line.execution_id for line in await store.resolutions(None, None, 10)] == [new]
    assert [line.execution_id for line in await store.resolutions(None, end, 10)] == [new]
    assert [line.execution_id for line in await store.resolutions(None, (1, 1), 10)] == [new]


async def test_a_number_is_never_given_twice_in_an_epoch(store: Store) -> None:
    ours = await Desk(store).open()
    await abandoned(ours)
    place, later = await store.resolutions_end(), clock.now() + clock.HOUR
    await store.prune(later, later)
    assert await store.resolutions_end() == (1, 0)
    new = await abandoned(ours)
    assert [line.execution_id for line in await store.resolutions(None, place, 10)] == [new]


async def test_every_change_that_harnesses_are_told_of_is_in_the_log_of_its_own_commit(
    store: Store, database: str
) -> None:
    ours = await Desk(store).open()
    await ours.in_doubt()
    await ours.permitted()
    await abandoned(ours, idempotency_key=new_id())
    with closing(open_raw(database)) as raw:
        changes = raw.rows("SELECT execution_id, number, to_state FROM transition")
    runs = {record.execution_id: record.runs for _, record in await store.executions()}
    kept = {State.PERMITTED, State.IN_DOUBT} | RESOLVED
    expected = {
        (execution_id, number)
        for execution_id, number, state in changes
        if state in kept and (state != State.PERMITTED or runs[execution_id] == "harness")
    }
    lines = await store.resolutions(None, None, 100)
    assert {(line.execution_id, line.transition_number) for line in lines} == expected
    assert len(lines) == len(expected) == 3
