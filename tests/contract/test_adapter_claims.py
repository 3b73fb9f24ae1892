"""A harness claims a permitted call, once, and its outcome is recorded whatever happens."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from support import driving, outages
from support.desk import approved
from support.ways import Way
from wakegate_adapter import (
    Adapter,
    Call,
    CallRefused,
    NotPermitted,
    OutcomeNotRecorded,
    OutcomeTold,
    ResultRefused,
    State,
    Taken,
)
from wakegate_schema import clock, clock_mark
from wakegate_schema.calls import StoreCalls
from wakegate_schema.clock import HOUR, SECOND
from wakegate_schema.records import Approval
from wakegate_schema.store import Store, StoreUnavailable, open_store


@pytest.fixture
async def adapter(way: Way) -> AsyncIterator[Adapter]:
    """An adapter of its own whose leases are short."""
    async with way.adapter(lease=way.short, patience=10) as opened:
        yield opened


async def permitted(adapter: Adapter, store: Store, approval: Approval | None = None, **arguments: Any) -> str:
    """A call that the harness may run now; its execution id."""
    ticket = await adapter.suspend(Call("issue_refund", arguments), runs="harness")
    await driving.approve(store, ticket.execution_id, approval)
    return ticket.execution_id


async def test_a_claimed_call_runs_and_its_result_is_on_record(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store, amount=4900)
    async with adapter.claim(execution_id) as attempt:
        assert attempt.permitted
        assert attempt.refusal is None
        assert attempt.arguments == {"amount": 4900}
        assert attempt.note == "go ahead"
        assert attempt.request_id
        assert attempt.expires_at
        assert (await store.execution(execution_id)).state is State.STARTED
        attempt.succeed({"refund": "r-1"})
    resolution = await adapter.get(execution_id)
    assert (resolution.state, resolution.reason, resolution.result) == (State.SUCCEEDED, "returned", {"refund": "r-1"})


async def test_the_downstream_key_is_the_same_for_every_look_and_only_for_this_call(
    adapter: Adapter, store: Store
) -> None:
    first, second = await permitted(adapter, store), await permitted(adapter, store)
    keys = []
    for execution_id in (first, first, second):
        async with adapter.claim(execution_id) as attempt:
            keys.append(attempt.idempotency_key)
            if attempt.permitted:
                attempt.succeed()
    assert keys[0] == keys[1] != keys[2]


async def test_fifty_concurrent_claims_have_one_winner(way: Way, store: Store) -> None:
    async with way.adapter() as one, way.adapter() as other:
        await fifty_claims(one, other, store)


async def fifty_claims(adapter: Adapter, other: Adapter, store: Store) -> None:
    """Claim one call with two adapters, 25 times each, at once."""
    execution_id = await permitted(adapter, store)
    begun: list[str] = []
    barrier = asyncio.Barrier(50)

    async def claim(claimer: Adapter) -> bool:
        await barrier.wait()
        async with claimer.claim(execution_id) as attempt:
            if attempt.permitted:
                begun.append(execution_id)
                await asyncio.sleep(0.1)
                attempt.succeed()
            return attempt.permitted

    wins = await asyncio.gather(*(claim((adapter, other)[n % 2]) for n in range(50)))
    assert sum(wins) == len(begun) == 1
    assert (await adapter.get(execution_id)).state is State.SUCCEEDED


async def test_a_second_claimer_is_told_who_started_it_and_when(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id, claim_id="desk-7") as first:
        async with adapter.claim(execution_id) as second:
            assert not second.permitted
            assert second.refusal == "already_started"
            assert "claim desk-7" in second.explanation
            assert "already started, at 20" in second.explanation
        first.succeed()


async def test_a_claim_id_used_before_does_not_permit_a_second_run(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id, claim_id="same") as first:
        async with adapter.claim(execution_id, claim_id="same") as second:
            assert not second.permitted
            assert second.refusal == "already_started"
        first.succeed("once")
    assert (await adapter.get(execution_id)).result == "once"


async def test_without_permission_the_arguments_are_not_given_and_no_outcome_is_taken(
    adapter: Adapter, store: Store
) -> None:
    ticket = await adapter.suspend(Call("t", {"a": 1}), runs="harness")
    async with adapter.claim(ticket.execution_id) as attempt:
        assert not attempt.permitted
        with pytest.raises(NotPermitted):
            _ = attempt.arguments
        for tell in (attempt.succeed, attempt.fail, attempt.not_begun, attempt.doubt):
            with pytest.raises(NotPermitted):
                tell("word")
    assert (await store.execution(ticket.execution_id)).state is State.SAVED


async def test_an_undecided_call_cannot_be_claimed(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}), runs="harness")
    async with adapter.claim(ticket.execution_id) as attempt:
        assert (attempt.permitted, attempt.refusal) == (False, "saved")
        assert "waits for a decision" in attempt.explanation


async def test_a_denied_call_cannot_be_claimed(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}), runs="harness")
    await driving.close(store, ticket.execution_id, State.DENIED, note="too much")
    async with adapter.claim(ticket.execution_id) as attempt:
        assert (attempt.permitted, attempt.refusal) == (False, "denied")
        assert "too much" in attempt.explanation


async def test_a_call_that_the_worker_runs_cannot_be_claimed(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("t", {}), runs="worker")
    await driving.submit(store, ticket.execution_id)
    async with adapter.claim(ticket.execution_id) as attempt:
        assert (attempt.permitted, attempt.refusal) == (False, "runs_in_worker")


async def test_a_call_that_ran_is_not_permitted_again(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        attempt.succeed()
    async with adapter.claim(execution_id) as again:
        assert (again.permitted, again.refusal) == (False, "succeeded")


async def test_with_less_than_two_seconds_left_nothing_starts(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store, approved(valid=int(1.9 * SECOND)))
    async with adapter.claim(execution_id) as attempt:
        assert (attempt.permitted, attempt.refusal) == (False, "too_late")
    assert (await store.execution(execution_id)).started_at is None


async def test_an_approval_that_ends_while_the_claim_is_committed_is_not_used(
    adapter: Adapter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = await permitted(adapter, store)
    real, claim, committed = clock.now, Store.claim, asyncio.Event()

    async def claim_and_tell(*arguments: Any) -> Any:
        found = await claim(*arguments)
        committed.set()
        return found

    monkeypatch.setattr(Store, "claim", claim_and_tell)
    monkeypatch.setattr(clock, "now", lambda: real() + (HOUR if committed.is_set() else 0))
    async with adapter.claim(execution_id) as attempt:
        assert not attempt.permitted
        assert attempt.refusal == "lapsed"
    monkeypatch.undo()
    found = await store.execution(execution_id)
    assert (found.state, found.reason) == (State.LAPSED, "lapsed_at_start")


async def test_a_clock_behind_what_this_host_has_shown_starts_nothing(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    await store.mark_clock(clock_mark.host_name(), clock.now() + HOUR)
    async with adapter.claim(execution_id) as attempt:
        assert (attempt.permitted, attempt.refusal) == (False, "clock_behind")
        assert "reset the mark" in attempt.explanation
    assert (await store.execution(execution_id)).state is State.PERMITTED


async def test_a_declared_failure_did_not_happen(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        attempt.fail("card\ndeclined")
    resolution = await adapter.get(execution_id)
    assert (resolution.state, resolution.reason, resolution.error) == (State.FAILED, "tool_failed", "card declined")


async def test_what_was_not_begun_has_lapsed(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        attempt.not_begun()
    assert (await adapter.get(execution_id)).state is State.LAPSED


async def test_leaving_without_a_word_leaves_the_call_in_doubt(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id):
        pass
    resolution = await adapter.get(execution_id)
    assert (resolution.state, resolution.reason) == (State.IN_DOUBT, "outcome_not_told")


async def test_an_exception_leaves_the_call_in_doubt_and_goes_on(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    with pytest.raises(ZeroDivisionError):
        async with adapter.claim(execution_id):
            raise ZeroDivisionError("secret")
    resolution = await adapter.get(execution_id)
    assert (resolution.state, resolution.reason) == (State.IN_DOUBT, "tool_raised")
    assert resolution.error is not None
    assert resolution.error.startswith("ZeroDivisionError at ")
    assert "secret" not in resolution.error


async def test_an_exception_after_the_outcome_was_told_does_not_change_it(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)

    async def work() -> None:
        async with adapter.claim(execution_id) as attempt:
            attempt.succeed(1)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    assert (await adapter.get(execution_id)).state is State.SUCCEEDED


async def test_the_first_word_stands(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        attempt.succeed(1)
        with pytest.raises(OutcomeTold, match="already told to have succeeded"):
            attempt.fail("no")
    assert (await adapter.get(execution_id)).state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"a": {1}}, "result_not_json"),
        (float("nan"), "result_not_json"),
        ("x" * 300_000, "result_too_large"),
    ],
)
async def test_a_result_that_cannot_be_kept_is_refused_but_the_call_happened(
    adapter: Adapter, store: Store, result: Any, reason: str
) -> None:
    execution_id = await permitted(adapter, store)
    with pytest.raises(ResultRefused) as refused:
        async with adapter.claim(execution_id) as attempt:
            attempt.succeed(result)
    assert refused.value.reason == reason
    resolution = await adapter.get(execution_id)
    assert (resolution.state, resolution.reason, resolution.result) == (State.SUCCEEDED, reason, None)
    assert "the result is not kept" in str(resolution.error)


async def test_a_cancelled_harness_leaves_the_call_in_doubt(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    inside = asyncio.Event()

    async def work() -> None:
        async with adapter.claim(execution_id):
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    resolution = await adapter.get(execution_id)
    assert (resolution.state, resolution.reason) == (State.IN_DOUBT, "tool_cancelled")


async def test_a_claim_cancelled_at_any_moment_is_never_left_started(way: Way, adapter: Adapter, store: Store) -> None:
    inside: set[str] = set()

    async def work(execution_id: str) -> None:
        async with adapter.claim(execution_id) as attempt:
            inside.add(execution_id)
            await asyncio.sleep(60)
            attempt.succeed()

    seen: set[State] = set()
    for pause in range(0, 20, 1):
        execution_id = await permitted(adapter, store)
        task = asyncio.create_task(work(execution_id))
        await asyncio.sleep(pause / 2_000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        state = (await store.execution(execution_id)).state
        assert state in ({State.IN_DOUBT} if execution_id in inside else {State.PERMITTED, State.LAPSED})
        seen.add(state)
    assert State.PERMITTED in seen or way.name == "control"  # what was asked may have been done


async def test_a_cancellation_while_the_outcome_is_recorded_does_not_lose_it(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)

    async def work() -> None:
        async with adapter.claim(execution_id) as attempt:
            attempt.succeed(1)
            task.cancel()

    task = asyncio.create_task(work())
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await adapter.get(execution_id)).state is State.SUCCEEDED


async def test_a_long_run_keeps_its_lease(way: Way, adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        for _ in range(10):
            await asyncio.sleep(way.short / 5)
            await store.sweep(clock.now())
        assert not attempt.lease_lost
        assert (await store.execution(execution_id)).state is State.STARTED
        attempt.succeed()


async def test_a_lost_lease_is_told_and_the_late_word_settles_the_call(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        await store.sweep(clock.now() + HOUR)
        assert (await store.execution(execution_id)).state is State.IN_DOUBT
        async with asyncio.timeout(20):
            while not attempt.lease_lost:
                await asyncio.sleep(0.05)
        attempt.succeed("late")
    resolution = await adapter.get(execution_id)
    assert (resolution.state, resolution.result) == (State.SUCCEEDED, "late")


async def test_a_late_word_against_a_persons_is_kept_as_an_anomaly(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        await store.sweep(clock.now() + HOUR)
        await store.settle(execution_id, happened=False, by="ann", note="looked it up", at=clock.now())
        attempt.succeed()
    assert (await adapter.get(execution_id)).state is State.FAILED
    assert [anomaly.kind for anomaly in await store.anomalies()] == ["late_word"]


async def test_an_outcome_is_recorded_once_the_store_is_back(adapter: Adapter, store: Store, database: str) -> None:
    execution_id = await permitted(adapter, store)
    async with adapter.claim(execution_id) as attempt:
        attempt.succeed("kept")
        away = asyncio.create_task(outages.away(database, 0.5))
        await asyncio.sleep(0)
    await away
    assert (await adapter.get(execution_id)).result == "kept"


async def test_an_outcome_that_cannot_be_recorded_is_loud_and_can_be_told_again(
    way: Way, adapter: Adapter, store: Store, database: str
) -> None:
    execution_id = await permitted(adapter, store)
    async with way.adapter(patience=0.2) as hasty:

        async def work() -> None:
            async with hasty.claim(execution_id) as attempt:
                attempt.succeed("kept")
                away.append(asyncio.create_task(outages.away(database, 1.0)))
                await asyncio.sleep(0)

        away: list[asyncio.Task[None]] = []
        with pytest.raises(OutcomeNotRecorded, match="ended as succeeded") as lost:
            await work()
        await away[0]
        assert lost.value.kind == "succeeded"
        assert "token" not in repr(lost.value.grant)
        resolution = await hasty.finish(lost.value.grant, "succeeded", result="kept")
    assert (resolution.state, resolution.result) == (State.SUCCEEDED, "kept")


async def test_a_claim_whose_answer_was_lost_is_taken_up_again(
    adapter: Adapter, store: Store, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution_id = await permitted(adapter, store)
    used = await open_store(database, mode="use")
    claim, asked = used.claim, []

    async def claim_and_lose_the_answer(*args: Any) -> Any:
        asked.append(args)
        answer = await claim(*args)
        if len(asked) == 1:
            raise StoreUnavailable
        return answer

    monkeypatch.setattr(used, "claim", claim_and_lose_the_answer)
    async with Adapter(StoreCalls(used), patience=10) as unlucky, unlucky.claim(execution_id) as attempt:
        assert attempt.permitted
        attempt.succeed("once")
    assert len(asked) > 1
    started_at = (await store.execution(execution_id)).started_at
    assert started_at == asked[0][2], "the first claim was committed, only its answer was lost"
    assert (await adapter.get(execution_id)).result == "once"


async def test_a_taken_call_is_renewed_and_finished_by_whoever_has_the_grant(
    way: Way, adapter: Adapter, store: Store
) -> None:
    execution_id = await permitted(adapter, store, amount=1)
    taken = await adapter.take(execution_id, "elsewhere")
    assert isinstance(taken, Taken)
    assert taken.permitted
    assert taken.arguments == {"amount": 1}
    assert taken.grant is not None
    async with way.adapter() as elsewhere:
        assert await elsewhere.renew(taken.grant)
        resolution = await elsewhere.finish(taken.grant, "succeeded", result=[1])
        assert (resolution.state, resolution.result) == (State.SUCCEEDED, [1])
        assert not await elsewhere.renew(taken.grant)
        assert (await elsewhere.finish(taken.grant, "succeeded")).result == [1]


async def test_taking_again_with_the_same_id_gives_the_same_attempt_and_a_fresh_token(
    adapter: Adapter, store: Store
) -> None:
    execution_id = await permitted(adapter, store)
    first, again = await adapter.take(execution_id, "c"), await adapter.take(execution_id, "c")
    assert first.grant is not None
    assert again.grant is not None
    assert first.grant.number == again.grant.number
    assert not await adapter.renew(first.grant)
    assert await adapter.renew(again.grant)
    with pytest.raises(OutcomeNotRecorded):
        await adapter.finish(first.grant, "succeeded")
    assert (await adapter.finish(again.grant, "failed", error="declined")).state is State.FAILED


async def test_taking_with_another_id_is_refused(adapter: Adapter, store: Store) -> None:
    execution_id = await permitted(adapter, store)
    await adapter.take(execution_id, "c")
    other = await adapter.take(execution_id, "d")
    assert (other.permitted, other.refusal, other.grant) == (False, "already_started", None)
    assert other.arguments is None


@pytest.mark.parametrize("claim_id", ["two words", "x" * 256, "é"])
async def test_a_claim_id_in_another_form_is_refused(adapter: Adapter, store: Store, claim_id: str) -> None:
    execution_id = await permitted(adapter, store)
    with pytest.raises(CallRefused, match=r"^claim_id: "):
        async with adapter.claim(execution_id, claim_id):
            pass
    assert (await store.execution(execution_id)).state is State.PERMITTED


async def test_log_lines_name_the_call_and_never_its_contents_and_leave_stdout_alone(
    way: Way, adapter: Adapter, store: Store, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG", "wakegate_adapter")
    execution_id = await permitted(adapter, store, iban="DE02")
    async with adapter.claim(execution_id) as attempt:
        attempt.succeed("refunded to DE02")
    lines = [record.getMessage() for record in caplog.records if record.name == "wakegate_adapter"]
    assert [line.split(" (action=")[0] for line in lines] == ["wakegate: claimed", "wakegate: finished"]
    assert all(execution_id in line for line in lines)
    assert "DE02" not in caplog.text
    assert capsys.readouterr().out == "" or way.name == "control"  # then the receiver is in this process
