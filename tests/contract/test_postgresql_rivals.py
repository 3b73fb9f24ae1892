"""Many processes on one store in PostgreSQL: no call starts twice, no event is lost or doubled, nobody misses a line.

Each `rival` has connections and a writer thread of its own, as another process would.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing, suppress
from typing import Any

import psycopg
import pytest

from support.desk import Desk, approved, new_id
from support.raw import open_raw
from wakegate_schema import clock
from wakegate_schema.clock import MINUTE
from wakegate_schema.records import Claimed, Outcome
from wakegate_schema.states import State
from wakegate_schema.store import NotAllowed, Store, StoreUnavailable, open_store
from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.errors import Collided
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.postgresql import engine
from wakegate_schema.store.postgresql.engine import TURN, PostgresEngine
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.verbs import notifications

RIVALS = 4


@pytest.fixture
async def rivals(desk: Desk, database: str) -> AsyncIterator[list[Store]]:
    """Several stores in one database."""
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(await open_store(database, mode="use")) for _ in range(RIVALS)]


class Turns:
    """How transactions were begun, with what they ended in."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.alone: list[bool] = []
        begin = PostgresEngine._begin

        def noted(self_: PostgresEngine, alone: bool) -> Any:
            self.alone.append(alone)
            return begin(self_, alone)

        patch.setattr(PostgresEngine, "_begin", noted)


