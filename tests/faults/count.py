"""The count: when everything in a world has come to rest, every promise is checked."""

import sqlite3
from collections import Counter
from contextlib import closing

from faults.tools import effects
from faults.world import DATABASE, Call, World
from wakegate_schema.records import Execution
from wakegate_schema.states import State


async def count(world: World) -> list[str]:
    """Check every promise, and return how each call ended."""
    executions = {execution.idempotency_key: execution for execution in await world.executions()}
    assert executions.keys() == world.calls.keys(), "every call is on record, once"
    recorded = {notification.event_id for _, notification in await world.store.notifications()}
    assert world.acknowledged <= recorded, "an acknowledged notification is lost"
    had = Counter(effects(world.folder))
    assert set(had.values()) <= {1}, "an effect was had twice"
    assert len(world.peer.requests) == len(world.peer.keys), "a key made two requests"
    for key, execution in executions.items():
        _check(world, world.calls[key], execution, had[key])
        await _check_wakes(world, execution)
    with closing(sqlite3.connect(world.folder / DATABASE)) as raw:
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return [told(execution) for execution in executions.values()]


def _check(world: World, call: Call, execution: Execution, effects_had: int) -> None:
    state, reason = execution.state, execution.reason
    if call.fate == "denied":
        assert (state, effects_had) == (State.DENIED, 0), "a denied call ran"
    elif call.fate == "abandoned":
        assert (state, effects_had) == (State.ABANDONED, 0), "an abandoned call ran"
        known = execution.idempotency_key in world.peer.keys
        assert not known or world.request(execution.idempotency_key)["status"] == "cancelled", "a cancel was lost"
    elif state is State.SUCCEEDED:
        assert effects_had == 1, "a call counts as succeeded and did not run"
    elif state is State.IN_DOUBT:
        assert effects_had <= 1
    else:
        assert effects_had == 0, f"a call ran and counts as {state}"
        allowed = NOT_BEGUN | (HELD if call.held else set())
        assert (state, reason) in allowed, f"an approved call is {told(execution)}"


async def _check_wakes(world: World, execution: Execution) -> None:
    for wake in await world.store.wakes(execution.execution_id):
        if wake.target == "none":
            continue
        assert wake.state == "delivered", "a wake was given up"
        assert world.woken[wake.wake_id] >= 1, "nobody was woken"


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
