"""Texts and numbers that not every database can hold: both answer the same, and no decision is lost over one."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.desk import Desk, approved, new_id
from support.tables import each_row
from wakegate_adapter import Call, CallRefused
from wakegate_schema import clock
from wakegate_schema.clock import MINUTE
from wakegate_schema.records import Approval, Claimed, Closing, Lease, Outcome
from wakegate_schema.states import State
from wakegate_schema.store import Store, UnstorableValue
from wakegate_schema.store.texts import told

NUL = "a\0b"
HALF = "a\ud800b"


EXACT: dict[str, Callable[[Desk, str], Awaitable[object]]] = {
    "tool": lambda desk, text: desk.save(tool=text),
    "key": lambda desk, text: desk.save(idempotency_key=text),
    "reasoning": lambda desk, text: desk.save(reasoning=text),
    "group": lambda desk, text: desk.save(group=text),
    "wake": lambda desk, text: desk.save(wake=text),
    "tool version": lambda desk, text: desk.save(tool_version=text),
    "hold": lambda desk, text: desk.save(hold_id=text, hold_until=clock.now()),
    "event": lambda desk, text: desk.store.record(desk.arrival(text)),
    "host": lambda desk, text: desk.store.mark_clock(text, clock.now()),
    "sealed group": lambda desk, text: desk.store.seal_group(desk.provider, desk.instance_id, text, clock.now()),
    "a look for an execution": lambda desk, text: desk.store.execution(text),
    "a look for a notification": lambda desk, text: desk.store.notifications_called(text),
}


@each_row("what", EXACT)
@each_row("text", [NUL, HALF], ids=["U+0000", "half a pair"])
async def test_a_text_that_must_be_exact_is_refused_alone(desk: Desk, what: str, text: str) -> None:
    with pytest.raises(UnstorableValue):
        await EXACT[what](desk, text)
    assert await desk.store.executions() == []
    assert (await desk.store.record(desk.arrival(new_id()))).kind == "saved"


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
async def test_a_number_beyond_64_bits_is_refused_alone(desk: Desk, number: int) -> None:
    with pytest.raises(UnstorableValue):
        await desk.store.record(desk.arrival(new_id(), received_at=number))
    with pytest.raises(UnstorableValue):
        await desk.save(at=number)
    assert (await desk.store.record(desk.arrival(new_id()))).kind == "saved"


@pytest.mark.parametrize("text", [NUL, HALF], ids=["U+0000", "half a pair"])
async def test_a_decision_is_recorded_whatever_its_note_holds(desk: Desk, store: Store, text: str) -> None:
    now = clock.now()
    denied, permitted, started = await desk.waiting(), await desk.waiting(runs="harness"), await desk.waiting()
    assert await store.close_unstarted(denied.lease, Closing(State.DENIED, "denied", now, note=text), now)
    approval = Approval(now - 1, now + 15 * MINUTE, text)
    assert await store.permit(permitted.lease, approval, now)
    assert await store.start(started.lease, approval, now, now + MINUTE) is not None
    for each in (denied, permitted, started):
        assert (await store.execution(each.execution_id)).note == "a\ufffdb"


@pytest.mark.parametrize("text", [NUL, HALF], ids=["U+0000", "half a pair"])
async def test_an_outcome_is_recorded_whatever_its_error_holds(desk: Desk, store: Store, text: str) -> None:
    started = await desk.started()
    await store.finish(started.lease, Outcome("failed", "tool_failed", error=text), clock.now())
    found = await store.execution(started.execution_id)
    assert (found.state, found.error) == (State.FAILED, "a\ufffdb")


@pytest.mark.parametrize("text", [NUL, HALF], ids=["U+0000", "half a pair"])
async def test_what_a_person_settles_or_releases_is_recorded_whatever_the_note_holds(
    desk: Desk, store: Store, text: str
) -> None:
    doubtful, waiting = await desk.in_doubt(), await desk.waiting()
    settled = await store.settle(doubtful.execution_id, happened=True, by="Ada", note=text, at=clock.now())
    assert settled.resolution_note == "a\ufffdb"
    await store.raise_epoch("restored", "operator:mika", clock.now())
    released = await store.release_held(waiting.execution_id, actor="operator:mika", note=text, at=clock.now())
    assert released.release_note == "a\ufffdb"


async def test_a_claims_own_words_are_refused_and_it_can_be_claimed_by_others(desk: Desk, store: Store) -> None:
    permitted, now = await desk.permitted(approved()), clock.now()
    for text in (NUL, HALF):
        with pytest.raises(UnstorableValue):
            await store.claim(permitted.execution_id, text, now, now + MINUTE, 0)
    assert isinstance(await store.claim(permitted.execution_id, "claim", now, now + MINUTE, 0), Claimed)
    assert not await store.begin_submission(Lease(permitted.execution_id, 1), None, now)


@each_row(
    "changes", [{"tool": NUL}, {"key": NUL}, {"reasoning": NUL}, {"group": NUL}, {"instance": NUL}, {"reasoning": HALF}]
)
def test_a_harness_is_told_at_the_door(changes: dict[str, Any]) -> None:
    with pytest.raises(CallRefused):
        Call(**{"tool": "issue_refund", "arguments": {"amount": 1}} | changes)


async def test_arguments_and_results_are_bytes_and_hold_anything_that_json_can_say(desk: Desk, store: Store) -> None:
    odd = b'{"text": "\\u0000 \\ud83d\\ude00 \\n"}'
    waiting = await desk.waiting(arguments=odd)
    now = clock.now()
    started = await store.start(waiting.lease, approved(), now, now + MINUTE)
    assert started is not None
    assert started.arguments == odd
    await store.finish(started.lease, Outcome("succeeded", "returned", odd), now)
    assert (await store.execution(started.execution_id)).result == odd


def test_only_what_cannot_be_kept_is_replaced() -> None:
    assert told(None) is None
    assert told("") == ""
    assert told("naïve \U0001f600\n\x01\x7f") == "naïve \U0001f600\n\x01\x7f"
    assert told(f"{NUL}{HALF}\udfff") == "a\ufffdba\ufffdb\ufffd"
