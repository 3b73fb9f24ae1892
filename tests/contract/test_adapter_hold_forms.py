"""A call is held by hand, or as a decorated function, under the same rules as by `hold`."""

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import pytest

from support import driving
from support.desk import approved
from support.ways import Way
from wakegate_adapter import Adapter, Call, CallRefused, HeldElsewhere, NotPermitted, OutcomeTold, State
from wakegate_schema import clock
from wakegate_schema.clock import HOUR, SECOND
from wakegate_schema.store import Store

pytestmark = pytest.mark.by_adapter


class CardDeclined(Exception):
    """The refund did not happen."""


@pytest.fixture
async def adapter(way: Way) -> AsyncIterator[Adapter]:
    """An adapter of its own whose leases and holds are short."""
    async with way.adapter(lease=way.short, hold=way.short, patience=10) as opened:
        yield opened


def a_call(**options: Any) -> Call:
    """A refund."""
    return Call("issue_refund", {"amount": 4900}, **options)


async def by_hand(adapter: Adapter, call: Call, wait_limit: float = 60) -> tuple[bool, str, str | None]:
    """Hold a call by hand and refund; return whether that was permitted, what was said, and why not."""
    async with adapter.holding(call, wait_limit) as attempt:
        if attempt.permitted:
            attempt.succeed(attempt.arguments["amount"])
        return attempt.permitted, attempt.explanation, attempt.refusal


async def decide(store: Store, state: State = State.PERMITTED, **options: Any) -> str:
    """Decide the next refund that is saved; return its execution id."""
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    if state is State.PERMITTED:
        await driving.approve(store, execution_id, **options)
    else:
        await driving.close(store, execution_id, state, **options)
    return execution_id


# By hand


async def test_a_call_held_by_hand_runs_inside_and_what_is_told_is_on_record(adapter: Adapter, store: Store) -> None:
    held = asyncio.create_task(by_hand(adapter, a_call()))
    execution_id = await decide(store)
    assert (await held)[0]
    found = await store.execution(execution_id)
    assert (found.state, found.result) == (State.SUCCEEDED, b"4900")


async def test_a_denied_call_held_by_hand_may_not_run(adapter: Adapter, store: Store) -> None:
    held = asyncio.create_task(by_hand(adapter, a_call()))
    await decide(store, State.DENIED, note="too much")
    permitted, explanation, refusal = await held
    assert (permitted, refusal) == (False, "denied")
    assert "too much" in explanation


async def test_past_the_limit_a_call_held_by_hand_is_given_up_and_not_called_denied(adapter: Adapter) -> None:
    async with adapter.holding(a_call(), wait_limit=0.3) as attempt:
        assert not attempt.permitted
        assert (attempt.resolution.state, attempt.resolution.reason) == (State.ABANDONED, "wait_limit")
        assert "could not be obtained" in attempt.explanation
        assert "denied" not in attempt.explanation
        with pytest.raises(NotPermitted):
            _ = attempt.arguments
        with pytest.raises(NotPermitted):
            attempt.succeed()


async def test_too_late_an_approval_gives_a_call_held_by_hand_up(adapter: Adapter, store: Store) -> None:
    held = asyncio.create_task(by_hand(adapter, a_call()))
    execution_id = await decide(store, approval=approved(valid=int(1.5 * SECOND)))
    assert (await held)[::2] == (False, "too_late")
    found = await store.execution(execution_id)
    assert (found.state, found.reason, found.started_at) == (State.ABANDONED, "too_late", None)


async def test_a_lost_hold_does_not_enter_as_permitted(adapter: Adapter, store: Store) -> None:
    held = asyncio.create_task(by_hand(adapter, a_call()))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    assert (await store.sweep(clock.now() + HOUR)).abandoned == (execution_id,)
    permitted, explanation, _ = await held
    assert not permitted
    assert "could not be obtained" in explanation


async def test_leaving_by_an_exception_leaves_a_call_held_by_hand_in_doubt(adapter: Adapter, store: Store) -> None:
    async def work() -> None:
        async with adapter.holding(a_call()) as attempt:
            assert attempt.permitted
            raise ZeroDivisionError

    held = asyncio.create_task(work())
    execution_id = await decide(store)
    with pytest.raises(ZeroDivisionError):
        await held
    found = await store.execution(execution_id)
    assert (found.state, found.reason) == (State.IN_DOUBT, "tool_raised")


