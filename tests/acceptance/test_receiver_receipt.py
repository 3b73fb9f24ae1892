"""Durable receipt: nothing is acknowledged that is not on record, and nothing on record is lost or doubled."""

import asyncio
import json
import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from support.deliveries import Delivery, new_id
from support.log_lines import captured_log
from support.receivers import Client, Registered, Running, receiver_in, request_bytes, stalled, until
from wakegate_schema import clock
from wakegate_schema.records import Instance, RequestIdentity, Suspension


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with receiver_in(tmp_path, request_timeout=1.0) as found:
        yield found


@pytest.fixture
async def desk(running: Running) -> Registered:
    return await running.register()


# A23: the client leaves


async def test_a_client_that_resets_at_any_moment_leaves_one_row_or_none(running: Running, desk: Registered) -> None:
    moments = random.Random(23)
    deliveries = [desk.sender.notification() for _ in range(200)]
    for delivery in deliveries:
        async with Client(running.address) as client:
            await client.send(request_bytes(delivery))
            await asyncio.sleep(moments.choice([0, 0, 0.0005, 0.001, 0.002, 0.004]))
            client.reset()
    for delivery in deliveries:
        assert (await running.post(delivery)).status == 204
    found = [entry for _, entry in await running.store.notifications()]
    assert sorted(entry.event_id for entry in found) == sorted(d.headers["webhook-id"] for d in deliveries)
    await until(lambda: len(running.receiver.connections) == 0)


async def test_a_request_that_came_whole_is_recorded_although_its_sender_has_left(
    running: Running, desk: Registered
) -> None:
    await running.post(desk.sender.notification())
    delivery = desk.sender.notification()
    with stalled(running.settings):
        async with Client(running.address) as client:
            await client.send(request_bytes(delivery))
            await until(lambda: running.receiver.connections.busy == 1)
            client.reset()
        await asyncio.sleep(0.1)
    await until(lambda: running.receiver.connections.busy == 0)
    assert await running.store.notification(delivery.headers["webhook-id"])


# A31, A33, A41: the store is not there


async def test_a_store_that_refuses_what_it_should_take_is_503_and_the_log_says_why(
    running: Running, desk: Registered
) -> None:
    delivery = desk.sender.notification()
    with closing(sqlite3.connect(running.settings.database_path)) as other:
        other.execute("CREATE TRIGGER odd BEFORE INSERT ON notification BEGIN SELECT RAISE(ABORT, 'odd one'); END")
        with captured_log() as stream:
            reply = await running.post(delivery)
        assert (reply.status, reply.reason) == (503, "store_unavailable")
        (line,) = [found for found in map(json.loads, stream.getvalue().splitlines()) if "reason" in found]
        assert (line["detail"], line["exception"]) == ("invariant_violated", "InvariantViolated")
        assert "odd one" in line["exception_message"]
        other.execute("DROP TRIGGER odd")
        assert (await running.post(delivery)).status == 204


async def test_a_store_that_vanished_is_503_until_it_is_back(running: Running, desk: Registered) -> None:
    await running.post(desk.sender.notification())
    delivery = desk.sender.notification()
    database = running.settings.database_path
    hidden = database.with_name("hidden.db")
    database.rename(hidden)
    for _ in range(3):
        reply = await running.post(delivery)
        assert (reply.status, reply.reason) == (503, "store_unavailable")
        assert 1 <= int(reply.headers["retry-after"]) <= 5
    assert (await running.post(desk.sender.notification().with_headers(webhook_signature="v1,AAAA"))).status in (
        401,
        503,
    )
    hidden.rename(database)
    assert (await running.post(delivery)).status == 204
    assert {entry.event_id for _, entry in await running.store.notifications()} >= {delivery.headers["webhook-id"]}


