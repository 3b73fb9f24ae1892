"""PostgreSQL's connections and servers that go away at any moment: nothing is promised that is not there."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from support.desk import Desk, new_id
from support.disks import Disk, small_disk
from support.outages import administrating, cut, database_name, shut
from support.postgres_line import Line, line
from support.servers import PgBouncer, PostgresServer
from support.servers.process import NOBODY
from wakegate_schema.states import State
from wakegate_schema.store import Store, StoreUnavailable, group_commit, migrate_store, open_store, reader

HERE = Path(__file__).parent
MESSAGES = 5
"""From BEGIN to COMMIT, when one notification is recorded."""


@pytest.fixture
async def relay(postgres_server: PostgresServer, empty_store_url: str) -> AsyncIterator[Line]:
    """A line to the server that can be broken."""
    async with line(postgres_server) as opened:
        yield opened


@pytest.fixture
async def far(relay: Line, empty_store_url: str) -> AsyncIterator[Desk]:
    """A desk at the other end of the line."""
    async with await open_store(relay.url(database_name(empty_store_url)), mode="use") as store:
        yield await Desk(store).open()


async def recorded(desk: Desk) -> list[str]:
    """The event ids on record."""
    found: list[str] = []
    after = 0
    while page := await desk.store.notifications(after=after):
        found += [notification.event_id for _, notification in page]
        after = page[-1][0]
    return found


async def test_a_connection_cut_at_any_message_promises_nothing_and_loses_nothing(far: Desk, relay: Line) -> None:
    await far.store.record(far.arrival(new_id()))
    for message in range(MESSAGES):
        for moment in ("before", "after"):
            arrival = far.arrival(new_id())
            relay.break_at(message, "before" if moment == "before" else "after")
            if message == 0:  # nothing can have happened: the engine begins once more
                assert (await far.store.record(arrival)).kind == "saved"
                continue
            with pytest.raises(StoreUnavailable):
                await far.store.record(arrival)
            there = arrival.event_id in await recorded(far)
            assert there == ((message, moment) == (MESSAGES - 1, "after")), "only a COMMIT that arrived was done"
            assert (await far.store.record(arrival)).kind == ("duplicate" if there else "saved")
    assert len(relay.broken) == 2 * MESSAGES
    assert b"COMMIT" in relay.broken[-1]
    found = await recorded(far)
    assert len(found) == len(set(found)) == 1 + 2 * MESSAGES


async def test_a_start_whose_answer_is_lost_is_on_record_once(far: Desk, relay: Line) -> None:
    permitted = await far.permitted()
    now = permitted.changed_at
    relay.break_at(2, "after")
    with pytest.raises(StoreUnavailable):
        await far.store.claim(permitted.execution_id, "claim", now, now + 10_000_000, 0)
    assert b"COMMIT" in relay.broken[-1]
    found = await far.store.execution(permitted.execution_id)
    assert (found.state, found.claim_id) == (State.STARTED, "claim")
    assert [t.to_state for t in await far.store.transitions(permitted.execution_id)].count(State.STARTED) == 1


async def test_connections_that_were_cut_while_idle_are_made_anew_unseen(far: Desk, relay: Line) -> None:
    number = await far.store.changed(-1, 0)
    for _ in range(3):
        relay.cut()
        assert (await far.store.record(far.arrival(new_id()))).kind == "saved"
        relay.cut()
        assert await recorded(far)
    assert await far.store.changed(number, 5) != number


async def test_a_line_that_falls_silent_promises_nothing(
    far: Desk, relay: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrival = far.arrival(new_id())
    with monkeypatch.context() as patched:
        patched.setattr(group_commit, "PATIENCE_S", 0.3)
        relay.silent = True
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await far.store.record(arrival)
        relay.silent = False
    assert (await far.store.record(arrival)).kind in ("saved", "duplicate")
    assert await recorded(far) == [arrival.event_id]


async def test_a_table_that_somebody_has_locked_holds_no_reader_for_ever(
    desk: Desk, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = await desk.save()
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE execution IN ACCESS EXCLUSIVE MODE")
        with monkeypatch.context() as patched:
            patched.setattr(reader, "PATIENCE_S", 0.3)
            with pytest.raises(StoreUnavailable) as refused:
                await desk.store.execution(saved.execution_id)
            assert refused.value.reason == "store_timeout"
            async with await open_store(database, mode="use") as second:
                with pytest.raises(StoreUnavailable):
                    await second.execution(saved.execution_id)
            # It is closed, though what it reads has not ended.
    assert await desk.store.execution(saved.execution_id) == saved


async def test_backends_that_are_terminated_under_load_lose_nothing(desk: Desk, database: str) -> None:
    acknowledged: set[str] = set()
    over = False

    async def deliver() -> None:
        while not over:
            arrival = desk.arrival(new_id())
            try:
                await desk.store.record(arrival)
            except StoreUnavailable:
                continue
            acknowledged.add(arrival.event_id)

    deliveries = [asyncio.create_task(deliver()) for _ in range(4)]
    with administrating(database) as connection:
        for _ in range(12):
            await asyncio.sleep(0.03)
            await asyncio.to_thread(cut, connection, database_name(database))
    over = True
    await asyncio.gather(*deliveries)
    assert acknowledged <= set(await recorded(desk))


async def test_a_server_that_lets_nobody_in_is_unavailable_and_comes_back(desk: Desk, database: str) -> None:
    number = await desk.store.changed(-1, 0)
    with shut(database):
        for use in (desk.store.probe, desk.store.instances):
            with pytest.raises(StoreUnavailable):
                await use()
        assert await desk.store.changed(number, 0) != number, "who waits is told that something is different"
    assert (await desk.store.record(desk.arrival(new_id()))).kind == "saved"


async def test_a_stopped_process_loses_its_turn_and_others_only_wait(desk: Desk, database: str) -> None:
    command = [sys.executable, str(HERE / "holder.py"), database]
    environment = {"PYTHONPATH": str(HERE.parent)}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        assert (await desk.store.record(desk.arrival(new_id()))).kind == "saved"
        assert time.monotonic() - begun < group_commit.PATIENCE_S
        holder.send_signal(signal.SIGCONT)
        _, said = holder.communicate("\n")
    assert holder.returncode != 0
    assert "StoreUnavailable" in said


# A server of one's own


@pytest.fixture(scope="module")
def durable() -> Iterator[PostgresServer]:
    """A server whose commits are on disk."""
    with PostgresServer(durable=True) as server:
        yield server


@pytest.fixture
async def there(durable: PostgresServer) -> AsyncIterator[Desk]:
    """A desk in a store of its own on it."""
    url = durable.url(durable.create_database(f"store_{new_id()}"))
    await migrate_store(url)
    async with await open_store(url, mode="use") as store:
        yield await Desk(store).open()


async def test_what_was_acknowledged_survives_the_death_of_the_server(there: Desk, durable: PostgresServer) -> None:
    acknowledged: set[str] = set()

    async def deliver() -> None:
        while durable.alive:
            arrival = there.arrival(new_id())
            try:
                await there.store.record(arrival)
            except StoreUnavailable:
                return
            acknowledged.add(arrival.event_id)

    for _ in range(2):
        deliveries = [asyncio.create_task(deliver()) for _ in range(8)]
        await asyncio.sleep(0.3)
        await asyncio.to_thread(durable.kill)
        await asyncio.gather(*deliveries)
        with pytest.raises(StoreUnavailable):
            await there.store.probe()
        await asyncio.to_thread(durable.start)
    assert acknowledged
    assert acknowledged <= set(await recorded(there))
    assert (await there.store.record(there.arrival(new_id()))).kind == "saved"


async def test_a_restart_of_the_server_is_survived_by_who_was_idle(there: Desk, durable: PostgresServer) -> None:
    await asyncio.to_thread(durable.restart)
    assert (await there.store.record(there.arrival(new_id()))).kind == "saved"
    assert len(await recorded(there)) == 1


# Behind a pooler


@pytest.fixture
def pooler(postgres_server: PostgresServer) -> Iterator[PgBouncer]:
    """A pooler that gives each transaction whatever connection is free."""
    with PgBouncer(postgres_server, pool=3) as running:
        yield running


async def test_several_stores_work_behind_a_pooler_that_mixes_their_transactions(
    pooler: PgBouncer, empty_store_url: str
) -> None:
    url = pooler.url(database_name(empty_store_url))
    stores = [await open_store(url, mode="use") for _ in range(5)]
    try:
        desks = [await Desk(store, name=f"desk-{number}").open() for number, store in enumerate(stores)]
        receipts = await asyncio.gather(
            *(each.store.record(each.arrival(new_id())) for each in desks for _ in range(20)),
        )
        assert {receipt.kind for receipt in receipts} == {"saved"}
        started = await asyncio.gather(*(each.started() for each in desks), return_exceptions=True)
        assert any(not isinstance(each, BaseException) for each in started)  # whoever leases first has them all
        await asyncio.to_thread(pooler.restart)
        for each in desks:
            assert (await each.store.record(each.arrival(new_id()))).kind == "saved"
            assert await each.store.instances()
    finally:
        for store in stores:
            await store.close()


async def test_a_pooler_that_goes_away_promises_nothing(pooler: PgBouncer, empty_store_url: str, store: Store) -> None:
    assert store is not None
    async with await open_store(pooler.url(database_name(empty_store_url)), mode="use") as pooled:
        here = await Desk(pooled).open()
        await asyncio.to_thread(pooler.stop)
        with pytest.raises(StoreUnavailable):
            await pooled.record(here.arrival(new_id()))
        await asyncio.to_thread(pooler.start)
        assert (await pooled.record(here.arrival(new_id()))).kind == "saved"


# A full disk


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's user can come to."""
    made = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


