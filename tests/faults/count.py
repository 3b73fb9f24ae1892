"""The count: when everything in a world has come to rest, every promise is checked."""

import json
from collections import Counter
from contextlib import closing

from faults import harness
from faults.tools import effects
from faults.world import RESUMED, Call, World
from support.raw import open_raw
from wakegate_schema.records import Execution, Wake
from wakegate_schema.states import RESOLVED, State
from wakegate_schema.store import StoreUnavailable


async def count(world: World) -> list[str]:
    """Check every promise, and return how each call ended.

    A late word may come between two looks at the store; what was found then counts once nothing has moved meanwhile.
    """
    for _ in range(MOVES):
        try:
            before = await _standing(world)
            return await _count(world)
        except StoreUnavailable:  # the look was in vain
            await world.settle()
        except AssertionError:
            await world.settle()
            if await _standing(world) == before:
                raise
    return await _count(world)


async def _standing(world: World) -> list[tuple[Execution, list[Wake]]]:
    return [(execution, await world.store.wakes(execution.execution_id)) for execution in await world.executions()]


async def _count(world: World) -> list[str]:
    executions = {execution.idempotency_key: execution for execution in await world.executions()}
    assert executions.keys() == world.calls.keys(), "every call is on record, once"
    recorded = {notification.event_id for _, notification in await world.store.notifications()}
    assert world.acknowledged <= recorded, "an acknowledged notification is lost"
    had = Counter(effects(world.folder))
    assert set(had.values()) <= {1}, "an effect was had twice"
    assert len(world.peer.requests) == len(world.peer.keys), "a key made two requests"
    known = {execution.execution_id for execution in executions.values()}
    assert {line["execution"] for line in _told(world) if "execution" in line} <= known, "an acknowledged call is lost"
    for key, execution in executions.items():
        _check_report(world, execution)
        _check(world, world.calls[key], execution, had[key])
        await _check_history(world, execution)
        await _check_wakes(world, execution)
    path = world.folder / RESUMED
    resumed = path.read_text().split() if path.exists() else []
    saved = {execution.request_id for execution in executions.values()}
    for _, adoption in await world.store.latest_adoptions():
        if adoption.request_id in saved:  # taken for unmatched while its submission was cut off
            assert adoption.runs == 0, "a saved call's request was resumed"
            continue
        assert adoption.reason in ("consumed", "consumed_in_doubt"), "a framework's run was not resumed to its end"
        assert adoption.last_end == "well", "a framework's run was not resumed to its end"
        assert adoption.request_id in resumed, "a framework's run was not resumed"
    await _check_groups(world, list(executions.values()))
    if world.place.ground.database == "sqlite":
        with closing(open_raw(world.place.url)) as raw:
            assert raw.rows("PRAGMA integrity_check") == [("ok",)]
    return [told(execution) for execution in executions.values()]


def _check(world: World, call: Call, execution: Execution, effects_had: int) -> None:
    state, reason = execution.state, execution.reason
    if call.fate == "denied":
        assert (state, effects_had) == (State.DENIED, 0), "a denied call ran"
    elif call.fate == "abandoned":
        assert (state, effects_had) == (State.ABANDONED, 0), "an abandoned call ran"
        known = execution.idempotency_key in world.peer.keys
        spent = execution.request_id in world.peer.spent_by
        assert not known or spent or world.request(execution.idempotency_key)["status"] == "cancelled", (
            "a cancel was lost"
        )
    elif state is State.SUCCEEDED:
        assert effects_had == 1, "a call counts as succeeded and did not run"
    elif state is State.IN_DOUBT:
        assert effects_had <= 1
    else:
        assert effects_had == 0, f"a call ran and counts as {state}"
        allowed = NOT_BEGUN | (HELD if call.held else set())
        assert (state, reason) in allowed, f"an approved call is {told(execution)}"


