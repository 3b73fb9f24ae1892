"""An acknowledged notification is on record, once, and its execution hears of it."""

import asyncio
from contextlib import closing
from dataclasses import replace

import pytest

from support.desk import Desk, approved, new_id
from support.raw import open_raw
from wakegate_schema import clock
from wakegate_schema.records import Closing, Notification, Receipt, RequestIdentity
from wakegate_schema.states import State
from wakegate_schema.store import InvariantViolated, Store, open_store
from wakegate_schema.store.dialects import POSTGRESQL, SQLITE


async def only(store: Store) -> Notification:
    """The only notification on record."""
    ((_, found),) = await store.notifications()
    return found


async def test_a_notification_survives_the_process(desk: Desk, store: Store, database: str) -> None:
    arrival = desk.arrival(new_id())
    assert await store.record(arrival) == Receipt("saved")
    async with await open_store(database, mode="read") as other:
        found = await only(other)
    assert (found.event_id, found.body, found.state) == (arrival.event_id, arrival.body, "received")


async def test_a_repeat_is_counted_and_the_first_bytes_kept(desk: Desk, store: Store) -> None:
    arrival = desk.arrival(new_id())
    await store.record(arrival)
    assert await store.record(arrival) == Receipt("duplicate")
    assert await store.record(replace(arrival, body=b"other")) == Receipt("duplicate", "other_bytes")
    assert await store.record(replace(arrival, body=b"other")) == Receipt("duplicate", "other_bytes")
    found = await only(store)
    assert (found.duplicates, found.body) == (3, arrival.body)
    (anomaly,) = await store.anomalies()
    assert (anomaly.kind, anomaly.count) == ("event_other_bytes", 2)


async def test_repeats_within_one_batch_are_recognised(desk: Desk, store: Store) -> None:
    arrival = desk.arrival(new_id())
    receipts = await asyncio.gather(*(store.record(arrival) for _ in range(50)))
    assert sorted(r.kind for r in receipts) == ["duplicate"] * 49 + ["saved"]
    assert (await only(store)).duplicates == 49


async def test_an_event_id_that_names_another_request_is_a_conflict(desk: Desk, store: Store) -> None:
    arrival = desk.arrival(new_id())
    await store.record(arrival)
    assert (await store.record(replace(arrival, request_id=new_id()))).kind == "conflict"
    assert (await only(store)).request_id == arrival.request_id
    assert [a.kind for a in await store.anomalies()] == ["event_id_conflict"]


async def test_an_event_id_that_names_another_instance_is_a_conflict(desk: Desk, store: Store) -> None:
    other = await Desk(store, name="other-desk").open()
    arrival = desk.arrival(new_id())
    await store.record(arrival)
    assert (await store.record(other.arrival(arrival.request_id, event_id=arrival.event_id))).kind == "conflict"


async def test_two_providers_may_use_the_same_ids(desk: Desk, store: Store) -> None:
    twin = await Desk(store, provider="http://127.0.0.1:10", instance_id=desk.instance_id, name="twin").open()
    arrival = desk.arrival(new_id())
    waiting = await desk.waiting()
    assert (await store.record(arrival)).kind == "saved"
    assert (await store.record(twin.arrival(waiting.request_id or "", event_id=arrival.event_id))).kind == "saved"
    assert (await store.execution(waiting.execution_id)).due_at == waiting.due_at, "the other provider's word"


async def test_a_registration_speaks_only_for_its_own_instance(desk: Desk, store: Store) -> None:
    other = await Desk(store, name="other-desk").open()
    arrival = replace(desk.arrival(new_id()), registration_id=other.registration_id)
    assert await store.record(arrival) == Receipt("not_live")
    assert await store.notifications() == []


