"""Answers of the control API that are lost, late or none: what was done is found again, and nothing runs twice."""

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from support import driving
from support.desk import Desk
from support.losing import How, Line, losing
from support.ways import Way
from wakegate_adapter import Adapter, Call, ControlUnavailable, State, StoreUnavailable
from wakegate_adapter.control_calls import ControlCalls
from wakegate_schema import clock
from wakegate_schema.clock import HOUR
from wakegate_schema.store import Store

pytestmark = pytest.mark.by_receiver

LEASE = 3.0
WAYS_TO_LOSE = get_args(How)


@pytest.fixture
async def line(desk: Desk, database: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Line]:
    """A line to a real receiver on which answers can be lost; who gets none waits half a second for it."""
    monkeypatch.setattr("wakegate_adapter.control_http.REQUEST_S", 1.0)
    async with Way("control", database, monkeypatch) as way, losing(await way.socket(LEASE)) as relay:
        yield relay


@pytest.fixture
async def adapter(line: Line) -> AsyncIterator[Adapter]:
    """An adapter at the end of that line."""
    async with Adapter(ControlCalls(line.socket), hold=LEASE, patience=20) as opened:
        yield opened


def a_call(**options: Any) -> Call:
    """A refund."""
    return Call("issue_refund", {"amount": 4900}, **options)


async def permitted(adapter: Adapter, store: Store) -> str:
    """A call that the harness may run now."""
    ticket = await adapter.suspend(a_call(), runs="harness")
    await driving.approve(store, ticket.execution_id)
    return ticket.execution_id


@pytest.mark.parametrize("how", WAYS_TO_LOSE)
async def test_a_save_whose_answer_is_lost_is_found_under_its_key(
    adapter: Adapter, line: Line, store: Store, how: How
) -> None:
    line.lose("/v1/executions", how)
    with pytest.raises(ControlUnavailable):
        await adapter.suspend(a_call(key="k"))
    ticket = await adapter.suspend(a_call(key="k"))
    assert not ticket.created
    assert len(await store.executions()) == 1


@pytest.mark.parametrize("how", WAYS_TO_LOSE)
async def test_a_claim_whose_answer_is_lost_runs_the_call_once(
    adapter: Adapter, line: Line, store: Store, how: How
) -> None:
    execution_id = await permitted(adapter, store)
    line.lose("/claim", how)
    begun = []
    async with adapter.claim(execution_id) as attempt:
        assert attempt.permitted
        begun.append(attempt.arguments["amount"])
        attempt.succeed("once")
    assert len(line.lost) == 1
    found = await store.execution(execution_id)
    assert (found.state, found.attempt_number, begun) == (State.SUCCEEDED, found.lease_number, [4900])


@pytest.mark.parametrize("how", WAYS_TO_LOSE)
async def test_an_outcome_whose_answer_is_lost_is_on_record_once(
    adapter: Adapter, line: Line, store: Store, how: How
) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        line.lose("/finish", how)
        attempt.succeed("kept")
    assert len(line.lost) == 1
    assert (await adapter.get(execution_id)).result == "kept"
    assert [change.to_state for change in await store.transitions(execution_id)].count(State.SUCCEEDED) == 1


async def test_a_claim_that_is_never_answered_understandably_permits_nothing(
    line: Line, adapter: Adapter, store: Store
) -> None:
    execution_id = await permitted(adapter, store)
    line.lose("/claim", "garble", 1_000)
    async with Adapter(ControlCalls(line.socket), patience=0.5) as hasty:
        with pytest.raises(StoreUnavailable) as lost:
            async with hasty.claim(execution_id):
                raise AssertionError
    assert lost.value.reason == "control_answer"