async def test_one_event_that_several_receivers_get_at_once_is_recorded_once(
    desk: Desk, rivals: list[Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = Turns(monkeypatch)
    for _ in range(25):
        arrival = desk.arrival(new_id())
        receipts = await asyncio.gather(*(store.record(arrival) for store in rivals))
        assert sorted(receipt.kind for receipt in receipts) == ["duplicate"] * (RIVALS - 1) + ["saved"]
    found = await desk.store.notifications()
    assert len(found) == 25
    assert {notification.duplicates for _, notification in found} == {RIVALS - 1}
    assert not any(turns.alone), "receivers went beside each other; the second waited for the first, and saw its event"


async def test_receivers_whose_batches_would_wait_for_each_other_for_ever_all_get_an_answer(
    desk: Desk, rivals: list[Store]
) -> None:
    """A deadlock is broken by the server; who was broken off goes alone."""
    for _ in range(6):
        arrivals = [desk.arrival(new_id()) for _ in range(12)]
        ways = [arrivals, arrivals[::-1], arrivals[6:] + arrivals[:6], arrivals[::-2] + arrivals[::2]]
        receipts = await asyncio.gather(
            *(store.record(arrival) for store, way in zip(rivals, ways, strict=True) for arrival in way)
        )
        assert [receipt.kind for receipt in receipts].count("saved") == len(arrivals)
    assert len(await desk.store.notifications()) == 6 * 12


async def test_a_notification_that_is_committed_after_a_younger_one_is_not_passed_over(
    desk: Desk, rivals: list[Store], database: str
) -> None:
    slow, quick = (desk.arrival(new_id(), received_at=clock.now() - MINUTE) for _ in range(2))
    with closing(PostgresEngine(StoreLocation(database), load_store(POSTGRESQL))) as receiver:
        with receiver.transaction(alone=False) as transaction:
            notifications.record(transaction, [slow])
            await rivals[0].record(quick)
            looking = asyncio.create_task(rivals[1].adopt_unmatched(clock.now()))
            await until_waits(database)
        assert await looking == 2


async def test_a_deadlock_between_receivers_is_a_collision(desk: Desk, database: str) -> None:
    """What collided is done again, alone: the first test here."""
    one, two = [await desk.waiting() for _ in range(2)]

    def receive(receiver: PostgresEngine) -> None:
        with receiver.transaction(alone=False) as transaction:
            for each in (one, two):
                notifications.record(transaction, [desk.arrival(each.request_id or "")])

    with (
        closing(PostgresEngine(StoreLocation(database), load_store(POSTGRESQL))) as receiver,
        psycopg.connect(database) as other,  # a receiver of another host, in its turn beside ours
    ):
        other.execute("SET deadlock_timeout = '30s'")  # so that it is ours which is broken off
        update = "UPDATE execution SET due_at = due_at WHERE execution_id = %s"
        other.execute(f"SELECT pg_advisory_xact_lock_shared({TURN})".encode())
        other.execute(update, [two.execution_id])
        receiving = asyncio.create_task(asyncio.to_thread(receive, receiver))
        await until_waits(database)
        await asyncio.to_thread(other.execute, update, [one.execution_id])  # closes the circle
        with pytest.raises(Collided):
            await receiving
    assert await desk.store.notifications() == []


async def until_waits(database: str) -> None:
    """Wait until somebody in this database waits for a lock."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with closing(open_raw(database)) as raw:
        for _ in range(1000):
            if raw.rows(waiting):
                return
            await asyncio.sleep(0.01)
    raise TimeoutError("nobody waits")


async def test_calls_that_every_worker_and_harness_wants_start_once_each(desk: Desk, rivals: list[Store]) -> None:
    harness_run = [(await desk.permitted()).execution_id for _ in range(12)]
    worker_run = [await desk.waiting() for _ in range(12)]
    for each in worker_run:
        await desk.store.release(each.lease, clock.now(), None, clock.now())
    started: list[str] = []
    abandoned: set[str] = set()

    async def work(store: Store, name: str) -> None:
        for _ in range(4):
            now = clock.now()
            for leased in await store.lease_due(name, 5, now, now + MINUTE):
                other = await store.start(leased.lease, approved(), clock.now(), clock.now() + MINUTE)
                again = await store.start(leased.lease, approved(), clock.now(), clock.now() + MINUTE)
                assert again is None
                if other is not None:
                    started.append(other.execution_id)
                    await store.finish(other.lease, Outcome("succeeded", "returned", b"1"), clock.now())

    async def claim(store: Store, name: str) -> None:
        for execution_id in harness_run:
            now = clock.now()
            claimed = await store.claim(execution_id, name, now, now + MINUTE, 0)
            if isinstance(claimed, Claimed):
                started.append(execution_id)

    async def abandon(store: Store) -> None:
        for execution_id in [each.execution_id for each in worker_run[::3]] + harness_run[::3]:
            with suppress(NotAllowed):
                found = await store.abandon(execution_id, "over", "harness", clock.now())
                abandoned.update({execution_id} if found.state is State.ABANDONED else ())

    acts = [act(store, f"rival-{number}") for number, store in enumerate(rivals) for act in (work, claim)]
    await asyncio.gather(*acts, *(abandon(store) for store in rivals))
    assert sorted(started) == sorted({*started}), "no call started twice"
    assert not abandoned & {*started}
    assert abandoned | {*started} == {each.execution_id for each in worker_run} | {*harness_run}
    for execution_id in started:
        states = [transition.to_state for transition in await desk.store.transitions(execution_id)]
        assert states.count(State.STARTED) == 1


async def test_a_group_that_two_workers_resolve_at_once_is_told_of_once(desk: Desk, rivals: list[Store]) -> None:
    for number in range(8):
        group = f"turn-{number}"
        calls = [await desk.save(group=group, wake="mine") for _ in range(4)]
        await asyncio.gather(
            *(
                store.abandon(call.execution_id, "over", "harness", clock.now())
                for store, call in zip(rivals, calls, strict=True)
            ),
            rivals[0].seal_group(desk.provider, desk.instance_id, group, clock.now()),
        )
        assert len({wake.wake_id for call in calls for wake in await desk.store.wakes(call.execution_id)}) == 1


async def test_who_follows_the_log_of_resolutions_misses_none_however_many_write(
    desk: Desk, rivals: list[Store], database: str
) -> None:
    calls = [await desk.save(wake="mine") for _ in range(120)]
    seen: list[str] = []
    numbers: list[int] = []

    async def follow(store: Store) -> None:
        after: tuple[int, int] | None = None
        change = -1
        while len(seen) < len(calls):
            change = await store.changed(change, 5)
            while lines := await store.resolutions(None, after, 7):
                seen.extend(line.execution_id for line in lines)
                numbers.extend(line.number for line in lines)
                after = (lines[-1].epoch, lines[-1].number)

    async def end(store: Store, part: int) -> None:
        for call in calls[part::RIVALS]:
            await store.abandon(call.execution_id, "over", "harness", clock.now())
            await store.record(desk.arrival(new_id()))

    async with asyncio.timeout(60):
        await asyncio.gather(follow(desk.store), *(end(store, part) for part, store in enumerate(rivals)))
    assert sorted(seen) == sorted(call.execution_id for call in calls)
    assert numbers == sorted(numbers)


async def test_who_waits_for_the_turn_in_vain_is_told_that_the_store_is_busy(
    desk: Desk, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_ALONE", engine._ALONE.replace(b"lock_timeout = '8s'", b"lock_timeout = '100ms'"))
    with psycopg.connect(database) as other:
        other.execute(f"SELECT pg_advisory_xact_lock({TURN})".encode())
        with pytest.raises(StoreUnavailable) as refused:
            await desk.store.probe()
        assert refused.value.reason == "store_busy"
    await desk.store.probe()
