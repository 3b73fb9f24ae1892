"""Every row of the answers table, in its order of precedence, over real HTTP and a real store."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.deliveries import Delivery, Sender, new_id, stamp
from support.log_lines import captured_log
from support.receivers import Client, Registered, Running, receiver_in, request_bytes
from support.tables import each_row
from wakegate_schema import clock
from wakegate_schema.records import Instance, RequestIdentity, Suspension
from wakegate_schema.signing import SigningSecret


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with receiver_in(tmp_path) as found:
        yield found


@pytest.fixture
async def desk(running: Running) -> Registered:
    return await running.register()


async def refused(running: Running, delivery: Delivery) -> tuple[int, str]:
    """Return the status of a refusal and the reason that was kept."""
    reply = await running.post(delivery)
    return reply.status, running.reasons()[-1]


async def recorded(running: Running) -> int:
    return len(await running.store.notifications())


# Accepted


async def test_a_notification_is_on_record_when_it_is_acknowledged(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification()
    reply = await running.post(delivery)
    assert (reply.status, reply.body) == (204, b"")
    ((_, found),) = await running.store.notifications()
    assert (found.event_id, found.body) == (delivery.headers["webhook-id"], delivery.body)
    assert (found.provider, found.registration_id) == (desk.provider, desk.registration_id)
    assert running.reasons() == []


async def test_a_repeat_is_acknowledged_and_counted(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification()
    assert [(await running.post(delivery)).status for _ in range(3)] == [204, 204, 204]
    ((_, found),) = await running.store.notifications()
    assert found.duplicates == 2


async def test_a_retry_has_a_new_time_and_signature_and_is_the_same_event(running: Running, desk: Registered) -> None:
    first = desk.sender.notification(at=time.time() - 250)
    again = desk.sender.raw(first.body, first.headers["webhook-id"])
    assert first.headers["webhook-signature"] != again.headers["webhook-signature"]
    assert [(await running.post(delivery)).status for delivery in (first, again)] == [204, 204]
    assert await recorded(running) == 1


async def test_the_same_event_with_other_bytes_keeps_the_first(running: Running, desk: Registered) -> None:
    first = desk.sender.notification()
    other = desk.sender.raw(json.dumps(json.loads(first.body), indent=2).encode(), first.headers["webhook-id"])
    assert [(await running.post(delivery)).status for delivery in (first, other)] == [204, 204]
    ((_, found),) = await running.store.notifications()
    assert found.body == first.body
    assert [anomaly.kind for anomaly in await running.store.anomalies()] == ["event_other_bytes"]


async def test_a_notification_for_an_abandoned_execution_is_discarded(running: Running, desk: Registered) -> None:
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
    request_id = new_id()
    await running.store.attach(saved.execution_id, RequestIdentity(request_id, now, now + clock.HOUR), now)
    await running.store.abandon(saved.execution_id, "conversation closed", "test", now)
    assert (await running.post(desk.sender.notification(request_id))).status == 204
    ((_, found),) = await running.store.notifications()
    assert (found.state, found.reason) == ("discarded", "abandoned")


async def test_a_notification_of_a_registration_retired_lately_is_discarded(running: Running, desk: Registered) -> None:
    await running.store.retire_registration(desk.registration_id, clock.now())
    assert (await running.post(desk.sender.notification())).status == 204
    ((_, found),) = await running.store.notifications()
    assert found.state == "discarded"


async def test_a_verification_binds_and_answers_exactly_the_challenge(running: Running) -> None:
    desk = await running.expect()
    challenge = new_id()
    reply = await running.post(desk.sender.verification(desk.registration_id, challenge))
    assert (reply.status, reply.body) == (200, b'{"challenge":"%b"}' % challenge.encode())
    assert reply.headers["content-type"] == "application/json"
    (registration,) = await running.store.registrations()
    assert (registration.state, registration.instance_id) == ("verified", desk.instance_id)
    assert (await running.post(desk.sender.notification())).status == 204


async def test_a_challenge_comes_back_as_it_was_written(running: Running) -> None:
    desk = await running.expect()
    challenge = new_id().upper()
    reply = await running.post(desk.sender.verification(desk.registration_id, challenge))
    assert json.loads(reply.body) == {"challenge": challenge}


async def test_until_the_credential_is_stored_the_latest_challenge_binds(running: Running) -> None:
    desk = await running.expect()
    latest = new_id()
    for instance_id in (new_id(), latest):
        delivery = desk.sender.verification(desk.registration_id, instance_id=instance_id)
        assert (await running.post(delivery)).status == 200
    (registration,) = await running.store.registrations()
    assert registration.instance_id == latest


async def test_the_bound_instance_may_always_be_challenged_again(running: Running, desk: Registered) -> None:
    for _ in range(2):
        assert (await running.post(desk.sender.verification(desk.registration_id))).status == 200


# Refused, in the table's order


@pytest.mark.parametrize(("path", "method", "expected"), [
    ("/aap/events/", "POST", (404, "wrong_path")),
    ("//aap/events", "POST", (404, "wrong_path")),
    ("/", "GET", (404, "wrong_path")),
    ("/aap/events", "GET", (405, "wrong_method")),
    ("/aap/events", "PUT", (405, "wrong_method")),
])  # fmt: skip
async def test_only_post_on_the_events_path_is_taken(
    running: Running, desk: Registered, path: str, method: str, expected: tuple[int, str]
) -> None:
    async with Client(running.address) as client:
        await client.send(request_bytes(desk.sender.notification(), path, method))
        reply = await client.reply()
    assert (reply.status, reply.reason) == expected
    assert "location" not in reply.headers
    assert reply.headers.get("allow") == ("POST" if reply.status == 405 else None)
    assert await recorded(running) == 0


async def test_a_body_over_the_limit_is_refused_by_its_length(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification().with_headers(content_length="65537")
    async with Client(running.address) as client:
        await client.send(request_bytes(Delivery(delivery.headers, b"")))
        reply = await client.reply(timeout=1)
        assert (reply.status, reply.reason) == (413, "body_too_large")
        assert reply.headers["connection"] == "close"
        assert await client.ends(timeout=3) == b""
    assert running.receiver.refusals.entries()[-1]["bytes"] == 65537


async def test_a_body_of_exactly_the_limit_is_read(running: Running, desk: Registered) -> None:
    body = desk.sender.notification().body
    assert await refused(running, desk.sender.raw(body.ljust(65536, b" "))) == (400, "id_mismatch")


async def test_a_body_in_chunks_is_counted_while_it_is_read(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification().with_headers(transfer_encoding="chunked")
    async with Client(running.address) as client:
        await client.send(request_bytes(Delivery(delivery.headers, b"")))
        for _ in range(3):
            await client.send(b"8000\r\n" + b" " * 0x8000 + b"\r\n")
        reply = await client.reply(timeout=1)
    assert (reply.status, reply.reason) == (413, "body_too_large")


async def test_a_body_in_chunks_is_verified_as_one(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in delivery.body) + b"0\r\n\r\n"
    headers = delivery.with_headers(transfer_encoding="chunked").headers
    assert (await running.post(Delivery(headers, chunks))).status == 204
    ((_, found),) = await running.store.notifications()
    assert found.body == delivery.body


HEADERS: list[tuple[dict[str, str | None], tuple[int, str]]] = [
    ({"content_encoding": "gzip"}, (415, "wrong_content_encoding")),
    ({"content_type": None}, (415, "wrong_content_type")),
    ({"content_type": "application/x-www-form-urlencoded"}, (415, "wrong_content_type")),
    ({"content_type": "application/json; charset=utf-16"}, (415, "wrong_charset")),
    ({"webhook_id": None}, (400, "missing_webhook_id")),
    ({"webhook_id": "msg_1"}, (400, "malformed_webhook_id")),
    ({"webhook_timestamp": None}, (400, "missing_webhook_timestamp")),
    ({"webhook_timestamp": "1e9"}, (400, "malformed_webhook_timestamp")),
    ({"webhook_timestamp": "-1"}, (400, "malformed_webhook_timestamp")),
    ({"webhook_signature": None}, (400, "missing_webhook_signature")),
    ({"webhook_signature": ""}, (400, "malformed_webhook_signature")),
    ({"expect": "coffee"}, (417, "unsupported_expectation")),
]


@each_row(("headers", "expected"), HEADERS)
async def test_a_header_out_of_order_is_refused(
    running: Running, desk: Registered, headers: dict[str, str | None], expected: tuple[int, str]
) -> None:
    assert await refused(running, desk.sender.notification().with_headers(**headers)) == expected
    assert await recorded(running) == 0


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
async def test_a_repeated_security_header_is_refused(running: Running, desk: Registered, name: str) -> None:
    delivery = desk.sender.notification()
    data = request_bytes(delivery).replace(b"host: ", f"{name}: {delivery.headers[name]}\r\nhost: ".encode(), 1)
    async with Client(running.address) as client:
        await client.send(data)
        assert (await client.reply()).status == 400
    assert running.reasons() == [f"repeated_{name.replace('-', '_')}"]


BODIES: list[tuple[bytes, tuple[int, str]]] = [
    (b"", (400, "not_json")),
    (b"{", (400, "not_json")),
    (b"\xff\xfe", (400, "not_utf8")),
    (b"\xef\xbb\xbf{}", (400, "bom")),
    ("{}".encode("utf-16-le"), (400, "not_json")),
    (b"[" * 70 + b"]" * 70, (400, "too_deep")),
    (b'{"a":NaN}', (400, "non_finite_number")),
    (b'{"a":1e400,"a":1}', (400, "duplicate_key")),
    (b'{"a":{"b":1,"b":1}}', (400, "duplicate_key")),
    (b'{"a":"\\ud800"}', (400, "lone_surrogate")),
    (b"[]", (400, "not_an_object")),
    (b"{}", (400, "missing_field")),
    (b'{"type":"request.pending"}', (400, "unknown_type")),
    (b'{"type":"request.resolved","instance_id":"desk"}', (400, "bad_uuid")),
]


@each_row(("body", "expected"), BODIES)
async def test_a_signed_body_that_selects_no_secret_is_refused(
    running: Running, desk: Registered, body: bytes, expected: tuple[int, str]
) -> None:
    assert await refused(running, desk.sender.raw(body)) == expected


async def test_an_unknown_instance_a_wrong_signature_and_a_wrong_time_get_one_answer(
    running: Running, desk: Registered
) -> None:
    stranger = Sender(desk.secret.reveal(), new_id()).notification()
    forged = Sender(SigningSecret.generate().reveal(), desk.instance_id).notification()
    old = desk.sender.notification(at=time.time() - 302)
    replies = [await running.post(delivery) for delivery in (stranger, forged, old)]
    assert running.reasons() == ["unknown_instance", "wrong_signature", "timestamp_off"]
    seen = {(reply.status, reply.body, frozenset(reply.headers)) for reply in replies}
    assert seen == {(401, b'{"reason":"unauthenticated"}', frozenset(replies[0].headers))}
    assert await recorded(running) == 0


async def test_a_registration_that_does_not_speak_for_its_instance_yet_is_unauthenticated(running: Running) -> None:
    desk = await running.expect(promised=True)
    reply = await running.post(desk.sender.notification())
    assert (reply.status, reply.reason, running.reasons()) == (401, "unauthenticated", ["not_live"])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"extra": "🎉 \u2028"}, "unknown_field"),
        ({"request_id": None}, "wrong_type"),
        ({"request_id": True}, "wrong_type"),
        ({"request_id": "{b29a43a7-1949-4b9f-9d61-b7ae66f85d31}"}, "bad_uuid"),
        ({"created_at": "2026-09-16T12:02:00z"}, "bad_timestamp"),
        ({"created_at": "yesterday"}, "bad_timestamp"),
    ],
)
async def test_a_signed_object_of_another_shape_is_refused(
    running: Running, desk: Registered, changes: dict[str, Any], reason: str
) -> None:
    event = {"id": new_id(), "type": "request.resolved", "instance_id": desk.instance_id}
    event |= {"request_id": new_id(), "created_at": stamp()}
    assert await refused(running, desk.sender.message(event | changes)) == (400, reason)
    assert await recorded(running) == 0


async def test_a_body_with_another_id_than_its_header_is_refused(running: Running, desk: Registered) -> None:
    delivery = desk.sender.raw(desk.sender.notification().body)
    assert await refused(running, delivery) == (400, "id_mismatch")


async def test_a_verification_for_a_registration_nobody_expects_is_forbidden(
    running: Running, desk: Registered
) -> None:
    assert await refused(running, desk.sender.verification(new_id())) == (403, "unknown_registration")


async def test_a_verification_for_a_retired_registration_is_forbidden(running: Running, desk: Registered) -> None:
    await running.store.retire_registration(desk.registration_id, clock.now())
    delivery = desk.sender.verification(desk.registration_id)
    assert await refused(running, delivery) == (403, "registration_retired")


async def test_a_verification_that_comes_too_late_is_forbidden(running: Running) -> None:
    desk = await running.expect(expected_until=clock.now())
    delivery = desk.sender.verification(desk.registration_id)
    assert await refused(running, delivery) == (403, "registration_expired")


async def test_a_verification_for_an_instance_bound_elsewhere_is_forbidden(running: Running, desk: Registered) -> None:
    other = await running.expect()
    delivery = other.sender.verification(other.registration_id, instance_id=desk.instance_id)
    assert await refused(running, delivery) == (403, "instance_bound_elsewhere")


async def test_a_verification_that_is_forged_is_unauthenticated(running: Running) -> None:
    desk = await running.expect()
    forger = Sender(SigningSecret.generate().reveal(), desk.instance_id)
    assert await refused(running, forger.verification(desk.registration_id)) == (401, "wrong_signature")
    (registration,) = await running.store.registrations()
    assert registration.state == "expected"


async def test_an_event_id_that_named_another_request_is_a_conflict(running: Running, desk: Registered) -> None:
    event_id = new_id()
    first = desk.sender.notification(event_id=event_id)
    assert (await running.post(first)).status == 204
    assert await refused(running, desk.sender.notification(event_id=event_id)) == (409, "event_conflict")
    ((_, found),) = await running.store.notifications()
    assert found.body == first.body
    assert [anomaly.kind for anomaly in await running.store.anomalies()] == ["event_id_conflict"]


async def test_an_event_id_that_named_another_instance_is_a_conflict(running: Running, desk: Registered) -> None:
    other, event_id, request_id = await running.register(), new_id(), new_id()
    assert (await running.post(desk.sender.notification(request_id, event_id))).status == 204
    delivery = other.sender.notification(request_id, event_id)
    assert await refused(running, delivery) == (409, "event_conflict")


async def test_two_providers_may_use_the_same_instance_and_event_id(running: Running, desk: Registered) -> None:
    twin = await running.register(provider="https://other.example", instance_id=desk.instance_id)
    event_id = new_id()
    for registered in (desk, twin):
        assert (await running.post(registered.sender.notification(event_id=event_id))).status == 204
    found = await running.store.notification(event_id)
    assert {(entry.provider, entry.registration_id) for entry in found} == {
        (desk.provider, desk.registration_id),
        (twin.provider, twin.registration_id),
    }


async def test_anything_unforeseen_is_a_500_told_of_by_reason_alone(
    running: Running, desk: Registered, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise RuntimeError("planted words")

    with captured_log() as stream, monkeypatch.context() as patch:
        patch.setattr("wakegate_receiver.notifications.acknowledge", fail)
        async with Client(running.address) as client:
            reply = await client.post(desk.sender.notification())
            assert await client.ends() == b""
    assert (reply.status, reply.body) == (500, b'{"reason":"unforeseen"}')
    assert reply.headers["connection"] == "close"
    assert "planted" not in str(reply.headers)
    assert dict(running.receiver.refusals.counts) == {"unforeseen": 1}
    assert running.reasons() == ["unforeseen"]
    (line,) = [found for found in map(json.loads, stream.getvalue().splitlines()) if "reason" in found]
    assert (line["action"], line["reason"], line["status"]) == ("refuse", "unforeseen", 500)
    assert "planted" not in stream.getvalue()
    assert await recorded(running) == 0
    assert (await running.post(desk.sender.notification())).status == 204
    assert await recorded(running) == 1


# Precedence


LADDER: list[tuple[str, dict[str, str | None]]] = [
    ("body_too_large", {"content_length": "70000"}),
    ("wrong_content_encoding", {"content_encoding": "br"}),
    ("wrong_content_type", {"content_type": "text/plain"}),
    ("missing_webhook_id", {"webhook_id": None}),
    ("unsupported_expectation", {"expect": "coffee"}),
]


@pytest.mark.parametrize("step", range(len(LADDER)))
async def test_the_first_thing_wrong_is_the_one_that_is_told(running: Running, desk: Registered, step: int) -> None:
    faults: dict[str, str | None] = {}
    for _, headers in LADDER[step:]:
        faults |= headers
    delivery = desk.sender.raw(b"{").with_headers(webhook_signature="v1,AAAA").with_headers(**faults)
    assert (await refused(running, delivery))[1] == LADDER[step][0]


async def test_a_malformed_body_is_told_before_its_signature(running: Running, desk: Registered) -> None:
    assert (await refused(running, desk.sender.raw(b"{").with_headers(webhook_signature="v1,AAAA")))[0] == 400


async def test_a_wrong_signature_is_told_before_the_objects_shape(running: Running, desk: Registered) -> None:
    delivery = desk.sender.message({"type": "request.resolved", "instance_id": desk.instance_id, "more": 1})
    forged = delivery.with_headers(webhook_signature="v1,AAAA")
    assert await refused(running, forged) == (401, "wrong_signature")
    assert (await refused(running, delivery))[0] == 400


async def test_the_objects_shape_is_told_before_the_registrations_state(running: Running, desk: Registered) -> None:
    await running.store.retire_registration(desk.registration_id, clock.now())
    delivery = desk.sender.verification(desk.registration_id, challenge="not a UUID")
    assert await refused(running, delivery) == (400, "bad_uuid")


# Connections stay usable


async def test_answers_and_refusals_share_one_kept_connection(running: Running, desk: Registered) -> None:
    async with Client(running.address) as client:
        for _ in range(3):
            assert (await client.post(desk.sender.notification())).status == 204
            assert (await client.post(desk.sender.raw(b"{"))).status == 400
            assert (await client.post(desk.sender.notification().with_headers(content_type="a/b"))).status == 415


async def test_pipelined_requests_are_answered_in_order(running: Running, desk: Registered) -> None:
    async with Client(running.address) as client:
        deliveries = [desk.sender.notification(), desk.sender.raw(b"{"), desk.sender.notification()]
        await client.send(b"".join(map(request_bytes, deliveries)))
        assert [(await client.reply()).status for _ in deliveries] == [204, 400, 204]


async def test_many_at_once_are_each_on_record_once(running: Running, desk: Registered) -> None:
    deliveries = [desk.sender.notification() for _ in range(100)]
    replies = await asyncio.gather(*(running.post(delivery) for delivery in deliveries * 2))
    assert {reply.status for reply in replies} == {204}
    assert await recorded(running) == 100
