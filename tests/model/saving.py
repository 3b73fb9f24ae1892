"""Saving: what harnesses save, and what they must be told."""

import json
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from model.focus import Focus
from model.jobs import Fate
from model.reference import Call, Instance
from model.workers import TARGET
from model.world import World

from wakegate_schema.records import Suspension
from wakegate_schema.store import KeyConflict, NotAllowed, StoreError, StoreUnavailable


def calls(focus: Focus) -> st.SearchStrategy[dict[str, Any]]:
    """What a history of this focus saves."""
    return st.fixed_dictionaries(
        {
            "kind": st.sampled_from(focus.kinds),
            "tool": st.sampled_from(["refund", "refund", "note"]),
            "runs": st.sampled_from(focus.runs),
            "wake": st.sampled_from([TARGET, "none"]),
            "hold": st.sampled_from(focus.holds),
        }
    )


def drawn(machine: Any) -> st.SearchStrategy[dict[str, Any]]:
    """What a machine saves."""
    return calls(machine.focus)


async def save(
    world: World, instance: Instance, key: str, fate: Fate, *, kind: str, tool: str, runs: Any, wake: str, hold: int
) -> list[str]:
    """Save a call and return what is wrong with the answer.

    An old key finds the old execution, whatever became of it and however long ago; with another call it is a
    conflict.
    """
    arguments = json.dumps({"amount": 4900, "kind": kind}).encode()
    number = len(world.reference.calls) + 1
    wanted = Suspension(
        execution_id=f"00000000-0000-4000-9000-{number:012x}", provider=instance[0], instance_id=instance[1],
        idempotency_key=key, tool=tool, arguments=arguments, context=None, reasoning="charged twice", timeout="30m",
        tool_version=None, runs=runs, wake=wake, group=None, at=world.at, hold_id=f"hold-{number}" if hold else None,
        hold_until=world.at + hold if hold else None,
    )  # fmt: skip
    call = Call(wanted.execution_id, instance, key, kind, tool, arguments, runs, wake, world.at)
    known = world.reference.of_key(instance, key)
    if known is not None:
        same = (known.kind, known.tool, known.runs, known.wake) == (kind, tool, runs, wake)
        return await _again(world, wanted, known if same else None)
    if instance in world.reference.retired:
        return await _refused(world, wanted, NotAllowed)
    if fate is not Fate.REFUSED:
        world.reference.calls[call.execution_id] = call
    world.lines["desk"].next = fate
    try:
        saved = await world.desk.save(wanted)
    except StoreUnavailable:
        return [] if fate is not Fate.GO else [f"{key} could not be saved"]
    return [] if saved.execution_id == call.execution_id else [f"a new key {key} found {saved.execution_id}"]


async def _again(world: World, wanted: Suspension, known: Call | None) -> list[str]:
    if known is None:
        return await _refused(world, wanted, KeyConflict)
    try:
        found = await world.desk.save(replace(wanted, hold_id=None, hold_until=None))
    except StoreError as error:
        return [f"the old key {wanted.idempotency_key} was answered with {error.reason}"]
    if found.execution_id != known.execution_id:
        return [f"the old key {wanted.idempotency_key} gave a new execution"]
    return []


async def _refused(world: World, wanted: Suspension, expected: type[StoreError]) -> list[str]:
    try:
        await world.desk.save(wanted)
    except expected:
        return []
    return [f"{wanted.idempotency_key} was saved, though {expected.reason} was to be expected"]