async def test_a_notification_makes_its_execution_due(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    now = clock.now()
    await store.release(waiting.lease, now + clock.HOUR, None, now)
    assert await store.lease_due("w", 1, now, now + clock.MINUTE) == []
    await store.record(desk.arrival(waiting.request_id or ""))
    (leased,) = await store.lease_due("w", 1, clock.now(), clock.now() + clock.MINUTE)
    assert leased.execution_id == waiting.execution_id


async def test_a_notification_that_comes_under_a_lease_is_not_lost_by_its_release(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    await store.record(desk.arrival(waiting.request_id or ""))
    now = clock.now()
    assert await store.lease_due("w", 1, now, now + clock.MINUTE) == []
    assert await store.keep_lease(waiting.lease, now, now + 2 * clock.MINUTE)
    await store.release(waiting.lease, now + clock.HOUR, None, clock.now())
    (leased,) = await store.lease_due("w", 1, clock.now(), clock.now() + clock.MINUTE)
    assert leased.execution_id == waiting.execution_id


async def test_a_notification_that_comes_before_the_request_id_is_applied(desk: Desk, store: Store) -> None:
    waiting_id, request_id = (await desk.submitting()).execution_id, new_id()
    await store.record(desk.arrival(request_id))
    now = clock.now()
    attached = await store.attach(waiting_id, RequestIdentity(request_id, now, now + clock.HOUR), now)
    await store.release(attached.lease, now + clock.HOUR, None, now)
    assert [e.execution_id for e in await store.lease_due("w", 1, clock.now(), now + clock.MINUTE)] == [waiting_id]


@pytest.mark.parametrize("late", [0, clock.HOUR])
async def test_a_hint_is_not_lost_to_a_clock_that_is_ahead_of_the_lease(desk: Desk, store: Store, late: int) -> None:
    waiting = await desk.waiting()
    at = clock.now()
    await store.record(desk.arrival(waiting.request_id or "", received_at=at + clock.MINUTE + late))
    assert await store.release(waiting.lease, at + clock.DAY, None, at)
    assert [e.execution_id for e in await store.lease_due("w", 1, at, at + 1)] == [waiting.execution_id]


async def test_a_new_credential_under_a_lease_is_not_lost_by_its_release(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    at = clock.now()
    await store.set_credential(desk.provider, desk.instance_id, b"new", None, at + clock.HOUR)
    assert await store.release(waiting.lease, at + clock.DAY, "credential_refused", at)
    assert [e.execution_id for e in await store.lease_due("w", 1, at, at + 1)] == [waiting.execution_id]


@pytest.mark.parametrize("end", [State.REFUSED, State.UNOBTAINED])
async def test_a_notification_for_a_call_that_ended_before_its_id_was_known_is_handled(
    desk: Desk, store: Store, end: State
) -> None:
    submitting, request_id, now = await desk.submitting(), new_id(), clock.now()
    await store.record(desk.arrival(request_id))
    await store.close_unstarted(submitting.lease, Closing(end, "x", cancel=True), now)
    await store.attach(submitting.execution_id, RequestIdentity(request_id, now, now + clock.HOUR), now)
    found = await only(store)
    assert (found.state, found.reason) == ("handled", end)


async def test_a_notification_is_handled_when_its_execution_is_decided(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    await store.record(desk.arrival(waiting.request_id or ""))
    await store.start(waiting.lease, approved(), clock.now(), clock.now() + clock.MINUTE)
    assert (await only(store)).state == "handled"


async def test_a_notification_for_a_decided_execution_is_handled_at_once(desk: Desk, store: Store) -> None:
    started = await desk.started()
    await store.record(desk.arrival(started.request_id or ""))
    found = await only(store)
    assert (found.state, found.reason) == ("handled", "started")


@pytest.mark.parametrize("first", ["abandon", "notification"])
async def test_a_notification_for_an_abandoned_execution_is_discarded(desk: Desk, store: Store, first: str) -> None:
    waiting = await desk.waiting()
    arrival = desk.arrival(waiting.request_id or "")
    if first == "notification":
        assert (await store.record(arrival)).kind == "saved"
    await store.abandon(waiting.execution_id, "closed", "harness", clock.now())
    if first == "abandon":
        assert await store.record(arrival) == Receipt("discarded", "abandoned")
    found = await only(store)
    assert (found.state, found.reason) == ("discarded", "abandoned")


async def test_a_request_nobody_saved_stays_visible(desk: Desk, store: Store) -> None:
    await store.record(desk.arrival(new_id()))
    assert (await only(store)).state == "received"


async def test_a_retired_instance_is_answered_for_eight_days(desk: Desk, store: Store) -> None:
    now = clock.now()
    await store.retire_instance(desk.provider, desk.instance_id, "operator:mika", now)
    assert await store.record(desk.arrival(new_id())) == Receipt("discarded", "instance_retired")
    late = desk.arrival(new_id(), received_at=now + 8 * clock.DAY)
    assert await store.record(late) == Receipt("not_live")


async def test_two_events_for_one_request_are_both_kept(desk: Desk, store: Store) -> None:
    waiting = await desk.waiting()
    for _ in range(2):
        assert (await store.record(desk.arrival(waiting.request_id or ""))).kind == "saved"
    assert len(await store.notifications()) == 2
    assert len(await store.lease_due("w", 10, clock.now() + clock.HOUR, clock.now() + 2 * clock.HOUR)) == 1


async def test_notifications_go_eight_days_after_the_later_of_receipt_and_creation(desk: Desk, store: Store) -> None:
    now = clock.now()
    await store.record(desk.arrival(new_id(), created_at=now + clock.HOUR))
    await store.prune(now + 8 * clock.DAY, now)
    assert len(await store.notifications()) == 1
    pruned = await store.prune(now + 8 * clock.DAY + clock.HOUR, now)
    assert (pruned.notifications, await store.notifications()) == (1, [])


FAULT = {
    SQLITE: (
        "CREATE TRIGGER fault BEFORE UPDATE ON execution BEGIN SELECT RAISE(ABORT, 'fault'); END",
        "DROP TRIGGER fault",
    ),
    POSTGRESQL: (
        "CREATE TRIGGER fault BEFORE UPDATE ON execution FOR EACH ROW EXECUTE FUNCTION refuse_change('fault')",
        "DROP TRIGGER fault ON execution",
    ),
}
"""What lets no execution be changed, and what lets them again."""


async def test_a_notification_whose_execution_cannot_be_made_due_is_not_recorded(
    desk: Desk, store: Store, database: str
) -> None:
    waiting = await desk.waiting()
    arrival = desk.arrival(waiting.request_id or "")
    with closing(open_raw(database)) as raw:
        fault, mended = FAULT[raw.dialect]
        raw.execute(fault)
        with pytest.raises(InvariantViolated):
            await store.record(arrival)
        assert await store.notifications() == []
        raw.execute(mended)
    assert (await store.record(arrival)).kind == "saved", "a repeat must not pass for a duplicate"
    now = clock.now()
    await store.release(waiting.lease, now + clock.HOUR, None, now)
    assert (await desk.lease(waiting.execution_id)).execution_id == waiting.execution_id
