"""The worker's inner parts: slots, long polls, the stop, the pump and periodic work."""

import asyncio

import pytest
from structlog.testing import capture_logs

from wakegate_schema.store import StoreUnavailable
from wakegate_worker import pump as pumping
from wakegate_worker.exchanges import Exchanges, ProviderBusy
from wakegate_worker.long_polls import LongPolls
from wakegate_worker.periodic import every
from wakegate_worker.pump import Pump
from wakegate_worker.repeats import is_told
from wakegate_worker.slots import Slots
from wakegate_worker.stopping import Interrupted, Stop


async def answer(word: str, at: asyncio.Event | None = None) -> str:
    if at is not None:
        await at.wait()
    return word


async def test_a_long_poll_returns_its_answer() -> None:
    assert await LongPolls(1).run(5, answer("decided")) == "decided"


async def test_a_sooner_deadline_takes_the_place_of_the_latest() -> None:
    polls, never = LongPolls(2), asyncio.Event()
    late = asyncio.create_task(polls.run(30, answer("late", never)))
    later = asyncio.create_task(polls.run(40, answer("later", never)))
    await asyncio.sleep(0)
    soon = asyncio.create_task(polls.run(10, answer("soon", never)))
    assert await asyncio.wait_for(later, 1) is None
    assert not late.done()
    never.set()
    assert (await soon, await late) == ("soon", "late")


async def test_a_later_deadline_gets_no_place_among_sooner_ones() -> None:
    polls, never = LongPolls(1), asyncio.Event()
    first = asyncio.create_task(polls.run(10, answer("first", never)))
    await asyncio.sleep(0)
    assert await polls.run(10, answer("second")) is None
    never.set()
    assert await first == "first"
    assert await polls.run(99, answer("third")) == "third"


async def test_a_poll_that_fails_gives_its_place_back() -> None:
    async def fail() -> str:
        raise ConnectionResetError

    polls = LongPolls(1)
    with pytest.raises(ConnectionResetError):
        await polls.run(5, fail())
    assert await polls.run(5, answer("next")) == "next"


async def test_a_stop_breaks_off_only_what_is_interruptible() -> None:
    stop, reached = Stop(), asyncio.Event()

    async def work() -> str:
        reached.set()
        with pytest.raises(Interrupted), stop.interruptible():
            await asyncio.sleep(60)
        await asyncio.sleep(0.01)
        return "given back"

    async def important() -> str:
        await reached.wait()
        stop.request()
        await asyncio.sleep(0.01)
        return "done"

    assert list(await asyncio.gather(work(), important())) == ["given back", "done"]
    assert stop.requested
    assert not stop.forced.is_set()


async def test_after_a_stop_nothing_interruptible_begins() -> None:
    stop = Stop()
    stop.request()
    with pytest.raises(Interrupted), stop.interruptible():
        pytest.fail("it began")


async def test_a_cancellation_of_somebody_elses_stays_one() -> None:
    stop = Stop()

    async def work() -> None:
        with stop.interruptible():
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_second_request_forces_the_stop() -> None:
    stop = Stop()
    stop.request()
    stop.request()
    assert stop.forced.is_set()


async def test_a_pause_ends_early_at_an_event_and_clears_it() -> None:
    stop, event = Stop(), asyncio.Event()
    event.set()
    await asyncio.wait_for(stop.pause(60, event), 1)
    assert not event.is_set()
    stop.request()
    await asyncio.wait_for(stop.pause(60), 1)


class Work:
    """A stream of numbered items for a pump."""

    def __init__(self, stop: Stop, count: int, size: int) -> None:
        self.items = list(range(count))
        self.size = size
        self.running = 0
        self.most = 0
        self.done: list[int] = []
        self.stop = stop
        self.failures: list[Exception] = []

    async def take(self, limit: int) -> list[int]:
        if self.failures:
            raise self.failures.pop()
        taken, self.items = self.items[:limit], self.items[limit:]
        return taken

    async def handle(self, item: int) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(0.001)
            if item == 3:
                raise ValueError(item)
            if item == 4:
                raise StoreUnavailable
            self.done.append(item)
        finally:
            self.running -= 1

    async def wait(self) -> None:
        await asyncio.sleep(0.001)
        if not self.items and not self.running:
            self.stop.request()

    def pump(self) -> Pump[int]:
        return Pump("test", slots=Slots(self.size), take=self.take, handle=self.handle, wait=self.wait, stop=self.stop)