async def test_a_full_disk_refuses_and_room_heals(postgres_server: PostgresServer, folder: Path) -> None:
    if os.geteuid() != 0 and "CI" not in os.environ:
        pytest.skip("only root gives a server a small disk")
    with small_disk(folder / "disk", 40_000) as disk:
        os.chown(disk.path, NOBODY, NOBODY)
        with administrating(postgres_server.url()) as connection:
            connection.execute(sql.SQL("CREATE TABLESPACE small LOCATION {}").format(sql.Literal(str(disk.path))))
            connection.execute("CREATE DATABASE on_small TEMPLATE template0 TABLESPACE small")
            try:
                await fill_and_free(postgres_server.url("on_small"), disk)
            finally:
                connection.execute("DROP DATABASE on_small WITH (FORCE)")
                connection.execute("DROP TABLESPACE small")


async def fill_and_free(url: str, disk: Disk) -> None:
    """Record until there is no room, and again when there is."""
    await migrate_store(url)
    acknowledged: set[str] = set()
    async with await open_store(url, mode="use") as store:
        here = await Desk(store).open()

        async def fill() -> None:
            for _ in range(1000):
                arrival = here.arrival(new_id(), body=os.urandom(4000))
                await store.record(arrival)
                acknowledged.add(arrival.event_id)

        disk.fill()
        with pytest.raises(StoreUnavailable) as refused:
            await fill()
        assert refused.value.reason == "disk_full"
        disk.empty()
        assert (await store.record(here.arrival(new_id()))).kind == "saved"
        assert acknowledged <= set(await recorded(here))