async def test_a_verification_is_not_answered_while_the_store_is_away(running: Running) -> None:
    desk = await running.expect()
    await running.post(desk.sender.notification())
    database = running.settings.database_path
    hidden = database.with_name("hidden.db")
    database.rename(hidden)
    assert (await running.post(desk.sender.verification(desk.registration_id))).status == 503
    hidden.rename(database)
    assert (await running.post(desk.sender.verification(desk.registration_id))).status == 200


async def test_a_store_that_does_not_answer_in_time_is_503(running: Running, desk: Registered) -> None:
    await running.post(desk.sender.notification())
    delivery = desk.sender.notification()
    with stalled(running.settings):
        reply = await running.post(delivery)
        assert (reply.status, reply.reason) == (503, "store_timeout")
        assert 1 <= int(reply.headers["retry-after"]) <= 5
    assert (await running.post(delivery)).status == 204
    assert len(await running.store.notification(delivery.headers["webhook-id"])) == 1


async def test_a_time_out_in_the_store_ends_no_other_request(running: Running, desk: Registered) -> None:
    async with Client(running.address) as client:
        assert (await client.post(desk.sender.notification())).status == 204
        with stalled(running.settings):
            assert (await client.post(desk.sender.notification())).status == 503
        assert (await client.post(desk.sender.notification())).status == 204


# A37: somebody else has the database


async def test_a_shell_that_keeps_the_database_locked_is_503_and_holds_up_nothing_else(
    running: Running, desk: Registered
) -> None:
    await running.post(desk.sender.notification())
    delivery = desk.sender.notification()
    with closing(sqlite3.connect(running.settings.database_path, isolation_level=None)) as shell:
        shell.execute("BEGIN IMMEDIATE")
        locked = asyncio.create_task(running.post(delivery))
        for _ in range(5):
            async with asyncio.timeout(0.2):
                assert (await running.post(delivery, "/elsewhere")).status == 404
        reply = await locked
        assert (reply.status, reply.reason) == (503, "store_timeout")
        shell.execute("ROLLBACK")
    assert (await running.post(delivery)).status == 204


# A35, A36: events and requests


async def test_two_events_about_one_request_are_both_kept(running: Running, desk: Registered) -> None:
    request_id = new_id()
    for _ in range(2):
        assert (await running.post(desk.sender.notification(request_id))).status == 204
    assert len(await running.store.notifications()) == 2


async def test_a_notification_that_comes_before_its_execution_is_kept_and_applied(
    running: Running, desk: Registered
) -> None:
    request_id = new_id()
    assert (await running.post(desk.sender.notification(request_id))).status == 204
    ((_, early),) = await running.store.notifications()
    assert early.state == "received"
    now = clock.now()
    await running.store.add_instance(
        Instance(desk.provider, desk.instance_id, "desk", "active", None, "webhook", b"sealed", None, now),
        desk.registration_id,
    )
    saved = await running.store.save(
        Suspension(
            execution_id=new_id(), provider=desk.provider, instance_id=desk.instance_id, idempotency_key=new_id(),
            tool="refund", arguments=b"{}", context=None, reasoning=None, timeout="30m", tool_version=None,
            runs="worker", wake="none", group=None, at=now,
        )
    )  # fmt: skip
    (leased,) = await running.store.lease_due("worker", 1, now, now + clock.MINUTE)
    await running.store.begin_submission(leased.lease, None, now)
    await running.store.attach(saved.execution_id, RequestIdentity(request_id, now, now + clock.HOUR), now)
    await running.store.release(leased.lease, now + clock.HOUR, None, now)
    assert [due.execution_id for due in await running.store.lease_due("worker", 1, clock.now(), clock.now() + 1)] == [
        saved.execution_id
    ]


async def test_the_body_is_kept_byte_for_byte(running: Running, desk: Registered) -> None:
    plain = desk.sender.notification()
    delivery: Delivery = desk.sender.raw(b"\r\n\t " + plain.body + b"\n\n", plain.headers["webhook-id"])
    assert (await running.post(delivery)).status == 204
    ((_, found),) = await running.store.notifications()
    assert found.body == delivery.body
