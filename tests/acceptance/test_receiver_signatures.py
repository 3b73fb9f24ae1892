"""Signatures as real senders make them, and every way in which they go wrong."""

import base64
import gzip
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from agentapprovalprotocol.testing import BASE_URL, PROVISIONER_TOKEN, FakeProvider

from support.deliveries import Delivery, Sender, new_id
from support.receivers import Client, Registered, Running, receiver_in, request_bytes
from support.tables import each_row
from wakegate_schema import clock
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


# Real peers


async def test_what_the_public_sdk_signs_is_accepted(running: Running, desk: Registered) -> None:
    headers, body = FakeProvider().webhook(new_id(), instance_id=desk.instance_id, secret=desk.secret.reveal())
    reply = await running.post(Delivery({"content-type": "application/json", **headers}, body))
    assert reply.status == 204
    assert len(await running.store.notifications()) == 1


async def test_the_public_sdks_provider_verifies_this_receiver_before_it_creates(running: Running) -> None:
    desk = await running.expect()
    fake = FakeProvider()

    async def deliver(headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        reply = await running.post(Delivery(dict(headers), body))
        return reply.status, reply.body

    url = "https://receiver.test/aap/events"
    fake.receivers[url] = deliver
    submission = {
        "delivery": {
            "type": "webhook",
            "url": url,
            "registration_id": desk.registration_id,
            "signing_secret": desk.secret.reveal(),
        }
    }
    async with fake.async_http() as http:
        answer = await http.post(
            f"{BASE_URL}/v1/instances",
            json=submission,
            headers={"authorization": f"Bearer {PROVISIONER_TOKEN}", "idempotency-key": new_id()},
        )
    assert answer.status_code == 201
    (registration,) = await running.store.registrations()
    assert registration.state == "verified"
    assert registration.instance_id == answer.json()["instance"]["id"]


# A new registration, a replaced one


async def test_a_registration_made_a_moment_ago_in_another_process_works_at_once(running: Running) -> None:
    for _ in range(3):
        desk = await running.expect()
        assert (await running.post(desk.sender.verification(desk.registration_id))).status == 200
        assert (await running.post(desk.sender.notification())).status == 204


async def test_every_live_secret_of_an_instance_is_tried_during_rotation(running: Running, desk: Registered) -> None:
    replacement = await running.expect(instance_id=desk.instance_id, promised=True)
    assert (await running.post(replacement.sender.verification(replacement.registration_id))).status == 200
    for sender in (desk.sender, replacement.sender):
        assert (await running.post(sender.notification())).status == 204
    recorded = {found.registration_id for _, found in await running.store.notifications()}
    assert recorded == {desk.registration_id, replacement.registration_id}


# A01: tokens


def tokens(good: str) -> list[str]:
    junk = base64.b64encode(b"x" * 32).decode()
    return [
        f"v1,AAAA {good}",
        f"v1{good} {good}",
        f"v1,A {good}",
        f"v2,x  {good}",
        f" {good}",
        f"{good} ",
        f"v1a,{junk} ,, v1, {good} v1,{junk}",
        " ".join([*[f"v1,{junk}"] * 150, good]),
        f"{good} {good}",
        f"\t {good}".strip("\t"),
    ]


@each_row("number", range(10))
async def test_a_right_token_is_found_whatever_stands_beside_it(
    running: Running, desk: Registered, number: int
) -> None:
    delivery = desk.sender.notification()
    header = tokens(delivery.headers["webhook-signature"])[number]
    assert (await running.post(delivery.with_headers(webhook_signature=header))).status == 204


@each_row(
    "header",
    ["v1,AAAA", "v1,", "v1", ",", "v1,A", "v1,!!!!", "v1,=", "v1a", "v1,AAAA,v1,AAAA", " ".join(["v1,x"] * 200)],
)
async def test_wrong_tokens_of_any_form_are_unauthenticated(running: Running, desk: Registered, header: str) -> None:
    delivery = desk.sender.notification().with_headers(webhook_signature=header)
    assert await refused(running, delivery) == (401, "wrong_signature")


async def test_a_token_of_another_version_is_not_accepted(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification()
    other = delivery.headers["webhook-signature"].replace("v1,", "v1a,")
    assert await refused(running, delivery.with_headers(webhook_signature=other)) == (401, "wrong_signature")


async def test_a_signature_header_near_the_size_limit_is_looked_at(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification()
    good = delivery.headers["webhook-signature"]
    filling = ("v1," + "A" * 43 + "= ") * 168
    header = f"{filling}{good}"
    assert 8_000 < len(header) < 8_150
    assert (await running.post(delivery.with_headers(webhook_signature=header))).status == 204


# A04, A05, A20: bytes that are no JSON as AAP has it


@pytest.mark.parametrize("body", [b"\xff\xfe", "{}".encode("utf-16"), "{}".encode("utf-32"), b"\xef\xbb\xbf{}", b""])
async def test_signed_bytes_that_are_not_utf_8_json_are_refused(
    running: Running, desk: Registered, body: bytes
) -> None:
    assert (await refused(running, desk.sender.raw(body)))[0] == 400


@pytest.mark.parametrize("value", ['"🎉"', '"\\u2028"', '"\\u0000"', "1e400", "-0", "0.10", "9" * 400, "[]", "null"])
async def test_a_signed_field_that_aap_does_not_define_is_refused_after_the_signature(
    running: Running, desk: Registered, value: str
) -> None:
    plain = desk.sender.notification()
    body = plain.body[:-1] + f', "note": {value}}}'.encode()
    delivery = desk.sender.raw(body, plain.headers["webhook-id"])
    assert await refused(running, delivery) == (400, "unknown_field")
    forged = delivery.with_headers(webhook_signature="v1,AAAA")
    assert await refused(running, forged) == (401, "wrong_signature")


# A06: re-serialised bodies


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda event: json.dumps(event, separators=(",", ":")),
        lambda event: json.dumps(event, sort_keys=True, indent=2),
        lambda event: json.dumps(event, indent=2) + "\n",
        lambda event: json.dumps(event, indent=2).replace("\n", "\r\n"),
        lambda event: json.dumps(event, indent=4),
        lambda event: json.dumps(event),
    ],
)
async def test_only_the_exact_bytes_pass(running: Running, desk: Registered, rewrite: Any) -> None:
    event = json.loads(desk.sender.notification().body)
    signed = desk.sender.raw(json.dumps(event, indent=2).encode(), event["id"])
    other = Delivery(signed.headers, rewrite(event).encode())
    assert await refused(running, other) == (401, "wrong_signature")
    entry = running.receiver.refusals.entries()[-1]
    assert entry["bytes"] == len(other.body)
    assert entry["body_sha256"] == hashlib.sha256(other.body).hexdigest()
    assert (await running.post(signed)).status == 204


# A08: compressed bodies


async def test_a_compressed_body_is_refused_without_being_unpacked(running: Running, desk: Registered) -> None:
    bomb = gzip.compress(b"\0" * 10_000_000)
    delivery = desk.sender.raw(bomb[:60_000]).with_headers(content_encoding="gzip")
    assert await refused(running, delivery) == (415, "wrong_content_encoding")


async def test_a_compressed_body_in_chunks_is_refused_before_it_is_read(running: Running, desk: Registered) -> None:
    delivery = desk.sender.raw(b"").with_headers(content_encoding="gzip", transfer_encoding="chunked")
    async with Client(running.address) as client:
        await client.send(request_bytes(Delivery(delivery.headers, b"")))
        assert (await client.reply(timeout=1)).status == 415


# A11: time


@pytest.mark.parametrize("offset", [-298, 0, 298])
async def test_a_timestamp_within_five_minutes_passes(running: Running, desk: Registered, offset: int) -> None:
    assert (await running.post(desk.sender.notification(at=time.time() + offset))).status == 204


@pytest.mark.parametrize("offset", [-302, 302, -86_400])
async def test_a_timestamp_further_off_is_refused_either_way(running: Running, desk: Registered, offset: int) -> None:
    delivery = desk.sender.notification(at=time.time() + offset)
    assert await refused(running, delivery) == (401, "timestamp_off")


async def test_a_timestamp_in_milliseconds_is_refused(running: Running, desk: Registered) -> None:
    assert await refused(running, desk.sender.notification(at=time.time() * 1000 % 2**36)) == (401, "timestamp_off")


async def test_an_old_capture_with_its_time_changed_does_not_verify(running: Running, desk: Registered) -> None:
    old = desk.sender.notification(at=time.time() - 1000)
    fresh = old.with_headers(webhook_timestamp=str(int(time.time())))
    assert await refused(running, fresh) == (401, "wrong_signature")


# A13, A14: wrong secrets


async def test_another_instances_secret_does_not_sign_for_this_one(running: Running, desk: Registered) -> None:
    other = await running.register()
    delivery = Sender(other.secret.reveal(), desk.instance_id).notification()
    assert await refused(running, delivery) == (401, "wrong_signature")


async def test_the_secrets_text_is_not_the_key(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification()
    signed = f"{delivery.headers['webhook-id']}.{delivery.headers['webhook-timestamp']}.".encode() + delivery.body
    for key in (desk.secret.reveal(), desk.secret.reveal().removeprefix("whsec_")):
        digest = base64.b64encode(hmac.digest(key.encode(), signed, "sha256")).decode()
        other = delivery.with_headers(webhook_signature=f"v1,{digest}")
        assert await refused(running, other) == (401, "wrong_signature")


async def test_a_verification_signed_for_a_registration_does_not_serve_another(running: Running) -> None:
    first, second = await running.expect(), await running.expect()
    delivery = first.sender.verification(second.registration_id)
    assert await refused(running, delivery) == (401, "wrong_signature")


async def test_ids_in_upper_case_are_the_same_ids(running: Running, desk: Registered) -> None:
    event_id = str(uuid.uuid4())
    upper = Sender(desk.secret.reveal(), desk.instance_id.upper()).notification(event_id=event_id.upper())
    assert (await running.post(upper)).status == 204
    assert (await running.post(desk.sender.notification(event_id=event_id))).status == 409
    ((_, found),) = await running.store.notifications()
    assert (found.event_id, found.instance_id) == (event_id, desk.instance_id)


# Retired registrations


async def test_a_retired_registrations_secret_is_told_apart_from_junk(running: Running, desk: Registered) -> None:
    await running.store.retire_registration(desk.registration_id, clock.now())
    verification = desk.sender.verification(desk.registration_id)
    assert await refused(running, verification) == (403, "registration_retired")
    forger = Sender(SigningSecret.generate().reveal(), desk.instance_id)
    assert await refused(running, forger.verification(desk.registration_id)) == (401, "wrong_signature")


async def test_a_registration_retired_more_than_eight_days_ago_is_unauthenticated(
    running: Running, desk: Registered
) -> None:
    await running.store.retire_registration(desk.registration_id, clock.now() - 8 * clock.DAY - clock.SECOND)
    assert await refused(running, desk.sender.notification()) == (401, "not_live")
