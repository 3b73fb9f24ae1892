"""The start: its permission is spent once, and what cannot be known to have begun is not begun."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from support.desk import Desk, approved
from support.worker_tools import VARIABLE, effects
from wakegate_schema import clock
from wakegate_schema.records import Approval, Execution, Lease
from wakegate_schema.states import State
from wakegate_schema.store import Store, StoreUnavailable
from wakegate_schema.wire import ApprovalRequest, parse_object
from wakegate_worker.clocks import ClockVerdict
from wakegate_worker.decisions import Reading
from wakegate_worker.host_clock import HostClock
from wakegate_worker.keeping import Keeping
from wakegate_worker.recording import Recorder
from wakegate_worker.starting import Starting
from wakegate_worker.stopping import Interrupted, Stop
from wakegate_worker.threads import Threads
from wakegate_worker.tool_modules import load_tools


class Bench:
    """A `Starting` on a real store, with clocks a test can set."""

    def __init__(self, store: Store, directory: Path) -> None:
        self.store = store
        self.desk = Desk(store)
        self.path = directory / "effects"
        self.wall = 0
        """Added to the wall clock, µs."""
        self.monotonic = 0.0
        """Added to the monotonic clock from its second reading on, seconds."""
        self._readings = 0
        self.stop = Stop()
        self.clock = HostClock(store, host="here", now=lambda: clock.now() + self.wall)
        self.recorder = Recorder(store, now=clock.now, woken=asyncio.Event(), doubted=asyncio.Event())
        self.starting = Starting(
            store,
            load_tools(["support.worker_tools"]),
            threads=Threads(4),
            keeping=Keeping(store, lease_s=2.0, now=clock.now),
            recorder=self.recorder,
            clock=self.clock,
            lease_s=2.0,
            stop=self.stop,
            monotonic=self._monotonic,
        )

    def _monotonic(self) -> float:
        self._readings += 1
        return time.monotonic() + (self.monotonic if self._readings > 1 else 0.0)

    async def waiting(self, **changes: Any) -> Execution:
        return await self.desk.waiting(**changes)

    async def start(self, execution: Execution, approval: Approval | None = None) -> Execution:
        """Go through the start as `Resumption` does, and return what is on record after it."""
        approval, reading = approval or approved(), read_now(execution)
        assert await self.starting.check_time(approval, reading) is ClockVerdict.IN_TIME
        await self.starting.start(execution, approval, self.starting.prepare(execution), reading)
        await self.recorder.finish(5)
        return await self.store.execution(execution.execution_id)

    @property
    def effects(self) -> list[str]:
        return effects(self.path)


def read_now(execution: Execution) -> Reading:
    """A reading whose request nobody looks at any more."""
    request = parse_object(
        ApprovalRequest,
        b'{"id":"7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71","tool":"issue_refund","arguments":{},"timeout":"30m",'
        b'"status":"pending","created_at":"2026-09-16T12:00:00Z","deadline_at":"2026-09-16T12:30:00Z"}',
    )
    return Reading(request, time.time(), time.monotonic())


@pytest.fixture
async def bench(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench with an open desk."""
    made = Bench(store, tmp_path)
    monkeypatch.setenv(VARIABLE, str(made.path))
    await made.desk.open()
    return made


async def test_a_started_call_runs_and_is_recorded(bench: Bench) -> None:
    waiting = await bench.waiting()
    done = await bench.start(waiting)
    assert (done.state, done.attempt_number) == (State.SUCCEEDED, waiting.lease_number)
    assert bench.effects == [waiting.execution_id]


async def test_the_second_entry_into_the_same_start_runs_nothing(bench: Bench) -> None:
    waiting = await bench.waiting()
    await bench.start(waiting)
    done = await bench.start(waiting)
    assert done.state is State.SUCCEEDED
    assert bench.effects == [waiting.execution_id]


async def test_fifty_entries_at_once_run_it_once(bench: Bench) -> None:
    waiting = await bench.waiting()
    await asyncio.gather(*(bench.start(waiting) for _ in range(50)))
    assert bench.effects == [waiting.execution_id]


async def test_a_lost_lease_starts_nothing(bench: Bench) -> None:
    waiting = await bench.waiting()
    await bench.store.release(waiting.lease, clock.now(), None, clock.now())
    assert (await bench.start(waiting)).state is State.WAITING
    assert bench.effects == []


async def test_an_approval_that_ends_during_the_start_is_spent_without_a_call(bench: Bench) -> None:
    bench.monotonic = 3600.0
    waiting = await bench.waiting()
    done = await bench.start(waiting)
    assert (done.state, done.reason) == (State.LAPSED, "approval_expired")
    assert bench.effects == []


