"""Consumption on record: what was consumed is kept with the start, and every end of it is to be told."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from support.desk import Desk, approved
from wakegate_schema import clock
from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND
from wakegate_schema.downstream import consumption_key
from wakegate_schema.records import Approval, Closing, Execution, Lease, Outcome
from wakegate_schema.states import State
from wakegate_schema.store import NotAllowed, Store

CONSUMED = 1_790_000_000_000_000


def consumed() -> Approval:
    return replace(approved(), consumed_at=CONSUMED)


async def started(desk: Desk) -> Execution:
    waiting, now = await desk.waiting(), clock.now()
    found = await desk.store.start(waiting.lease, consumed(), now, now + MINUTE)
    assert found is not None
    return found


async def permitted(desk: Desk) -> Execution:
    waiting = await desk.waiting(runs="harness")
    assert await desk.store.permit(waiting.lease, consumed(), clock.now())
    return await desk.store.execution(waiting.execution_id)


async def reports(store: Store) -> set[str]:
    now = clock.now() + HOUR
    return {execution.execution_id for execution in await store.lease_reports(100, now, now)}


async def test_a_start_and_a_permission_keep_when_it_was_consumed(desk: Desk) -> None:
    for found in (await started(desk), await permitted(desk)):
        assert (found.consumed_at, found.report_due_at) == (CONSUMED, None)
    assert await reports(desk.store) == set()


async def finish(desk: Desk, outcome: Outcome) -> Execution:
    found = await started(desk)
    return await desk.store.finish(found.lease, outcome, clock.now())


async def close(desk: Desk) -> Execution:
    waiting = await desk.waiting()
    closing = Closing(State.LAPSED, "approval_expired", consumed_at=CONSUMED)
    await desk.store.close_unstarted(waiting.lease, closing, clock.now())
    return await desk.store.execution(waiting.execution_id)


async def abandon(desk: Desk) -> Execution:
    found = await permitted(desk)
    return await desk.store.abandon(found.execution_id, "closed", "harness", clock.now())


async def lapse(desk: Desk) -> Execution:
    found = await permitted(desk)
    await desk.store.sweep(clock.now() + HOUR)
    return await desk.store.execution(found.execution_id)


async def resolve(desk: Desk) -> Execution:
    found = await started(desk)
    await desk.store.sweep(clock.now() + HOUR)
    assert await reports(desk.store) == set(), "nobody knows yet"
    return await desk.store.settle(found.execution_id, happened=False, by="anna", note="looked", at=clock.now())


ENDS: dict[str, Callable[[Desk], Awaitable[Execution]]] = {
    "succeeded": lambda desk: finish(desk, Outcome("succeeded", "returned")),
    "failed": lambda desk: finish(desk, Outcome("failed", "tool_failed")),
    "not begun": lambda desk: finish(desk, Outcome("not_begun", "start_unconfirmed")),
    "closed": close,
    "abandoned": abandon,
    "not claimed": lapse,
    "resolved by a person": resolve,
}


@pytest.mark.parametrize("end", ENDS)
async def test_every_end_of_a_consumed_call_is_to_be_told_once(desk: Desk, end: str) -> None:
    done = await ENDS[end](desk)
    assert await reports(desk.store) == {done.execution_id}
    await desk.store.report_retry(done.execution_id, clock.now())
    (again,) = await desk.store.lease_reports(1, clock.now() + SECOND, clock.now() + HOUR)
    assert (again.execution_id, again.report_tries) == (done.execution_id, 1)
    await desk.store.report_settled(done.execution_id, clock.now())
    assert await reports(desk.store) == set()
    await desk.store.report_retry(done.execution_id, clock.now())
    assert await reports(desk.store) == set(), "what is settled stays settled"


async def test_what_was_not_consumed_owes_no_report(desk: Desk) -> None:
    found = await desk.started()
    await desk.store.finish(found.lease, Outcome("succeeded", "returned"), clock.now())
    assert await reports(desk.store) == set()


async def test_a_call_that_was_ended_while_it_was_consumed_is_to_be_told_as_well(desk: Desk) -> None:
    waiting = await desk.waiting()
    assert not await desk.store.consumed_in_vain(waiting.execution_id, CONSUMED, clock.now()), "it may start yet"
    await desk.store.abandon(waiting.execution_id, "closed", "harness", clock.now())
    assert await desk.store.consumed_in_vain(waiting.execution_id, CONSUMED, clock.now())
    assert not await desk.store.consumed_in_vain(waiting.execution_id, CONSUMED + 1, clock.now()), "known already"
    assert await reports(desk.store) == {waiting.execution_id}
    begun = await desk.started()
    await desk.store.finish(begun.lease, Outcome("succeeded", "returned"), clock.now())
    assert not await desk.store.consumed_in_vain(begun.execution_id, CONSUMED, clock.now())


async def test_a_lease_that_was_lost_consumes_nothing(desk: Desk) -> None:
    waiting, now = await desk.waiting(), clock.now()
    other = Lease(waiting.execution_id, waiting.lease_number - 1)
    assert await desk.store.start(other, consumed(), now, now + MINUTE) is None
    assert (await desk.store.execution(waiting.execution_id)).consumed_at is None


async def test_a_provider_that_was_seen_to_consume_is_known_for_good(desk: Desk) -> None:
    assert not await desk.store.consumes(desk.provider)
    for at in (5, 4):
        await desk.store.note_consuming(desk.provider, at)
    assert await desk.store.consumes(desk.provider)
    assert not await desk.store.consumes("https://other.example")
    later = clock.now() + 4000 * DAY
    await desk.store.prune(later, later)
    assert await desk.store.consumes(desk.provider)


async def test_a_conflict_is_kept_as_an_anomaly(desk: Desk) -> None:
    done = await finish(desk, Outcome("succeeded", "returned"))
    await desk.store.report_settled(done.execution_id, clock.now(), conflict="failed is on record")
    (found,) = await desk.store.anomalies()
    assert (found.kind, found.subject_id) == ("outcome_conflict", done.execution_id)


async def test_a_retired_instance_is_told_nothing_and_a_new_credential_makes_it_due(desk: Desk) -> None:
    done = await finish(desk, Outcome("succeeded", "returned"))
    await desk.store.report_retry(done.execution_id, clock.now() + HOUR)
    now = clock.now()
    await desk.store.set_credential(desk.provider, desk.instance_id, b"another", None, now)
    (due,) = await desk.store.lease_reports(10, now, now + MINUTE)
    assert due.execution_id == done.execution_id
    await desk.store.retire_instance(desk.provider, desk.instance_id, "operator:anna", now)
    assert await reports(desk.store) == set()
    with pytest.raises(NotAllowed):
        await desk.store.set_credential(desk.provider, desk.instance_id, b"another", None, now)


async def test_a_clock_that_was_ahead_is_made_good(desk: Desk) -> None:
    done = await finish(desk, Outcome("succeeded", "returned"))
    now = clock.now()
    await desk.store.report_retry(done.execution_id, now + 3 * DAY)
    await desk.store.bring_forward(now)
    assert len(await desk.store.lease_reports(10, now, now + MINUTE)) == 1


def test_the_key_is_the_same_after_any_crash_and_another_in_another_epoch() -> None:
    execution_id = "846c4074-1351-44d3-a98e-f3b8009df8c5"
    assert consumption_key(execution_id, 1) == "38ad63eb-3aec-5e67-a81d-38336c61e203"
    assert len({consumption_key(execution_id, epoch) for epoch in (1, 2, 3)}) == 3
