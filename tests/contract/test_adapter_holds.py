"""A harness holds a call: it waits for the decision and runs the call itself, or gives it up."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest

from support import driving
from support.desk import approved
from support.tables import each_row
from support.ways import Way
from wakegate_adapter import Adapter, Call, CallRefused, HeldElsewhere, KeyConflict, State, WakegateError
from wakegate_adapter.callee import run_once
from wakegate_schema import clock
from wakegate_schema.calls.persistence import to_the_end
from wakegate_schema.clock import HOUR, SECOND
from wakegate_schema.store import Store, open_store


class CardDeclined(Exception):
    """What a refund desk raises when the refund did not happen."""


class Refunds:
    """A refund desk that counts what it did."""

    def __init__(self) -> None:
        self.done: list[int] = []

    async def issue(self, amount: int) -> dict[str, int]:
        """Refund."""
        self.done.append(amount)
        return {"refunded": amount}


@pytest.fixture
def refunds() -> Refunds:
    """A refund desk."""
    return Refunds()


@pytest.fixture
async def adapter(way: Way) -> AsyncIterator[Adapter]:
    """An adapter of its own whose leases and holds are short."""
    async with way.adapter(lease=way.short, hold=way.short, patience=10) as opened:
        yield opened


def a_call(**options: Any) -> Call:
    """A refund."""
    return Call("issue_refund", {"amount": 4900}, **options)


async def decide(store: Store, state: State = State.PERMITTED, **options: Any) -> str:
    """Decide the next refund that is saved; return its execution id."""
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    if state is State.PERMITTED:
        await driving.approve(store, execution_id, **options)
    else:
        await driving.close(store, execution_id, state, **options)
    return execution_id


async def test_an_approved_call_runs_once_and_its_result_comes_back(
    adapter: Adapter, store: Store, refunds: Refunds
) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=refunds.issue))
    execution_id = await decide(store)
    outcome = await held
    assert (outcome.execution_id, outcome.state, outcome.result) == (execution_id, State.SUCCEEDED, {"refunded": 4900})
    assert refunds.done == [4900]


@pytest.mark.parametrize("state", [State.DENIED, State.EXPIRED, State.CANCELLED, State.REFUSED, State.UNOBTAINED])
async def test_without_an_approval_nothing_runs_and_the_harness_learns_why(
    adapter: Adapter, store: Store, refunds: Refunds, state: State
) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=refunds.issue))
    await decide(store, state, note="too much")
    outcome = await held
    assert (outcome.state, outcome.note) == (state, "too much")
    assert ("denied" in outcome.explanation) == (state is State.DENIED)
    assert refunds.done == []


async def test_past_the_limit_the_call_is_abandoned_and_not_called_denied(
    adapter: Adapter, store: Store, refunds: Refunds
) -> None:
    outcome = await adapter.hold(a_call(), run=refunds.issue, wait_limit=0.3)
    assert (outcome.state, outcome.reason) == (State.ABANDONED, "wait_limit")
    assert "could not be obtained" in outcome.explanation
    assert "denied" not in outcome.explanation
    assert refunds.done == []


async def test_a_submitted_call_given_up_at_the_limit_owes_its_cancel(
    adapter: Adapter, store: Store, refunds: Refunds
) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=refunds.issue, wait_limit=1.5))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    await driving.submit(store, execution_id)
    assert (await held).state is State.ABANDONED
    assert (await store.execution(execution_id)).cancel_due_at is not None


async def test_a_waiting_hold_is_kept(way: Way, adapter: Adapter, store: Store, refunds: Refunds) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=refunds.issue))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    for _ in range(10):
        await asyncio.sleep(way.short / 5)
        assert (await store.sweep(clock.now())).abandoned == ()
    await driving.approve(store, execution_id)
    assert (await held).state is State.SUCCEEDED


async def test_a_lost_hold_abandons_the_call(adapter: Adapter, store: Store, refunds: Refunds) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=refunds.issue))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    assert (await store.sweep(clock.now() + HOUR)).abandoned == (execution_id,)
    outcome = await held
    assert (outcome.state, outcome.reason) == (State.ABANDONED, "hold_lost")
    assert "could not be obtained" in outcome.explanation
    assert refunds.done == []


async def test_a_hold_that_ran_out_unseen_does_not_run_a_permitted_call(
    way: Way, store: Store, refunds: Refunds, database: str
) -> None:
    """The harness was stopped for longer than its hold lasts, and nobody has swept yet."""
    async with way.adapter(hold=0.2) as stopped:
        held = asyncio.create_task(stopped.hold(a_call(), run=refunds.issue))
        execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
        # From here the whole event loop stands still, as under SIGSTOP.
        thread = threading.Thread(target=lambda: asyncio.run(approve_elsewhere(database, execution_id)))
        thread.start()
        thread.join()
        time.sleep(0.3)
        outcome = await held
    assert (outcome.state, outcome.reason) == (State.ABANDONED, "hold_lost")
    assert refunds.done == []


async def approve_elsewhere(database: str, execution_id: str) -> None:
    """Approve a call from another event loop."""
    async with await open_store(database, mode="use") as store:
        await driving.approve(store, execution_id)


async def test_an_interrupted_hold_abandons_the_call(adapter: Adapter, store: Store, refunds: Refunds) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=refunds.issue))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    found = await store.execution(execution_id)
    assert (found.state, found.reason) == (State.ABANDONED, "hold_interrupted")


async def test_a_hold_interrupted_at_any_moment_leaves_nothing_to_run(
    adapter: Adapter, store: Store, refunds: Refunds
) -> None:
    for pause in range(0, 20, 2):
        call = a_call()
        held = asyncio.create_task(adapter.hold(call, run=refunds.issue))
        await asyncio.sleep(pause / 2_000)
        held.cancel()
        with pytest.raises(asyncio.CancelledError):
            await held
    states = [execution.state for _, execution in await store.executions()]
    assert set(states) <= {State.ABANDONED}
    assert refunds.done == []


async def test_an_interruption_while_the_call_runs_leaves_it_in_doubt(adapter: Adapter, store: Store) -> None:
    running = asyncio.Event()

    async def run(amount: int) -> None:
        running.set()
        await asyncio.sleep(60)

    held = asyncio.create_task(adapter.hold(a_call(), run=run))
    execution_id = await decide(store)
    await running.wait()
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    found = await store.execution(execution_id)
    assert (found.state, found.reason) == (State.IN_DOUBT, "tool_cancelled")


async def test_a_thread_that_an_interruption_leaves_running_gives_signs_of_life_until_its_end(
    adapter: Adapter, store: Store
) -> None:
    running, end = threading.Event(), threading.Event()

    def run(amount: int) -> None:
        running.set()
        end.wait(60)

    held = asyncio.create_task(adapter.hold(a_call(), run=run))
    execution_id = await decide(store)
    await asyncio.to_thread(running.wait, 60)
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    found = await store.execution(execution_id)
    assert (found.state, found.reason) == (State.IN_DOUBT, "tool_still_running")
    signs = {found.lease_until}
    async with asyncio.timeout(20):
        while len(signs) < 3:
            await asyncio.sleep(0.05)
            signs.add((await store.execution(execution_id)).lease_until)
    end.set()
    await asyncio.sleep(0.3)
    last = (await store.execution(execution_id)).lease_until
    await asyncio.sleep(1.0)
    assert (await store.execution(execution_id)).lease_until == last


async def test_a_declared_failure_did_not_happen(adapter: Adapter, store: Store) -> None:
    async def run(amount: int) -> None:
        raise CardDeclined("no funds")

    held = asyncio.create_task(adapter.hold(a_call(), run=run, failures=(CardDeclined,)))
    await decide(store)
    outcome = await held
    assert (outcome.state, outcome.error) == (State.FAILED, "CardDeclined: no funds")


@pytest.mark.parametrize("error", [CardDeclined("secret"), SystemExit(3), asyncio.CancelledError()])
@pytest.mark.parametrize("in_a_thread", [False, True])
async def test_any_other_exception_leaves_the_call_in_doubt(
    adapter: Adapter, store: Store, error: BaseException, in_a_thread: bool
) -> None:
    async def run_async(amount: int) -> None:
        raise error

    def run_sync(amount: int) -> None:
        raise error

    held = asyncio.create_task(adapter.hold(a_call(), run=run_sync if in_a_thread else run_async))
    await decide(store)
    outcome = await held
    assert outcome.state is State.IN_DOUBT
    assert "secret" not in str(outcome.error)


async def test_a_sync_callable_runs_in_a_thread_while_the_lease_is_kept(
    way: Way, adapter: Adapter, store: Store
) -> None:
    threads: list[threading.Thread] = []

    def run(amount: int) -> int:
        threads.append(threading.current_thread())
        time.sleep(2 * way.short)
        return amount

    held = asyncio.create_task(adapter.hold(a_call(), run=run))
    execution_id = await decide(store)
    await driving.reached(store, execution_id, State.STARTED)
    while not held.done():
        await store.sweep(clock.now())
        await asyncio.sleep(0.1)
    assert (await held).result == 4900
    assert threads[0] is not threading.main_thread()


class Desks:
    """An object that is called, sync or async."""

    async def __call__(self, amount: int) -> int:
        return amount

    def issue(self, amount: int, currency: str) -> int:
        """With more parameters than the call has arguments."""
        return amount


async def later(amount: int) -> int:
    """A coroutine function behind a plain one."""
    return amount


@pytest.mark.parametrize(
    "run",
    [Desks(), partial(Desks().issue, currency="EUR"), lambda amount: amount, lambda **given: later(**given), later],
    ids=["async object", "partial", "lambda", "returns an awaitable", "function"],
)
async def test_any_kind_of_callable_runs(adapter: Adapter, store: Store, run: Callable[..., Any]) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=run))
    await decide(store)
    assert (await held).result == 4900


async def test_a_result_that_is_no_json_still_counts_as_happened(adapter: Adapter, store: Store) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=lambda amount: {amount}))
    await decide(store)
    outcome = await held
    assert (outcome.state, outcome.reason, outcome.result) == (State.SUCCEEDED, "result_not_json", None)


async def test_an_approval_that_is_nearly_over_does_not_run(adapter: Adapter, store: Store, refunds: Refunds) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=refunds.issue))
    await decide(store, approval=approved(valid=int(1.5 * SECOND)))
    outcome = await held
    assert (outcome.state, outcome.reason) == (State.ABANDONED, "too_late")
    assert refunds.done == []


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_harness_held_up_right_before_the_call_does_not_begin_it(
    way: Way, adapter: Adapter, store: Store, refunds: Refunds, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def after_a_lease(*args: Any) -> Any:
        time.sleep(way.short + 0.2)  # as a stopped process, or a blocked loop; others may take the attempt for dead
        return await run_once(*args)

    monkeypatch.setattr("wakegate_adapter.held_run.run_once", after_a_lease)
    run = refunds.issue if kind == "async" else lambda amount: refunds.done.append(amount)
    outcome, _ = await asyncio.gather(adapter.hold(a_call(), run=run, wait_limit=30), decide(store))
    assert (outcome.state, outcome.reason) == (State.LAPSED, "start_too_slow")
    assert refunds.done == []


async def test_a_call_that_has_run_is_returned_and_not_run_again(
    adapter: Adapter, store: Store, refunds: Refunds
) -> None:
    call = a_call(key="k")
    held = asyncio.create_task(adapter.hold(call, run=refunds.issue))
    await decide(store)
    first = await held
    again = await adapter.hold(call, run=refunds.issue)
    assert again == first
    assert refunds.done == [4900]


async def test_a_hold_tried_again_after_an_error_does_not_run_the_call_again(adapter: Adapter, store: Store) -> None:
    ran: list[int] = []

    async def run(amount: int) -> None:
        ran.append(amount)
        raise ConnectionResetError

    call = a_call(key="k")
    held = asyncio.create_task(adapter.hold(call, run=run))
    await decide(store)
    assert (await held).state is State.IN_DOUBT
    for _ in range(2):
        assert (await adapter.hold(call, run=run)).state is State.IN_DOUBT
    assert ran == [4900]


async def test_a_call_that_somebody_else_holds_is_left_to_them(
    adapter: Adapter, store: Store, refunds: Refunds
) -> None:
    call = a_call(key="k")
    held = asyncio.create_task(adapter.hold(call, run=refunds.issue))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    with pytest.raises(HeldElsewhere, match=execution_id):
        await adapter.hold(call, run=refunds.issue)
    await driving.approve(store, execution_id)
    assert (await held).state is State.SUCCEEDED
    assert refunds.done == [4900]


async def test_a_suspended_call_is_not_held(adapter: Adapter, refunds: Refunds) -> None:
    call = a_call(key="k")
    await adapter.suspend(call, runs="harness")
    with pytest.raises(HeldElsewhere):
        await adapter.hold(call, run=refunds.issue)
    with pytest.raises(KeyConflict):
        await adapter.hold(Call("issue_refund", {"amount": 1}, key="k"), run=refunds.issue)


async def test_a_held_call_that_somebody_else_claims_is_not_run_here(
    adapter: Adapter, store: Store, refunds: Refunds, database: str
) -> None:
    held = asyncio.create_task(adapter.hold(a_call(), run=refunds.issue))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    waiting = await driving.submit(store, execution_id)
    now = clock.now()
    async with asyncio.TaskGroup() as both:
        both.create_task(store.permit(waiting.lease, approved(), now))
        claimed = both.create_task(store.claim(execution_id, "thief", now, now + HOUR, 0))
    outcome = await held
    stolen = type(claimed.result()).__name__ == "Claimed"
    assert refunds.done == ([] if stolen else [4900])
    assert outcome.state is (State.STARTED if stolen else State.SUCCEEDED)


@each_row("wait_limit", [0, -1, float("nan"), float("inf")])
async def test_a_limit_that_is_no_time_is_refused(adapter: Adapter, store: Store, wait_limit: float) -> None:
    with pytest.raises(CallRefused, match=r"^wait_limit: "):
        await adapter.hold(a_call(), run=print, wait_limit=wait_limit)
    assert await store.executions() == []


async def test_a_callable_that_does_not_take_the_arguments_is_refused_before_anything_is_saved(
    adapter: Adapter, store: Store
) -> None:
    with pytest.raises(CallRefused, match=r"^run: "):
        await adapter.hold(a_call(), run=lambda price: price)
    assert await store.executions() == []


async def test_what_runs_to_the_end_is_not_cut_short_and_its_error_is_not_lost() -> None:
    ended: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.1)
        ended.append("work")
        raise WakegateError("lost?")

    task = asyncio.create_task(to_the_end(work()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as cancelled:
        await task
    assert ended == ["work"]
    assert isinstance(cancelled.value.__cause__, WakegateError)
