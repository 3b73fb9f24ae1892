"""Groups: one wake tells of all, once all are resolved and the group is sealed, and never more than one."""

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.desk import Desk, approved, new_id
from support.processes import clean_environment
from wakegate_schema import clock
from wakegate_schema.records import Execution, Outcome, Wake
from wakegate_schema.states import State
from wakegate_schema.store import KeyConflict, NotAllowed, NotFound, Store

HERE = Path(__file__).parent
GROUP = "turn-7"
ROUNDS = 12


async def saved(desk: Desk, count: int, **changes: object) -> list[Execution]:
    """Save some calls of the group."""
    return [await desk.save(**{"group": GROUP, "wake": "mine", **changes}) for _ in range(count)]


async def seal(desk: Desk, group: str = GROUP) -> list[Execution]:
    """Seal the group, and return its calls."""
    await desk.store.seal_group(desk.provider, desk.instance_id, group, clock.now())
    return [found for _, found in await desk.store.group_calls(desk.provider, desk.instance_id, group)]


async def end(desk: Desk, execution: Execution) -> None:
    """Resolve a call."""
    await desk.store.abandon(execution.execution_id, "over", "harness", clock.now())


async def wakes(store: Store) -> list[Wake]:
    """Every wake there is, oldest first."""
    return [wake for _, wake in reversed(await store.latest_wakes())]


async def told(store: Store, wake: Wake) -> list[str]:
    """The calls that a group's wake tells of."""
    assert wake.group_number is not None
    return [found.execution_id for _, found, _ in await store.group_executions(wake.group_number)]


async def test_a_sealed_group_wakes_once_when_its_last_call_is_resolved(desk: Desk, store: Store) -> None:
    first, second, third = await saved(desk, 3)
    assert [found.execution_id for found in await seal(desk)] == [
        first.execution_id, second.execution_id, third.execution_id,
    ]  # fmt: skip
    await end(desk, second)
    await end(desk, first)
    assert await wakes(store) == []
    await end(desk, third)
    (wake,) = await wakes(store)
    assert (wake.execution_id, wake.to_state, wake.target, wake.state) == (
        third.execution_id, State.ABANDONED, "mine", "owed",
    )  # fmt: skip
    assert await told(store, wake) == [first.execution_id, second.execution_id, third.execution_id]


async def test_a_group_that_is_resolved_before_it_is_sealed_wakes_with_the_seal(desk: Desk, store: Store) -> None:
    first, second = await saved(desk, 2)
    await end(desk, first)
    await end(desk, second)
    assert await wakes(store) == []
    assert await store.stuck_groups() == 1
    ((_, group),) = await store.open_groups()
    assert (group.group, group.calls, group.resolved, group.awaits_seal) == (GROUP, 2, 2, True)
    sealed = await seal(desk)
    (wake,) = await wakes(store)
    assert (wake.execution_id, wake.wake_id) == (second.execution_id, f"{second.execution_id}_2")
    assert await seal(desk) == sealed
    assert await wakes(store) == [wake]
    assert (await store.stuck_groups(), await store.open_groups()) == (0, [])


async def test_each_call_of_a_groups_wake_has_the_id_of_its_own_resolution(desk: Desk, store: Store) -> None:
    first, second = await saved(desk, 2)
    await seal(desk)
    await end(desk, first)
    await end(desk, second)
    (wake,) = await wakes(store)
    assert wake.group_number is not None
    ids = [found_id for _, _, found_id in await store.group_executions(wake.group_number)]
    assert ids == [(await store.transitions(each.execution_id))[-1].wake_id for each in (first, second)]
    assert ids[-1] == wake.wake_id


async def test_the_calls_of_a_group_are_paged(desk: Desk, store: Store) -> None:
    calls = await saved(desk, 5)
    await seal(desk)
    for call in calls:
        await end(desk, call)
    (wake,) = await wakes(store)
    after, found = 0, []
    while page := await store.group_executions(wake.group_number or 0, after, 2):
        assert len(page) <= 2
        after = page[-1][0]
        found += [execution.execution_id for _, execution, _ in page]
    assert found == [call.execution_id for call in calls]