async def test_a_process_that_was_held_up_for_a_lease_begins_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = bench.store.start

    async def held_up(lease: Lease, approval: Approval, at: int, until: int) -> Execution | None:
        started = await start(lease, approval, at, until)
        bench.wall = 3 * clock.SECOND
        return started

    monkeypatch.setattr(bench.store, "start", held_up)
    waiting = await bench.waiting()
    done = await bench.start(waiting)
    assert (done.state, done.reason) == (State.LAPSED, "start_too_slow")
    assert bench.effects == []


async def test_a_clock_set_back_permits_no_start(bench: Bench) -> None:
    waiting = await bench.waiting()
    await bench.starting.check_time(approved(), read_now(waiting))
    bench.wall = -60 * clock.SECOND
    verdict = await bench.starting.check_time(approved(), read_now(waiting))
    assert verdict is ClockVerdict.CLOCK_BEHIND


async def test_a_clock_set_back_before_this_process_began_is_noticed(bench: Bench) -> None:
    await bench.store.mark_clock("here", clock.now() + clock.HOUR)
    waiting = await bench.waiting()
    assert await bench.starting.check_time(approved(), read_now(waiting)) is ClockVerdict.CLOCK_BEHIND


async def test_the_clock_mark_is_stored_at_most_once_a_second(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    marks: list[int] = []
    mark_clock = bench.store.mark_clock

    async def counting(host: str, at: int) -> int:
        marks.append(at)
        return await mark_clock(host, at)

    monkeypatch.setattr(bench.store, "mark_clock", counting)
    for _ in range(10):
        await bench.clock.mark()
    bench.wall = 2 * clock.SECOND
    await bench.clock.mark()
    assert len(marks) == 2


async def test_a_lost_answer_to_the_start_is_read_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_start(bench, monkeypatch, committed=True)
    waiting = await bench.waiting()
    assert (await bench.start(waiting)).state is State.SUCCEEDED
    assert bench.effects == [waiting.execution_id]


async def test_a_start_that_was_not_committed_runs_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_start(bench, monkeypatch, committed=False)
    waiting = await bench.waiting()
    assert (await bench.start(waiting)).state is State.WAITING
    assert bench.effects == []


async def test_a_start_that_cannot_be_read_again_is_not_begun(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    lose_start(bench, monkeypatch, committed=True)
    waiting = await bench.waiting()
    execution = bench.store.execution

    async def unreadable(execution_id: str) -> Execution:
        monkeypatch.setattr(bench.store, "execution", execution)
        raise StoreUnavailable

    monkeypatch.setattr(bench.store, "execution", unreadable)
    done = await bench.start(waiting)
    assert (done.state, done.reason) == (State.LAPSED, "start_unconfirmed")
    assert bench.effects == []


async def test_a_start_read_back_from_a_wal_that_was_removed_meanwhile_is_not_begun(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    wal = Path(f"{database.removeprefix('sqlite:///')}-wal")
    start = bench.store.start

    async def forgotten(lease: Lease, approval: Approval, at: int, until: int) -> Execution | None:
        await start(lease, approval, at, until)
        wal.unlink()
        raise StoreUnavailable(reason="store_timeout")

    waiting = await bench.waiting()
    monkeypatch.setattr(bench.store, "start", forgotten)
    async with asyncio.timeout(30):  # begun, it would try for ever to record what came of it
        read_back = await bench.start(waiting)
    assert read_back.state is State.STARTED, "it can be read, and nobody who opens the store anew finds it"
    assert bench.effects == []


async def test_an_outcome_is_told_until_the_store_has_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    finish, refusals = bench.store.finish, [StoreUnavailable(), StoreUnavailable(), StoreUnavailable()]

    async def failing(*arguments: Any, **named: Any) -> Execution:
        if refusals:
            raise refusals.pop()
        return await finish(*arguments, **named)

    monkeypatch.setattr(bench.store, "finish", failing)
    assert (await bench.start(await bench.waiting())).state is State.SUCCEEDED
    assert refusals == []


async def test_a_second_entry_whose_answer_is_lost_does_not_take_the_first_for_its_own(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await bench.waiting(tool="take_a_tenth")
    first = asyncio.create_task(bench.start(waiting))
    while not bench.effects:
        await asyncio.sleep(0.01)
    lose_start(bench, monkeypatch, committed=False)
    await bench.start(waiting)
    await first
    assert bench.effects == [waiting.execution_id]


async def test_a_stop_that_was_asked_for_starts_nothing(bench: Bench) -> None:
    waiting = await bench.waiting()
    bench.stop.request()
    with pytest.raises(Interrupted):
        await bench.start(waiting)
    assert (await bench.store.execution(waiting.execution_id)).state is State.WAITING
    assert bench.effects == []


def lose_start(bench: Bench, monkeypatch: pytest.MonkeyPatch, *, committed: bool) -> None:
    """Let the next start's answer get lost, after its commit or instead of it."""
    start = bench.store.start

    async def lost(lease: Lease, approval: Approval, at: int, until: int) -> Execution | None:
        if committed:
            await start(lease, approval, at, until)
        raise StoreUnavailable

    monkeypatch.setattr(bench.store, "start", lost)
