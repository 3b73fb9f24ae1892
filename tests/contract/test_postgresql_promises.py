"""PostgreSQL with a synchronous standby that does not answer: what can be read back is no promise."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest

from support.desk import Desk, approved, new_id
from support.servers import PostgresServer
from support.servers.process import until
from wakegate_schema import clock
from wakegate_schema.records import Challenge, Outcome
from wakegate_schema.store import StoreUnavailable, migrate_store, open_store

WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
CANCEL = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server whose commits can be made to wait."""
    with PostgresServer() as started:
        yield started


@pytest.fixture
async def desk(server: PostgresServer) -> AsyncIterator[Desk]:
    """A desk in a store of its own on it."""
    server.set_synchronous("")
    url = server.url(server.create_database(f"store_{new_id()}"))
    await migrate_store(url)
    async with await open_store(url, mode="use") as store:
        yield await Desk(store).open()


async def unconfirmed(server: PostgresServer, act: Callable[[], Awaitable[Any]]) -> None:
    """Do something, and break off its commit's wait for the standby: it is done, and not promised."""
    doing = asyncio.ensure_future(act())
    await asyncio.to_thread(until, lambda: doing.done() or server.ask(WAITING) == 1, "the commit does not wait")
    assert not doing.done(), "it was promised without a standby"
    assert server.ask(CANCEL) == 1
    with pytest.raises(StoreUnavailable) as refused:
        await doing
    assert refused.value.reason == "commit_unconfirmed"


async def test_a_repeat_waits_for_the_standby_too(desk: Desk, server: PostgresServer) -> None:
    store, now = desk.store, clock.now()
    arrival, suspension, attempt = desk.arrival(new_id()), desk.suspension(), await desk.started()
    permitted = await desk.permitted()
    other, third = Desk(store), await Desk(store, name="third").open()
    await store.add_registration(other.registration())
    given_up, grouped = await desk.waiting(), await desk.save(group="turn", wake="mine")
    acts: list[Callable[[], Awaitable[Any]]] = [
        lambda: store.record(arrival),
        lambda: store.bind(Challenge(other.registration_id, other.instance_id, now)),
        lambda: store.save(suspension),
        lambda: store.claim(permitted.execution_id, "claim", now, now + clock.MINUTE, 0),
        lambda: store.finish(attempt.lease, Outcome("succeeded", "returned"), now),
        lambda: store.abandon(given_up.execution_id, "over", "harness", now),
        lambda: store.seal_group(grouped.provider, grouped.instance_id, "turn", now),
        lambda: store.retire_registration(third.registration_id, now),
        lambda: store.retire_instance(third.provider, third.instance_id, "operator:mika", now),
    ]
    server.set_synchronous("nobody")
    for act in acts:
        await unconfirmed(server, act)
        await unconfirmed(server, act)
    server.set_synchronous("")
    for act in acts:
        await act()


async def test_a_start_counts_once_a_later_commit_is_known_to_last(desk: Desk, server: PostgresServer) -> None:
    waiting = await desk.waiting()
    now = clock.now()
    server.set_synchronous("nobody")
    await unconfirmed(server, lambda: desk.store.start(waiting.lease, approved(), now, now + clock.MINUTE))
    assert (await desk.store.execution(waiting.execution_id)).state == "started", "it can be read"
    await unconfirmed(server, lambda: desk.store.renew(waiting.lease, now, now + clock.MINUTE))
    server.set_synchronous("")
    assert await desk.store.renew(waiting.lease, now, now + clock.MINUTE)