async def test_permission_and_doubt_are_told_at_once_and_the_outcome_with_the_group(desk: Desk, store: Store) -> None:
    other = (await saved(desk, 1))[0]
    waiting = await desk.waiting(group=GROUP, wake="mine", runs="harness")
    await store.permit(waiting.lease, approved(), clock.now())
    now = clock.now()
    await store.claim(waiting.execution_id, "claim", now, now + 1, 0)
    await store.sweep(now + clock.SECOND)
    singles = await wakes(store)
    assert [(wake.to_state, wake.group_number) for wake in singles] == [
        (State.PERMITTED, None), (State.IN_DOUBT, None),
    ]  # fmt: skip
    await seal(desk)
    await end(desk, other)
    assert await wakes(store) == singles, "what is in doubt is not resolved"
    await store.settle(waiting.execution_id, happened=True, by="mika", note="seen", at=clock.now())
    *before, last = await wakes(store)
    assert before == singles
    assert (last.to_state, last.group_number is not None) == (State.SUCCEEDED, True)
    assert await told(store, last) == [other.execution_id, waiting.execution_id]


async def test_a_call_that_the_worker_runs_to_its_end_is_told_with_its_group(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting(group=GROUP, wake="mine")
    await seal(desk)
    now = clock.now()
    started = await store.start(waiting.lease, approved(), now, now + clock.MINUTE)
    assert started is not None
    assert await wakes(store) == []
    await store.finish(started.lease, Outcome("succeeded", "returned", b"1"), clock.now())
    (wake,) = await wakes(store)
    assert (wake.to_state, wake.group_number is not None) == (State.SUCCEEDED, True)


async def test_a_sealed_group_takes_no_further_call_and_gives_back_those_it_has(desk: Desk, store: Store) -> None:
    suspension = desk.suspension(group=GROUP, wake="mine")
    first = await store.save(suspension)
    await seal(desk)
    with pytest.raises(NotAllowed, match="new group") as raised:
        await desk.save(group=GROUP, wake="mine")
    assert raised.value.reason == "group_sealed"
    assert await store.save(replace(suspension, execution_id=new_id())) == first
    with pytest.raises(KeyConflict):
        await store.save(replace(suspension, execution_id=new_id(), tool="other"))
    assert (await desk.save(group="turn-8", wake="mine")).group == "turn-8"


async def test_all_calls_of_a_group_wake_the_same_target(desk: Desk, store: Store) -> None:
    await saved(desk, 1)
    with pytest.raises(NotAllowed, match="wakes mine") as raised:
        await desk.save(group=GROUP, wake="none")
    assert raised.value.reason == "group_wakes_another_target"
    assert len(await store.executions()) == 1


async def test_a_group_is_its_instances_own(desk: Desk, store: Store) -> None:
    other = await Desk(store, name="other-desk").open()
    (mine,), (theirs,) = await saved(desk, 1), await saved(other, 1, wake="theirs")
    await seal(desk)
    await end(desk, mine)
    await end(desk, theirs)
    (wake,) = await wakes(store)
    assert (wake.target, await told(store, wake)) == ("mine", [mine.execution_id])
    await saved(other, 1, wake="theirs")


async def test_an_unknown_group_is_not_found(desk: Desk) -> None:
    with pytest.raises(NotFound, match="no group nothing") as raised:
        await seal(desk, "nothing")
    assert raised.value.reason == "not_found"


async def test_a_group_that_wakes_nobody_owes_nothing(desk: Desk, store: Store) -> None:
    (call,) = await saved(desk, 1, wake="none")
    await end(desk, call)
    assert await store.stuck_groups() == 0
    await seal(desk)
    assert await wakes(store) == []


async def test_a_retired_instance_ends_its_groups(desk: Desk, store: Store) -> None:
    calls = await saved(desk, 3)
    await seal(desk)
    await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", clock.now())
    (wake,) = await wakes(store)
    assert await told(store, wake) == [call.execution_id for call in calls]


async def test_a_group_of_an_older_epoch_wakes_once_what_was_held_is_given_up(desk: Desk, store: Store) -> None:
    first, second = await saved(desk, 2)
    await seal(desk)
    await end(desk, first)
    await store.raise_epoch("restored", "operator:mika", clock.now())
    assert await wakes(store) == []
    await store.release_held(second.execution_id, actor="operator:mika", note=None, at=clock.now())
    assert await wakes(store) == [], "a release resolves nothing"
    await end(desk, second)
    (wake,) = await wakes(store)
    assert await told(store, wake) == [first.execution_id, second.execution_id]


async def test_payloads_of_a_group_stay_while_its_wake_is_owed(desk: Desk, store: Store) -> None:
    first, second = await saved(desk, 2)
    await seal(desk)
    await end(desk, first)
    await end(desk, second)
    later = clock.now() + 30 * clock.DAY
    assert (await store.prune(later, later)).payloads == 0
    (wake,) = await wakes(store)
    await store.wake_delivered(wake.wake_id, later)
    assert (await store.prune(later, later)).payloads == 2


ACTS = st.lists(st.sampled_from(["save", "seal", "first", "last", "permit"]), min_size=3, max_size=14)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=ACTS)
async def test_in_any_order_there_is_one_wake_exactly_when_a_sealed_group_is_resolved(
    desk: Desk, store: Store, acts: list[str]
) -> None:
    group, unresolved, calls, is_sealed = new_id(), [], 0, False
    for act in acts:
        if act == "save" and not is_sealed:
            unresolved.append(await desk.save(group=group, wake="mine"))
            calls += 1
        elif act == "permit" and not is_sealed:
            waiting = await desk.waiting(group=group, wake="mine", runs="harness")
            await store.permit(waiting.lease, approved(), clock.now())
            unresolved.append(waiting)
            calls += 1
        elif act == "seal" and calls:
            await seal(desk, group)
            is_sealed = True
        elif act in ("first", "last") and unresolved:
            await end(desk, unresolved.pop(0 if act == "first" else -1))
        found = [wake for wake in await wakes(store) if wake.group_number and await _is_of(store, wake, group)]
        assert len(found) == (is_sealed and not unresolved)
        assert [len(await told(store, wake)) for wake in found] == [calls] * len(found)