async def test_renewals_whose_answers_are_lost_are_made_up_for(adapter: Adapter, line: Line, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        line.lose("/renew", "drop", 2)
        begun = time.monotonic()
        while time.monotonic() - begun < 1.5 * LEASE:
            await store.sweep(clock.now())
            await asyncio.sleep(0.1)
        assert not attempt.lease_lost
        attempt.succeed()
    assert len(line.lost) == 2
    assert (await adapter.get(execution_id)).state is State.SUCCEEDED


async def test_a_hold_goes_through_whatever_answer_is_lost(adapter: Adapter, line: Line, store: Store) -> None:
    for path in ("/v1/executions", "/hold", "/claim", "/finish"):
        line.lose(path)
    ran: list[int] = []
    held = asyncio.create_task(adapter.hold(a_call(), run=lambda amount: ran.append(amount)))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    line.lose(execution_id, "cut")
    await driving.approve(store, execution_id)
    assert (await held).state is State.SUCCEEDED
    assert ran == [4900]
    assert len(line.lost) == 5


@pytest.mark.parametrize(
    ("told", "altered"),
    [(b'"amount":4900', b'"amount":9900'), (b'"issue_refund"', b'"issue_everyt"'), (b"key-1", b"key-2")],
)
async def test_a_hold_does_not_run_another_call_than_the_one_it_saved(
    adapter: Adapter, line: Line, store: Store, told: bytes, altered: bytes
) -> None:
    line.altered["/claim"] = (told, altered)
    ran: list[int] = []
    held = asyncio.create_task(adapter.hold(a_call(key="key-1"), run=lambda amount: ran.append(amount)))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    await driving.approve(store, execution_id)
    outcome = await held
    assert (outcome.state, outcome.reason, ran) == (State.LAPSED, "digest_differs", [])


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        1e16,
        1e22,
        5e-324,
        1.7976931348623157e308,
        -0.0,
        10**500,
        0.1,
        "é\u2028\x7f\U0001f600",
        [[], {}, None, True],
    ],
)
async def test_a_hold_knows_its_own_call_whatever_it_holds(adapter: Adapter, store: Store, value: object) -> None:
    call = Call("issue_refund", {"b": value, "a": {"z": value, "y": [value]}})
    held = asyncio.create_task(adapter.hold(call, run=lambda **arguments: arguments))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    await driving.approve(store, execution_id)
    outcome = await held
    assert (outcome.state, outcome.result) == (State.SUCCEEDED, call.arguments)


async def test_past_its_limit_a_hold_whose_abandonment_is_not_answered_is_given_up(
    adapter: Adapter, line: Line, store: Store
) -> None:
    line.lose("/abandon", "drop", 2)
    outcome = await adapter.hold(a_call(), run=lambda amount: None, wait_limit=0.5)
    assert (outcome.state, outcome.reason) == (State.ABANDONED, "wait_limit")
    assert "could not be obtained" in outcome.explanation
    assert len(line.lost) == 2


async def test_a_claim_cancelled_before_its_answer_came_is_given_back(
    adapter: Adapter, line: Line, store: Store
) -> None:
    execution_id = await permitted(adapter, store)
    line.lose("/claim")
    line.delay["/claim"] = 0.3

    async def work() -> None:
        async with adapter.claim(execution_id):
            raise AssertionError

    claiming = asyncio.create_task(work())
    await driving.reached(store, execution_id, State.STARTED)
    await asyncio.sleep(0.4)  # the first answer is lost by now, and it is asked again
    claiming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claiming
    found = await store.execution(execution_id)
    assert (found.state, found.reason) == (State.LAPSED, "cancelled_at_start")


async def test_a_claim_answered_after_its_lease_begins_nothing(
    desk: Desk, database: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease counts from before the question: others may have taken the attempt for dead by now."""
    async with (
        Way("control", database, monkeypatch) as way,
        losing(await way.socket(0.5)) as line,
        Adapter(ControlCalls(line.socket)) as adapter,
    ):
        execution_id = await permitted(adapter, store)
        line.delay["/claim"] = 0.6
        async with adapter.claim(execution_id) as attempt:
            assert not attempt.permitted
        done = await adapter.get(execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "start_too_slow")


async def test_an_approval_that_has_ended_by_the_harnesss_own_clock_is_not_used(
    adapter: Adapter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = await permitted(adapter, store)
    ahead = SimpleNamespace(now=lambda: clock.now() + HOUR)
    monkeypatch.setattr("wakegate_adapter.control_calls.clock", ahead)
    async with adapter.claim(execution_id) as attempt:
        assert not attempt.permitted
    done = await adapter.get(execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "lapsed_at_start")
