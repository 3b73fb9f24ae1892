"""Junk and slow clients: neither takes anything from genuine deliveries."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from support.deliveries import Delivery, Sender, new_id
from support.receivers import Client, Registered, Running, receiver_in, request_bytes, stalled, until
from wakegate_receiver.protocol import HANG_UP_S, Connection
from wakegate_schema.signing import SigningSecret


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    """A receiver with small bounds."""
    async with receiver_in(
        tmp_path,
        rate_limit=20,
        refused_rate_limit=5,
        max_concurrency=4,
        max_connections=40,
        request_timeout=1.5,
    ) as found:
        yield found


@pytest.fixture
async def desk(running: Running) -> Registered:
    return await running.register()


def forged(desk: Registered) -> Delivery:
    return Sender(SigningSecret.generate().reveal(), desk.instance_id).notification()


async def statuses(running: Running, *deliveries: Delivery) -> Counter[int]:
    replies = await asyncio.gather(*(running.post(delivery) for delivery in deliveries))
    for reply in replies:
        if reply.status in (429, 503):
            assert 1 <= int(reply.headers["retry-after"]) <= 5
    return Counter(reply.status for reply in replies)


# Budgets


async def test_genuine_traffic_over_its_rate_is_told_to_come_back(running: Running, desk: Registered) -> None:
    async with Client(running.address) as client:
        found = [(await client.post(desk.sender.notification())).status for _ in range(30)]
    assert Counter(found).keys() == {204, 429}
    assert set(running.reasons()) == {"rate_limit"}
    assert len(await running.store.notifications()) == found.count(204)


async def test_genuine_traffic_over_its_places_is_told_to_come_back(running: Running, desk: Registered) -> None:
    await running.post(desk.sender.notification())
    with stalled(running.settings):
        waiting = [asyncio.create_task(running.post(desk.sender.notification())) for _ in range(4)]
        await until(lambda: running.receiver.connections.busy == 4)
        reply = await running.post(desk.sender.notification())
    assert (reply.status, reply.reason) == (429, "concurrency_limit")
    assert [(await task).status for task in waiting] == [204] * 4


async def test_junk_over_its_rate_is_told_to_come_back(running: Running, desk: Registered) -> None:
    found = await statuses(running, *(forged(desk) for _ in range(15)))
    assert found[401] in range(5, 8)
    assert found[401] + found[429] == 15


async def test_junk_never_spends_what_genuine_traffic_has(running: Running, desk: Registered) -> None:
    await statuses(running, *(forged(desk) for _ in range(39)))
    assert "too_many_failures" in running.reasons()
    async with Client(running.address) as client:
        found = [(await client.post(desk.sender.notification())).status for _ in range(15)]
    assert found == [204] * 15


async def test_junk_takes_no_place_of_genuine_traffic(running: Running, desk: Registered) -> None:
    junk = [asyncio.create_task(running.post(forged(desk))) for _ in range(30)]
    found = await statuses(running, *(desk.sender.notification() for _ in range(4)))
    assert found == {204: 4}
    assert {(await task).status for task in junk} <= {401, 429}


async def test_a_new_registration_works_while_junk_is_over_its_rate(running: Running, desk: Registered) -> None:
    await statuses(running, *(forged(desk) for _ in range(30)))
    fresh = await running.expect()
    junk = [asyncio.create_task(running.post(forged(desk))) for _ in range(20)]
    assert (await running.post(fresh.sender.verification(fresh.registration_id))).status == 200
    assert (await running.post(fresh.sender.notification())).status == 204
    await asyncio.gather(*junk)


async def test_genuine_traffic_over_its_rate_does_not_spend_junks(running: Running, desk: Registered) -> None:
    async with Client(running.address) as client:
        for _ in range(25):
            await client.post(desk.sender.notification())
    assert (await running.post(forged(desk))).status == 401


async def keep_posting(running: Running, delivery: Delivery) -> None:
    """Post the same again and again, on a new connection whenever one is closed."""
    while True:
        try:
            async with Client(running.address) as client:
                while True:
                    await client.post(delivery)
        except (OSError, EOFError):
            await asyncio.sleep(0)


@pytest.mark.parametrize("what", ["wrong signatures", "a wrong path"])
async def test_junk_on_every_connection_does_not_keep_genuine_deliveries_out(tmp_path: Path, what: str) -> None:
    async with receiver_in(tmp_path, max_connections=32) as running:
        desk = await running.register()
        junk = forged(desk) if what == "wrong signatures" else desk.sender.raw(b"{}").with_headers(content_type="a/b")
        crowd = [asyncio.create_task(keep_posting(running, junk)) for _ in range(48)]
        await asyncio.sleep(0.5)
        for _ in range(10):
            began = time.monotonic()
            assert (await running.post(desk.sender.notification())).status == 204
            assert time.monotonic() - began < 1
        for task in crowd:
            task.cancel()
        await asyncio.wait(crowd)
        assert set(running.receiver.refusals.counts) >= {"evicted"}


async def test_refusals_over_the_rate_are_kept_back_a_moment(running: Running) -> None:
    async with Client(running.address) as client:
        for late in [*[False] * 5, True]:
            began = time.monotonic()
            await client.send(b"GET /nothing HTTP/1.1\r\nhost: a\r\n\r\n")
            assert (await client.reply()).status == 404
            assert (time.monotonic() - began > 0.3) is late


async def test_what_is_genuine_is_refused_at_once_whatever_the_rate_of_junk(running: Running, desk: Registered) -> None:
    await statuses(running, *(forged(desk) for _ in range(20)))
    async with Client(running.address) as client:
        began = time.monotonic()
        assert (await client.post(desk.sender.message({"type": "request.resolved", **of(desk)}))).status == 400
        assert time.monotonic() - began < 0.3


def of(desk: Registered) -> dict[str, str]:
    return {"instance_id": desk.instance_id}


# Slow clients


async def test_a_peer_that_does_not_read_holds_no_socket_once_it_is_hung_up_on(
    running: Running, desk: Registered
) -> None:
    async with Client(running.address) as client:
        assert (await client.post(desk.sender.notification())).status == 204
        (connection,) = running.receiver.connections
        assert isinstance(connection, Connection)
        assert connection.transport is not None
        unread = b"x" * 50_000_000
        connection.transport.write(unread)
        connection.hang_up()
        await asyncio.sleep(HANG_UP_S * 2)
        assert len(await client.ends()) < len(unread)


async def test_silent_clients_do_not_delay_a_genuine_delivery(tmp_path: Path) -> None:
    async with receiver_in(tmp_path, max_connections=100) as running, AsyncExitStack() as stack:
        desk = await running.register()
        await running.post(desk.sender.notification())
        head = request_bytes(Delivery(desk.sender.notification().with_headers(content_length="10").headers, b""))
        for number in range(300):
            client = await stack.enter_async_context(Client(running.address))
            await client.send([b"", head[: number % len(head)], head + b"half"][number % 3])
        for _ in range(5):
            began = time.monotonic()
            assert (await running.post(desk.sender.notification())).status == 204
            assert time.monotonic() - began < 1
        assert len(running.receiver.connections) <= 100
        assert running.receiver.refusals.counts["evicted"] >= 200


async def test_a_client_that_sends_nothing_is_cut(running: Running) -> None:
    async with Client(running.address) as client:
        began = time.monotonic()
        assert await client.ends() == b""
        assert 1 < time.monotonic() - began < 3
    assert running.reasons() == ["silent"]


async def test_headers_that_trickle_are_cut(running: Running, desk: Registered) -> None:
    async with Client(running.address) as client:
        trickle = asyncio.create_task(drip(client, request_bytes(desk.sender.notification())))
        began = time.monotonic()
        assert await client.ends() == b""
        assert 1 < time.monotonic() - began < 3
        trickle.cancel()
    assert running.reasons() == ["silent"]


async def test_headers_that_trickle_on_a_kept_connection_are_cut(running: Running, desk: Registered) -> None:
    async with Client(running.address) as client:
        assert (await client.post(desk.sender.notification())).status == 204
        await asyncio.sleep(1.6)
        trickle = asyncio.create_task(drip(client, request_bytes(desk.sender.notification())))
        began = time.monotonic()
        assert await client.ends() == b""
        assert 1 < time.monotonic() - began < 3
        trickle.cancel()


async def test_a_body_that_trickles_is_cut(running: Running, desk: Registered) -> None:
    head, _, body = request_bytes(desk.sender.notification()).partition(b"\r\n\r\n")
    async with Client(running.address) as client:
        await client.send(head + b"\r\n\r\n")
        trickle = asyncio.create_task(drip(client, body))
        began = time.monotonic()
        reply = await client.reply()
        assert (reply.status, reply.reason) == (408, "request_timeout")
        assert await client.ends() == b""
        assert 1 < time.monotonic() - began < 4
        trickle.cancel()


async def drip(client: Client, data: bytes) -> None:
    try:
        for byte in data:
            await client.send(bytes([byte]))
            await asyncio.sleep(0.05)
    except OSError:
        return


async def test_a_client_that_leaves_in_its_body_costs_nothing(running: Running, desk: Registered) -> None:
    head, _, body = request_bytes(desk.sender.notification()).partition(b"\r\n\r\n")
    async with Client(running.address) as client:
        await client.send(head + b"\r\n\r\n" + body[:50])
        await until(lambda: len(running.receiver.connections) == 1)
        await asyncio.sleep(0.05)
        client.reset()
        await until(lambda: len(running.receiver.connections) == 0)
    await until(lambda: running.reasons() == ["disconnected"])


async def test_when_every_connection_is_busy_the_next_is_turned_away(tmp_path: Path) -> None:
    async with receiver_in(tmp_path, max_connections=3) as running, AsyncExitStack() as stack:
        desk = await running.register()
        await running.post(desk.sender.notification())
        with stalled(running.settings):
            clients = [await stack.enter_async_context(Client(running.address)) for _ in range(3)]
            for client in clients:
                await client.send(request_bytes(desk.sender.notification()))
            await until(lambda: running.receiver.connections.busy == 3)
            async with Client(running.address) as late:
                reply = await late.reply(timeout=1)
        assert (reply.status, reply.reason) == (503, "too_many_connections")
        assert 1 <= int(reply.headers["retry-after"]) <= 5
        assert [(await client.reply()).status for client in clients] == [204] * 3


async def test_an_unknown_instance_takes_as_long_as_a_wrong_signature(tmp_path: Path) -> None:
    async with receiver_in(tmp_path) as running:
        desk = await running.register()
        stranger = Sender(desk.secret.reveal(), new_id())
        old = time.time() - 1000
        spent: dict[str, list[float]] = {"unknown": [], "forged": [], "old": []}
        async with Client(running.address) as client:
            for _ in range(5):
                for name, delivery in (
                    ("unknown", stranger.notification()),
                    ("forged", forged(desk)),
                    ("old", desk.sender.notification(at=old)),
                ):
                    began = time.monotonic()
                    assert (await client.post(delivery)).status == 401
                    spent[name].append(time.monotonic() - began)
    middles = [sorted(times)[2] for times in spent.values()]
    assert max(middles) - min(middles) < 0.05