async def _is_of(store: Store, wake: Wake, group: str) -> bool:
    return await store.group_name(wake.group_number or 0) == group


async def test_the_last_resolution_and_the_seal_from_two_processes_make_one_wake(
    desk: Desk, store: Store, database: str
) -> None:
    """Round after round a group of two: each process ends a call, and one of them seals in between."""
    groups = [await _pair(desk, f"race-{number}") for number in range(ROUNDS)]
    left = [word for name, (one, _) in groups for word in (f"abandon:{one}", f"seal:{_key(desk, name)}")]
    right = [word for name, (_, two) in groups for word in (f"seal:{_key(desk, name)}", f"abandon:{two}")]
    environment = clean_environment() | {"PYTHONPATH": str(HERE.parent)}
    with ExitStack() as stack:
        commands = [[sys.executable, str(HERE / "resolver.py"), database, *words] for words in (left, right)]
        running = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
            )
            for command in commands
        ]
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in running:  # all at once: they meet wherever they meet
            assert process.stdin is not None
            process.stdin.write("\n" * len(left))
            process.stdin.flush()
        for process in running:
            out, _ = process.communicate()
            assert out.splitlines() == ["done"] * len(left)
    found = await wakes(store)
    assert len(found) == ROUNDS
    assert {tuple(await told(store, wake)) for wake in found} == {pair for _, pair in groups}


async def _pair(desk: Desk, name: str) -> tuple[str, tuple[str, str]]:
    one, two = [(await desk.save(group=name, wake="mine")).execution_id for _ in range(2)]
    return name, (one, two)


def _key(desk: Desk, name: str) -> str:
    return f"{desk.provider}|{desk.instance_id}|{name}"