async def test_leaving_without_a_word_leaves_a_call_held_by_hand_in_doubt(adapter: Adapter, store: Store) -> None:
    async def silent() -> None:
        async with adapter.holding(a_call()):
            pass

    held = asyncio.create_task(silent())
    execution_id = await decide(store)
    await held
    assert (await store.execution(execution_id)).reason == "outcome_not_told"


async def test_the_first_word_about_a_call_held_by_hand_stands(adapter: Adapter, store: Store) -> None:
    async def twice() -> None:
        async with adapter.holding(a_call()) as attempt:
            attempt.fail("declined")
            with pytest.raises(OutcomeTold):
                attempt.succeed()

    held = asyncio.create_task(twice())
    execution_id = await decide(store)
    await held
    assert (await store.execution(execution_id)).state is State.FAILED


@pytest.mark.parametrize("moment", ["waiting", "running"])
async def test_an_interruption_gives_it_up_or_leaves_it_in_doubt(adapter: Adapter, store: Store, moment: str) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with adapter.holding(a_call()):
            inside.set()
            await asyncio.sleep(60)

    held = asyncio.create_task(work())
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    if moment == "running":
        await driving.approve(store, execution_id)
        await inside.wait()
    held.cancel()
    with pytest.raises(asyncio.CancelledError):
        await held
    found = await store.execution(execution_id)
    expected = (State.ABANDONED, "hold_interrupted") if moment == "waiting" else (State.IN_DOUBT, "tool_cancelled")
    assert (found.state, found.reason) == expected


async def test_a_long_run_by_hand_keeps_its_lease(way: Way, adapter: Adapter, store: Store) -> None:
    async def work() -> bool:
        async with adapter.holding(a_call()) as attempt:
            await asyncio.sleep(2 * way.short)
            attempt.succeed()
            return attempt.lease_lost

    held = asyncio.create_task(work())
    execution_id = await decide(store)
    while not held.done():
        await store.sweep(clock.now())
        await asyncio.sleep(0.1)
    assert not await held
    assert (await store.execution(execution_id)).state is State.SUCCEEDED


async def test_a_call_that_somebody_else_holds_is_not_entered(adapter: Adapter, store: Store) -> None:
    held = asyncio.create_task(by_hand(adapter, a_call(key="k")))
    execution_id = (await driving.next_saved(store, "issue_refund")).execution_id
    with pytest.raises(HeldElsewhere, match=execution_id):
        await by_hand(adapter, a_call(key="k"))
    await driving.approve(store, execution_id)
    assert (await held)[0]
    assert await by_hand(adapter, a_call(key="k")) == (False, "The call was approved and ran.", "succeeded")


# As a decorated function


async def test_a_held_function_runs_once_and_gives_its_resolution(adapter: Adapter, store: Store) -> None:
    ran: list[tuple[int, str]] = []

    @adapter.held(instance="refund-desk", timeout="45m", tool="issue_refund", version="2")
    async def refund(amount: int, currency: str = "EUR") -> dict[str, int]:
        """Refund."""
        ran.append((amount, currency))
        return {"refunded": amount}

    held = asyncio.create_task(refund(4900))
    execution_id = await decide(store)
    outcome = await held
    assert (outcome.state, outcome.result, ran) == (State.SUCCEEDED, {"refunded": 4900}, [(4900, "EUR")])
    saved = await store.execution(execution_id)
    assert saved.arguments == b'{"amount":4900,"currency":"EUR"}', "the defaults are part of what is approved"
    assert (saved.timeout, saved.tool_version, saved.tool) == ("45m", "2", "issue_refund")
    assert (refund.__name__, refund.__doc__) == ("refund", "Refund.")


async def test_a_sync_function_is_held_under_its_own_name_and_in_a_thread(adapter: Adapter, store: Store) -> None:
    @adapter.held(failures=(CardDeclined,))
    def issue_refund(*, amount: int) -> None:
        raise CardDeclined("no funds")

    held = asyncio.create_task(issue_refund(amount=1))
    await decide(store)
    outcome = await held
    assert (outcome.state, outcome.error, outcome.tool) == (State.FAILED, "CardDeclined: no funds", "issue_refund")


