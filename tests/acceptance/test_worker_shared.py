"""What many calls of one worker need at the same time is read, and written, once; and it is never older than asked."""

import asyncio
from typing import Any

import pytest

from support.desk import Desk
from wakegate_schema import clock, clock_mark
from wakegate_schema.records import Identity, Instance
from wakegate_schema.store import Store
from wakegate_worker.host_clock import HostClock
from wakegate_worker.reading_once import ReadingOnce


@pytest.fixture
async def desk(store: Store) -> Desk:
    """An open desk."""
    return await Desk(store).open()


def counted(monkeypatch: pytest.MonkeyPatch, store: Store, verb: str) -> list[tuple[Any, ...]]:
    """Every use of one of the store's verbs from now on."""
    used: list[tuple[Any, ...]] = []
    real = getattr(store, verb)

    async def use(*args: Any) -> Any:
        used.append(args)
        return await real(*args)

    monkeypatch.setattr(store, verb, use)
    return used


def instances_of(desk: Desk) -> ReadingOnce[Identity, Instance]:
    """What reads instances, as the worker has it."""
    return ReadingOnce(lambda key: desk.store.instance(*key))


async def test_who_asks_at_once_shares_one_reading_of_an_instance(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    used, instances = counted(monkeypatch, desk.store, "instance"), instances_of(desk)
    found = await asyncio.gather(*(instances.read((desk.provider, desk.instance_id)) for _ in range(64)))
    assert {each.instance_id for each in found} == {desk.instance_id}
    assert len(used) == 1


async def test_nobody_is_given_an_instance_as_it_was_before_he_asked(desk: Desk) -> None:
    instances = instances_of(desk)
    first = asyncio.create_task(instances.read((desk.provider, desk.instance_id)))
    await asyncio.sleep(0)  # it has asked
    assert await desk.store.park_instance(desk.provider, desk.instance_id, "credential_refused", b"sealed token")
    assert (await instances.read((desk.provider, desk.instance_id))).state == "parked"
    await first


async def test_who_gives_up_takes_the_reading_from_nobody(desk: Desk) -> None:
    instances = instances_of(desk)
    one, other = (asyncio.create_task(instances.read((desk.provider, desk.instance_id))) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    assert (await other).state == "active"


async def test_many_starts_at_once_mark_the_clock_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    used, host = counted(monkeypatch, store, "mark_clock"), HostClock(store, host="here")
    host.mark_soon()
    before = clock.now()
    assert all(highest >= before - clock.SECOND for highest in await asyncio.gather(*(host.mark() for _ in range(64))))
    assert len(used) == 1


async def test_a_clock_set_back_while_it_is_being_marked_is_not_believed(store: Store) -> None:
    wall = clock.now()
    host = HostClock(store, host="here", now=lambda: wall)
    host.mark_soon()
    wall -= clock.HOUR
    assert clock_mark.is_behind(wall, await host.mark())


async def test_a_reading_that_is_later_than_the_marking_it_joined_is_noted_too(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall, answers, mark = clock.now(), asyncio.Event(), store.mark_clock

    async def held(host: str, now: int) -> int:
        await answers.wait()
        return await mark(host, now)

    monkeypatch.setattr(store, "mark_clock", held)
    host = HostClock(store, host="here", now=lambda: wall)
    host.mark_soon()
    await asyncio.sleep(0)
    wall += 9 * clock.SECOND  # the store is slow
    marking = asyncio.create_task(host.mark())
    await asyncio.sleep(0)
    answers.set()
    await marking
    assert await mark("here", wall - clock.MINUTE) >= wall


async def test_a_mark_that_was_reset_is_believed_at_the_next_look(store: Store) -> None:
    wall = clock.now() + clock.DAY
    host = HostClock(store, host="here", now=lambda: wall)
    await host.mark()
    wall -= clock.DAY
    assert clock_mark.is_behind(wall, await host.mark())
    await store.reset_clock("here", "operator:jo", wall)
    assert not clock_mark.is_behind(wall, await host.mark())
