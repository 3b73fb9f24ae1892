"""The stream: every resolution at least once, in order, from any place on, for whoever may hear it and as long."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest

from support.control import Site, by_token, control_process, control_site, process_in, token_of
from support.desk import Desk
from wakegate_schema import clock, fault_points
from wakegate_schema.fault_points import TEST_FAULT
from wakegate_schema.records import Outcome
from wakegate_schema.store import Store, open_store

TABLES = {"desk": by_token("desk", "refund-desk")}


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with control_site(TABLES) as found:
        yield found


@pytest.fixture
async def desk(site: Site) -> Desk:
    return await Desk(site.store, name="refund-desk").open()


async def resolved(desk: Desk) -> str:
    saved = await desk.save()
    await desk.store.abandon(saved.execution_id, "closed", "harness", clock.now())
    return saved.execution_id


async def test_the_first_event_says_where_the_stream_begins(site: Site, desk: Desk) -> None:
    await resolved(desk)
    async with site.stream("desk") as stream:
        assert stream.answer.headers["Content-Type"] == "text/event-stream"
        assert stream.answer.headers["Cache-Control"] == "no-store"
        cursor, kind, data = await stream.next()
        assert (kind, data) == ("ready", {})
        assert cursor.startswith("1-")
        mine = await resolved(desk)
        _, kind, data = await stream.next()
        assert (kind, data["execution_id"], data["state"]) == ("resolution", mine, "abandoned")


async def test_a_resolution_says_what_a_wake_would(site: Site, desk: Desk) -> None:
    async with site.stream("desk") as stream:
        await stream.next()
        started = await desk.started("harness")
        _, _, permitted = await stream.next()
        assert (permitted["state"], permitted["id"]) == ("permitted", f"{started.execution_id}_4")
        worker = await desk.started()
        await desk.store.finish(worker.lease, Outcome("succeeded", "returned", result=b'{"a":1.50}'), clock.now())
        _, _, succeeded = await stream.next()
        assert (succeeded["state"], succeeded["result"], succeeded["reason"]) == ("succeeded", {"a": 1.5}, "returned")


async def test_a_stream_goes_on_after_the_last_event_that_was_seen(site: Site, desk: Desk) -> None:
    mine = [await resolved(desk) for _ in range(5)]
    async with site.stream("desk", "?after=") as stream:
        events = [await stream.next() for _ in range(6)]
    assert [data["execution_id"] for _, kind, data in events if kind == "resolution"] == mine
    cursors = [cursor for cursor, _, _ in events]
    for place, cursor in enumerate(cursors):
        header = {"Last-Event-ID": cursor}
        for query, headers in ((f"?after={cursor}", {}), ("", header), ("?after=", header)):
            async with site.stream("desk", query, **headers) as again:
                assert (await again.next())[:2] == (cursor, "ready")
                assert [(await again.next())[0] for _ in range(5 - place)] == cursors[place + 1 :]


@pytest.mark.parametrize("cursor", ["x", "1", "1-", "0-1", "1--1", "1-99999999999999999999", "1-4503599627370496"])
async def test_what_is_no_cursor_is_refused(site: Site, desk: Desk, cursor: str) -> None:
    del desk
    async with site.voice("desk") as ask:
        for answer in (
            await ask("GET", f"/v1/resolutions?after={cursor}"),
            await ask("GET", "/v1/resolutions", **{"Last-Event-ID": cursor}),
        ):
            assert (answer.status, answer.reason, answer.value["path"]) == (400, "bad_cursor", "after")


async def test_more_than_a_page_comes_in_order(site: Site, desk: Desk) -> None:
    mine = [await resolved(desk) for _ in range(130)]
    async with site.stream("desk", "?after=") as stream:
        await stream.next()
        assert [(await stream.next())[2]["execution_id"] for _ in mine] == mine


async def test_what_another_process_commits_is_told_at_once(site: Site, desk: Desk) -> None:
    async with await open_store(site.settings.database, mode="use") as other, site.stream("desk") as stream:
        await stream.next()
        saved = await desk.save()
        began = asyncio.get_running_loop().time()
        await other.abandon(saved.execution_id, "closed", "harness", clock.now())
        await stream.next()
        assert asyncio.get_running_loop().time() - began < 2


async def test_an_instance_made_meanwhile_is_heard_of(site: Site) -> None:
    async with site.stream("desk") as stream:
        await stream.next()
        await asyncio.sleep(0.2)
        desk = await Desk(site.store, name="refund-desk").open()
        mine = await resolved(desk)
        assert (await stream.next())[2]["execution_id"] == mine


async def test_silence_is_filled_with_heartbeats(site: Site, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakegate_receiver.control.stream.HEARTBEAT_S", 0.2)
    async with site.stream("desk") as stream:
        await stream.next()
        await asyncio.sleep(1)
        await resolved(desk)
        await stream.next()
        assert stream.heartbeats >= 2


async def test_a_stream_ends_when_its_harness_loses_access(site: Site, desk: Desk) -> None:
    del desk
    for tables in ({"desk": by_token("desk", "another")}, {}, "[harness"):
        site.tables(TABLES)
        async with site.stream("desk") as stream:
            await stream.next()
            site.tables(tables)
            assert await stream.ends() == []


async def test_a_table_beside_ones_own_ends_no_stream(site: Site, desk: Desk) -> None:
    async with site.stream("desk") as stream:
        await stream.next()
        site.tables({**TABLES, "another": by_token("another", "x")})
        await asyncio.sleep(2.2)
        mine = await resolved(desk)
        assert (await stream.next())[2]["execution_id"] == mine


async def test_a_stream_that_fails_in_the_middle_breaks_off_at_once(site: Site, desk: Desk) -> None:
    mine = await resolved(desk)
    fault_points.arm({TEST_FAULT: "http_in.answer:control.resolutions=raise"}, lambda *_, **__: None)
    try:
        async with site.stream("desk", "?after=") as stream:
            assert (await stream.next())[1] == "ready"
            with pytest.raises(aiohttp.ClientPayloadError):
                await stream.next()
    finally:
        fault_points.arm({}, lambda *_, **__: None)
    async with site.stream("desk", "?after=") as stream:
        await stream.next()
        assert (await stream.next())[2]["execution_id"] == mine


async def test_a_client_that_does_not_read_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakegate_receiver.control.sending.SEND_S", 1.0)
    async with control_site(TABLES) as site, site.voice("desk") as ask:
        desk = await Desk(site.store, name="refund-desk").open()
        result = json.dumps("x" * 200_000).encode()
        for _ in range(40):
            started = await desk.started()
            await desk.store.finish(started.lease, Outcome("succeeded", "returned", result=result), clock.now())
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, str(site.settings.control_address))
            head = f"GET /v1/resolutions?after= HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token_of('desk')}\r\n\r\n"
            await loop.sock_sendall(deaf, head.encode())
            await asyncio.sleep(2.5)
            assert (await ask("GET", "/v1/harness")).status == 200
            async with asyncio.timeout(10):
                while await loop.sock_recv(deaf, 1 << 20):
                    pass  # what had been sent before, and then the end


async def test_a_stream_left_by_its_client_gives_its_place_back(site: Site, desk: Desk) -> None:
    del desk
    for _ in range(40):
        async with site.stream("desk") as stream:
            assert stream.answer.status in (200, 429)
            if stream.answer.status == 200:
                await stream.next()
        await asyncio.sleep(0.02)
    async with asyncio.timeout(5):
        while True:
            async with site.stream("desk") as stream:
                if stream.answer.status == 200:
                    return


async def test_many_streams_cost_one_look_at_the_log(site: Site, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    others = await Desk(site.store, name="another").open()
    reads = 0
    real = Store.resolutions

    async def counted(self: Store, *args: object, **more: object) -> object:
        nonlocal reads
        reads += 1
        return await real(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "resolutions", counted)
    async with AsyncExitStack() as stack:
        for _ in range(10):
            stream = await stack.enter_async_context(site.stream("desk"))
            await stream.next()
        await asyncio.sleep(0.3)
        reads = 0
        for _ in range(20):
            await resolved(others)
        await asyncio.sleep(0.3)
        assert 0 < reads <= 45, "what concerns nobody here is looked at once, not once for each stream"


async def test_nothing_is_lost_when_the_receiver_is_killed() -> None:
    seen: list[str] = []
    async with control_process(TABLES) as (site, process):
        desk = Desk(site.store, name="refund-desk")
        await site.store.add_instance(desk.instance(), None)  # no secret that the next receiver could not open
        first = [await resolved(desk) for _ in range(3)]
        async with site.stream("desk", "?after=") as stream:
            await stream.next()
            for _ in range(2):
                cursor, _, data = await stream.next()
                seen.append(data["execution_id"])
            os.kill(process.pid, signal.SIGKILL)
            await process.wait()
        more = [await resolved(desk) for _ in range(3)]
        async with process_in(site.folder) as (again, _), again.stream("desk", **{"Last-Event-ID": cursor}) as stream:
            await stream.next()
            seen += [(await stream.next())[2]["execution_id"] for _ in range(4)]
    assert seen == first + more