async def test_a_key_makes_a_repeat_of_a_held_function_find_what_became_of_it(adapter: Adapter, store: Store) -> None:
    ran: list[int] = []

    @adapter.held()
    async def issue_refund(amount: int) -> None:
        ran.append(amount)

    keyed = issue_refund.calling(key="run-7:call-5", reasoning="charged twice", context={"order": 7}, group="turn-1")
    held = asyncio.create_task(keyed(4900))
    execution_id = await decide(store)
    first = await held
    saved = await store.execution(execution_id)
    assert (saved.idempotency_key, saved.reasoning, saved.context) == ("run-7:call-5", "charged twice", b'{"order":7}')
    assert await keyed(4900) == first
    assert (saved.group, ran) == ("turn-1", [4900])


async def test_a_held_function_past_its_limit_is_given_up_and_does_not_run(adapter: Adapter) -> None:
    ran: list[int] = []

    @adapter.held(wait_limit=0.3)
    async def issue_refund(amount: int) -> None:
        ran.append(amount)

    outcome = await issue_refund(1)
    assert (outcome.state, outcome.reason, ran) == (State.ABANDONED, "wait_limit", [])
    assert "could not be obtained" in outcome.explanation


async def test_an_exception_of_a_held_function_is_not_raised_and_leaves_it_in_doubt(
    adapter: Adapter, store: Store
) -> None:
    @adapter.held()
    async def issue_refund(amount: int) -> None:
        raise ConnectionResetError("secret")

    held = asyncio.create_task(issue_refund(1))
    await decide(store)
    outcome = await held
    assert outcome.state is State.IN_DOUBT
    assert "secret" not in str(outcome.error)


async def test_what_a_held_function_does_not_take_is_refused_before_anything_is_saved(
    adapter: Adapter, store: Store
) -> None:
    @adapter.held()
    async def issue_refund(amount: Any) -> None:
        raise AssertionError

    with pytest.raises(CallRefused) as refused:
        await issue_refund(1, 2)  # type: ignore[call-arg]
    assert refused.value.reason == "arguments_do_not_fit"
    with pytest.raises(CallRefused, match=r"^arguments\.amount: a Decimal is not JSON"):
        await issue_refund(Decimal(1))
    assert await store.executions() == []


async def test_a_function_whose_arguments_have_no_names_cannot_be_held(adapter: Adapter) -> None:
    def positional(amount: int, /) -> None: ...
    def many(*amounts: int) -> None: ...
    def named(**amounts: int) -> None: ...

    for function in (positional, many, named):
        with pytest.raises(CallRefused, match=r"^run: every argument must have a name"):
            adapter.held()(function)
    with pytest.raises(CallRefused, match=r"^failures: "):
        adapter.held(failures=[CardDeclined])  # type: ignore[arg-type]
    with pytest.raises(CallRefused, match=r"^wait_limit: "):
        adapter.holding(a_call(), wait_limit=0)


async def test_a_generator_is_refused_because_calling_it_runs_nothing(adapter: Adapter, store: Store) -> None:
    def generator(amount: int) -> Iterator[int]:
        yield amount

    async def asynchronous(amount: int) -> AsyncIterator[int]:
        yield amount

    @functools.wraps(generator)
    def wrapped(amount: int) -> Iterator[int]:
        return generator(amount)

    class Callee:
        def __call__(self, amount: int) -> Iterator[int]:
            yield amount

    for function in (generator, asynchronous, wrapped, functools.partial(generator), Callee()):
        with pytest.raises(CallRefused, match="generator"):
            adapter.held(tool="t")(function)
        with pytest.raises(CallRefused, match="generator"):
            await adapter.hold(a_call(), function)
    with pytest.raises(CallRefused, match="held already"):
        adapter.held()(adapter.held()(_refund))
    with pytest.raises(CallRefused, match="held already"):
        await adapter.hold(a_call(), adapter.held()(_refund))
    assert await store.executions() == []


async def test_a_generator_that_a_function_returns_is_no_success(adapter: Adapter, store: Store) -> None:
    holding = asyncio.create_task(adapter.hold(a_call(), lambda **arguments: (each for each in arguments)))
    await decide(store)
    assert (await holding).state is State.IN_DOUBT


async def _refund(amount: int) -> None:
    raise AssertionError