def _check_report(world: World, execution: Execution) -> None:
    """Check that what a provider was told of a consumed approval is what is on record, and that it was told of it."""
    told_of = [body for request_id, body in world.peer.outcomes if request_id == execution.request_id]
    if execution.consumed_at is None or execution.finished_at is None:
        assert told_of == [], "a provider was told of what was not consumed, or is not known"
        return
    right = {"status": "succeeded" if execution.state is State.SUCCEEDED else "failed"}
    if execution.started_at is None or execution.state is State.LAPSED:
        right["note"] = "not run"
    assert told_of, "a report was lost"
    assert all(body == right for body in told_of), "a provider was told of something else"


async def _check_history(world: World, execution: Execution) -> None:
    """Check that a call started once at most, and that whatever its harness was told of it is on record."""
    states = [transition.to_state for transition in await world.store.transitions(execution.execution_id)]
    assert states.count(State.STARTED) <= 1, "a call was started twice"
    told_of = {line["state"] for line in _told(world) if line.get("execution") == execution.execution_id}
    assert told_of <= {str(state) for state in states}, "what a harness was told is not on record"
    place, log = (1, 0), []
    while page := await world.store.resolutions(None, place, 50):
        log += [each.to_state for each in page if each.execution_id == execution.execution_id]
        place = page[-1].place
    tells = TOLD | ({State.PERMITTED} if execution.runs == "harness" else set())
    assert log == [state for state in states if state in tells], "the stream tells something else"


async def _check_groups(world: World, executions: list[Execution]) -> None:
    """Check that each group has one wake, once it is sealed and all of its calls are resolved, and none before."""
    with closing(open_raw(world.place.url)) as raw:
        groups = raw.rows('SELECT "group", number, wake, sealed_at FROM call_group')
        of_groups = Counter(number for (number,) in raw.rows("SELECT group_number FROM wake"))
    sealed = {group for group, _, _, sealed_at in groups if sealed_at is not None}
    assert {line["group"] for line in _told(world) if "group" in line} <= sealed, "an acknowledged seal is lost"
    for group, number, target, _ in groups:
        calls = [execution for execution in executions if execution.group == group]
        complete = group in sealed and target != "none" and all(call.state in RESOLVED for call in calls)
        assert of_groups[number] == int(complete), "a group has another number of wakes than one"
        wakes = [wake for call in calls for wake in await world.store.wakes(call.execution_id)]
        own = [wake for wake in wakes if wake.group_number is None]
        assert not [wake for wake in own if wake.to_state in RESOLVED], "a call of a group has a wake of its own"


def _told(world: World) -> list[dict[str, str]]:
    """What the harness was told."""
    path = world.folder / harness.TOLD
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def _check_wakes(world: World, execution: Execution) -> None:
    for wake in await world.store.wakes(execution.execution_id):
        if wake.target == "none":
            continue
        assert wake.state == "delivered", "a wake was given up"
        assert world.heard(wake.wake_id) >= 1, "nobody was woken"


MOVES = 5
"""How often something may have moved."""
TOLD = RESOLVED | {State.IN_DOUBT}
"""What the stream of resolutions tells of; of a call that a harness runs, `permitted` too."""
NOT_BEGUN = {
    (State.LAPSED, "start_too_slow"),
    (State.LAPSED, "start_unconfirmed"),
    (State.LAPSED, "store_unavailable"),
    (State.FAILED, "start_too_slow"),
    (State.FAILED, "start_unconfirmed"),
    (State.FAILED, "store_unavailable"),
    (State.FAILED, "probe_found_nothing"),
}
"""How an approved call may end without having run: it was held up after its start was committed, and that is known."""
HELD = {(State.ABANDONED, "hold_lost"), (State.ABANDONED, "hold_interrupted")}
"""A held call whose holder fell silent is given up before it starts."""


def told(execution: Execution) -> str:
    """How a call ended, in a word or two."""
    plain = {"returned", "claimed", "denied", "approved", "conversation closed", None}
    reason = "" if execution.reason in plain else f" ({execution.reason})"
    return f"{execution.state}{reason}"
