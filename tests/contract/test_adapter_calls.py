"""A harness saves calls and learns what became of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support import driving
from support.desk import Desk, new_id
from support.tables import each_row
from support.ways import Way
from wakegate_adapter import (
    Adapter,
    AdapterClosed,
    Call,
    CallRefused,
    InstanceUnclear,
    KeyConflict,
    NotAllowed,
    NotFound,
    State,
    StoreMissing,
    WaitTimeout,
    WakegateError,
)
from wakegate_schema import clock
from wakegate_schema.store import Store


@pytest.fixture
async def adapter(way: Way) -> AsyncIterator[Adapter]:
    """An adapter of its own, as another process would have it."""
    async with way.adapter() as opened:
        yield opened


async def test_opening_where_no_store_is_makes_none(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        await Adapter.open(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


async def test_the_environment_says_which_store_to_open(
    desk: Desk, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WAKEGATE_CONTROL", raising=False)
    monkeypatch.setenv("WAKEGATE_DATABASE", database)
    async with await Adapter.open() as opened:
        assert (await opened.suspend(Call("t", {}))).created


async def test_a_suspended_call_is_on_record_exactly(adapter: Adapter, store: Store, desk: Desk) -> None:
    call = Call(
        "issue_refund", {"amount": 4900}, key="run-7:call-2", instance="refund-desk", timeout="45m",
        reasoning="charged twice", context={}, group="turn-1", version="3",
    )  # fmt: skip
    ticket = await adapter.suspend(call, runs="harness", wake="my-harness")
    saved = await store.execution(ticket.execution_id)
    assert ticket.created
    assert (ticket.key, ticket.instance_id, ticket.state) == ("run-7:call-2", desk.instance_id, State.SAVED)
    assert (saved.provider, saved.instance_id, saved.idempotency_key) == (desk.provider, desk.instance_id, call.key)
    assert (saved.tool, saved.arguments, saved.context) == ("issue_refund", b'{"amount":4900}', b"{}")
    assert (saved.reasoning, saved.timeout, saved.group, saved.tool_version) == ("charged twice", "45m", "turn-1", "3")
    assert (saved.runs, saved.wake, saved.hold_id, saved.hold_until) == ("harness", "my-harness", None, None)


async def test_a_suspended_call_is_there_after_the_process_is_gone(way: Way) -> None:
    async with way.adapter() as first:
        ticket = await first.suspend(Call("t", {"a": 1}))
    async with way.adapter() as second:
        assert (await second.get(ticket.execution_id)).state is State.SAVED


async def test_the_same_key_and_call_give_the_same_ticket(adapter: Adapter) -> None:
    call = Call("t", {"a": 1}, key="k")
    first = await adapter.suspend(call)
    again = await adapter.suspend(Call("t", {"a": 1}, key="k"))
    assert again.execution_id == first.execution_id
    assert (first.created, again.created) == (True, False)


async def test_the_same_key_leads_to_what_became_of_the_call_long_after(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {"a": 1}, key="k"))
    await driving.run(store, ticket.execution_id)
    await store.prune(clock.now() + 400 * clock.DAY, clock.now() + 400 * clock.DAY)
    again = await adapter.suspend(Call("t", {"a": 1}, key="k"))
    assert (again.execution_id, again.state, again.created) == (ticket.execution_id, State.SUCCEEDED, False)


async def test_the_same_key_leads_there_also_when_its_instance_is_retired(
    adapter: Adapter, store: Store, desk: Desk
) -> None:
    ticket = await adapter.suspend(Call("t", {}, key="k", instance="refund-desk"))
    await store.retire_instance(desk.provider, desk.instance_id, "operator", clock.now())
    again = await adapter.suspend(Call("t", {}, key="k", instance="refund-desk"))
    assert (again.execution_id, again.state) == (ticket.execution_id, State.ABANDONED)
    with pytest.raises(NotAllowed, match="retired"):
        await adapter.suspend(Call("t", {}, instance="refund-desk"))


@each_row(
    "other",
    [
        Call("u", {"a": 1}, key="k", context={}),
        Call("t", {"a": 1.0}, key="k", context={}),
        Call("t", {"a": True}, key="k", context={}),
        Call("t", {"a": 1}, key="k"),
        Call("t", {"a": 1}, key="k", context={}, reasoning="why"),
        Call("t", {"a": 1}, key="k", context={}, timeout="31m"),
        Call("t", {"a": 1}, key="k", context={}, group="g"),
    ],
)
async def test_the_same_key_for_anything_else_is_a_conflict(adapter: Adapter, other: Call) -> None:
    await adapter.suspend(Call("t", {"a": 1}, key="k", context={}))
    with pytest.raises(KeyConflict):
        await adapter.suspend(other)


async def test_one_key_suspended_fifty_times_at_once_is_saved_once(adapter: Adapter) -> None:
    call = Call("t", {})
    tickets = await asyncio.gather(*(adapter.suspend(call) for _ in range(50)))
    assert len({ticket.execution_id for ticket in tickets}) == 1
    assert sum(ticket.created for ticket in tickets) == 1


@each_row("number", [1, 1.0, True, 2**53 + 1, 123456789012345678901234567890, -0.0, 0.1])
async def test_numbers_reach_the_record_and_the_harness_exactly(adapter: Adapter, store: Store, number: float) -> None:
    ticket = await adapter.suspend(Call("t", {"n": number}), runs="harness")
    await driving.approve(store, ticket.execution_id)
    async with adapter.claim(ticket.execution_id) as attempt:
        given = attempt.arguments["n"]
        attempt.succeed(given)
    resolution = await adapter.get(ticket.execution_id)
    for back in (given, resolution.result):
        assert type(back) is type(number)
        assert repr(back) == repr(number)


async def test_a_second_instance_makes_the_first_one_unclear(adapter: Adapter, store: Store) -> None:
    await adapter.suspend(Call("t", {}))
    await Desk(store, instance_id=new_id(), name="other-desk").open()
    with pytest.raises(InstanceUnclear, match="other-desk, refund-desk"):
        await adapter.suspend(Call("t", {}))
    assert await adapter.suspend(Call("t", {}, instance="other-desk"))


@pytest.mark.by_adapter
@pytest.mark.parametrize("wake", ["", "My Harness", "x/../y", "a" * 64, "none ", 3])
async def test_a_wake_name_in_another_form_is_refused(adapter: Adapter, wake: Any) -> None:
    with pytest.raises(CallRefused, match=r"^wake: "):
        await adapter.suspend(Call("t", {}), wake=wake)


@pytest.mark.by_adapter
async def test_only_a_worker_or_a_harness_runs_a_call(adapter: Adapter) -> None:
    with pytest.raises(CallRefused, match=r"^runs: "):
        await adapter.suspend(Call("t", {}), runs="anybody")  # type: ignore[arg-type]


async def test_getting_tells_where_an_unresolved_call_stands(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}, key="k", group="g"))
    saved = await adapter.get(ticket.execution_id)
    assert (saved.state, saved.id) == (State.SAVED, f"{ticket.execution_id}_1")
    await driving.submit(store, ticket.execution_id)
    waiting = await adapter.get(ticket.execution_id)
    assert (waiting.state, waiting.key, waiting.group) == (State.WAITING, "k", "g")
    assert waiting.request_id is not None


async def test_a_resolution_has_the_id_of_its_wake(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}), wake="my-harness")
    await driving.close(store, ticket.execution_id, State.DENIED, note="too much")
    resolution = await adapter.get(ticket.execution_id)
    (wake,) = await store.wakes(ticket.execution_id)
    assert resolution.id == wake.wake_id
    assert (resolution.state, resolution.note) == (State.DENIED, "too much")
    assert "denied" in resolution.explanation


@each_row("execution_id", ["", "run-7", "\ud800", None, 7])
async def test_what_is_no_execution_id_is_not_found_at_once(adapter: Adapter, execution_id: Any) -> None:
    for use in (
        adapter.get(execution_id),
        adapter.wait(execution_id),
        adapter.take(execution_id, "c"),
        adapter.abandon(execution_id, "r"),
    ):
        with pytest.raises(NotFound):
            await use
    with pytest.raises(NotFound):
        adapter.claim(execution_id)


async def test_an_execution_id_is_taken_in_either_case(adapter: Adapter) -> None:
    ticket = await adapter.suspend(Call("t", {}))
    assert (await adapter.get(ticket.execution_id.upper())).execution_id == ticket.execution_id


async def test_an_unknown_execution_is_said_to_be_unknown(adapter: Adapter) -> None:
    with pytest.raises(NotFound):
        await adapter.get(new_id())
    with pytest.raises(NotFound):
        await adapter.wait(new_id())
    with pytest.raises(NotFound):
        await adapter.abandon(new_id(), "gone")
    with pytest.raises(NotFound):
        async with adapter.claim(new_id()):
            pass


async def test_waiting_ends_when_the_call_is_resolved(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}))
    waiting = asyncio.create_task(adapter.wait(ticket.execution_id, timeout=10))
    await driving.run(store, ticket.execution_id)
    resolution = await waiting
    assert (resolution.state, resolution.result) == (State.SUCCEEDED, {"refund": "r-1"})


async def test_waiting_goes_on_while_a_worker_runs_the_call(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}))
    await driving.start(store, ticket.execution_id)
    with pytest.raises(WaitTimeout):
        await adapter.wait(ticket.execution_id, timeout=0.2)


async def test_waiting_returns_when_the_harness_may_run_the_call(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}), runs="harness")
    waiting = asyncio.create_task(adapter.wait(ticket.execution_id, timeout=10))
    await driving.approve(store, ticket.execution_id)
    assert (await waiting).state is State.PERMITTED


async def test_waiting_returns_when_nobody_knows(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}))
    await driving.start(store, ticket.execution_id, lasting=1)
    waiting = asyncio.create_task(adapter.wait(ticket.execution_id, timeout=10))
    await store.sweep(clock.now() + clock.SECOND)
    assert (await waiting).state is State.IN_DOUBT


async def test_a_wait_that_runs_out_gives_nothing_up(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}))
    with pytest.raises(WaitTimeout, match=r"is saved after 0\.1 s; it goes on"):
        await adapter.wait(ticket.execution_id, timeout=0.1)
    assert (await store.execution(ticket.execution_id)).state is State.SAVED


async def test_waiting_no_time_looks_once(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}))
    with pytest.raises(WaitTimeout):
        await adapter.wait(ticket.execution_id, timeout=0)
    await driving.run(store, ticket.execution_id)
    assert (await adapter.wait(ticket.execution_id, timeout=0)).state is State.SUCCEEDED


@pytest.mark.by_adapter
@pytest.mark.parametrize("timeout", [-1, float("nan")])
async def test_a_timeout_that_is_no_time_is_refused(adapter: Adapter, timeout: float) -> None:
    with pytest.raises(CallRefused, match=r"^timeout: "):
        await adapter.wait(new_id(), timeout=timeout)


async def test_a_cancelled_wait_changes_nothing_and_leaves_others_waiting(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}))
    cancelled, other = (asyncio.create_task(adapter.wait(ticket.execution_id, timeout=10)) for _ in range(2))
    await asyncio.sleep(0.1)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    assert (await store.execution(ticket.execution_id)).state is State.SAVED
    await driving.run(store, ticket.execution_id)
    assert (await other).state is State.SUCCEEDED


async def test_a_hundred_waiters_are_all_told(adapter: Adapter, store: Store) -> None:
    tickets = [await adapter.suspend(Call("t", {"n": n}), runs="harness") for n in range(5)]
    waiting = [
        asyncio.create_task(adapter.wait(ticket.execution_id, timeout=20)) for ticket in tickets for _ in range(20)
    ]
    for ticket in tickets:
        await adapter.abandon(ticket.execution_id, "enough")
    assert {resolution.state for resolution in await asyncio.gather(*waiting)} == {State.ABANDONED}


async def test_an_abandoned_call_never_starts(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}), runs="harness")
    await driving.approve(store, ticket.execution_id)
    resolution = await adapter.abandon(ticket.execution_id, "conversation closed")
    assert (resolution.state, resolution.reason) == (State.ABANDONED, "conversation closed")
    async with adapter.claim(ticket.execution_id) as attempt:
        assert not attempt.permitted


async def test_abandoning_twice_or_too_late_changes_nothing(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}))
    await driving.run(store, ticket.execution_id)
    assert (await adapter.abandon(ticket.execution_id, "late")).state is State.SUCCEEDED


async def test_a_started_call_cannot_be_abandoned(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}))
    await driving.start(store, ticket.execution_id)
    with pytest.raises(NotAllowed, match="may have happened"):
        await adapter.abandon(ticket.execution_id, "changed my mind")


@pytest.mark.by_adapter
@pytest.mark.parametrize("reason", ["", " padded", "two\nlines", "x" * 256, None])
async def test_a_reason_in_another_form_is_refused(adapter: Adapter, reason: Any) -> None:
    with pytest.raises(CallRefused, match=r"^reason: "):
        await adapter.abandon(new_id(), reason)


async def test_a_closed_adapter_says_so(way: Way) -> None:
    adapter = Adapter(await way.calls())
    await adapter.close()
    await adapter.close()
    for use in (
        adapter.suspend(Call("t", {})),
        adapter.get(new_id()),
        adapter.wait(new_id()),
        adapter.abandon(new_id(), "r"),
        adapter.hold(Call("t", {}), run=lambda: None),
    ):
        with pytest.raises(AdapterClosed):
            await use
    with pytest.raises(AdapterClosed):
        adapter.claim(new_id())


async def test_closing_ends_a_wait_with_an_error(way: Way) -> None:
    adapter = Adapter(await way.calls())
    ticket = await adapter.suspend(Call("t", {}))
    waiting = asyncio.create_task(adapter.wait(ticket.execution_id, timeout=10))
    await asyncio.sleep(0.1)
    await adapter.close()
    with pytest.raises(WakegateError):
        await waiting


async def test_what_is_saved_is_what_stdlib_json_reads_back(adapter: Adapter, store: Store) -> None:
    arguments = {"ö": "\U0001f600 \u0000 \u2028", "n": [1e22, -7, None, {"x": False}]}
    ticket = await adapter.suspend(Call("t", arguments))
    saved = await store.execution(ticket.execution_id)
    assert saved.arguments is not None
    assert json.loads(saved.arguments) == arguments