async def test_a_pump_works_on_everything_and_never_on_too_much_at_once() -> None:
    work = Work(Stop(), 20, 4)
    pump = work.pump()
    with capture_logs() as lines:
        await asyncio.wait_for(pump.run(), 10)
    assert await pump.finish(1) == 0
    assert sorted(work.done) == [n for n in range(20) if n not in (3, 4)]
    assert work.most == 4
    assert [line["log_level"] for line in lines] == ["error", "warning"]


async def test_a_pump_survives_what_fails_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pumping, "PAUSE_AFTER_FAILURE_S", 0.001)
    work = Work(Stop(), 3, 2)
    work.failures = [ValueError(), StoreUnavailable()]
    with capture_logs():
        await asyncio.wait_for(work.pump().run(), 10)
    assert sorted(work.done) == [0, 1, 2]


async def test_a_pump_gives_up_what_does_not_end_in_time() -> None:
    stop = Stop()
    ended: list[str] = []

    async def take(limit: int) -> list[str]:
        return [] if ended else ["long"]

    async def handle(item: str) -> None:
        ended.append(item)
        await asyncio.sleep(60)

    pump = Pump("test", slots=Slots(1), take=take, handle=handle, wait=stop.wait, stop=stop)
    running = asyncio.create_task(pump.run())
    while not ended:
        await asyncio.sleep(0.001)
    stop.request()
    await running
    assert await pump.finish(0.01) == 1
    assert await pump.finish(0.01) == 0


async def test_a_lent_slot_is_free_for_others_meanwhile() -> None:
    slots = Slots(1)
    slots.take()
    assert slots.free == 0
    with slots.lent():
        assert slots.free == 1
    assert slots.free == 0


async def test_an_exchange_that_takes_long_leaves_its_slot_until_it_ends() -> None:
    slots = Slots(1)
    slots.take()
    with Exchanges(slots, 1, slow_s=0.01).under_way("https://one.example"):
        assert slots.free == 0
        await asyncio.sleep(0.03)
        assert slots.free == 1
    assert slots.free == 0


async def test_a_provider_with_too_many_slow_exchanges_is_asked_nothing_more_until_one_ends() -> None:
    slots, one = Slots(4), "https://one.example"
    exchanges = Exchanges(slots, 2, slow_s=0.01)
    with exchanges.under_way(one):
        with exchanges.under_way(one), exchanges.under_way(one):
            await asyncio.sleep(0.03)
            with pytest.raises(ProviderBusy), exchanges.under_way(one):
                pytest.fail("it was asked")
            with exchanges.under_way("https://two.example"):
                pass
        with exchanges.under_way(one):
            pass


async def test_an_exchange_that_fails_soon_changes_nothing() -> None:
    slots = Slots(1)
    slots.take()
    exchanges = Exchanges(slots, 1, slow_s=0.01)
    with pytest.raises(ConnectionResetError), exchanges.under_way("https://one.example"):
        raise ConnectionResetError
    await asyncio.sleep(0.03)
    assert slots.free == 0


def test_of_many_tries_those_are_told_that_say_something_new_and_then_few() -> None:
    assert [tries for tries in range(1, 2000) if is_told(tries)] == [1, 10, 100, 1000]
    assert is_told(7, changed=True)


async def test_periodic_work_goes_on_after_a_failure_and_ends_with_the_stop() -> None:
    stop, times = Stop(), []

    async def job() -> float | None:
        times.append(1)
        if len(times) == 1:
            raise StoreUnavailable
        if len(times) == 2:
            raise ValueError
        if len(times) == 4:
            stop.request()
        return 0.001

    with capture_logs():
        await asyncio.wait_for(every(0.001, "test", job, stop=stop), 5)
    assert len(times) == 4
