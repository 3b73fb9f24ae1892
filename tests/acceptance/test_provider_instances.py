"""Instances over real HTTP: the challenge, replays, conflicts, deletion, and who may do it."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from support.provider import Caller, ReceivingEnd, provider, provider_settings
from wakegate_provider import decide, list_requests
from wakegate_schema import wire


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with provider(provider_settings(tmp_path)) as caller:
        yield caller


@pytest.fixture
async def end() -> AsyncIterator[ReceivingEnd]:
    async with ReceivingEnd().serving() as end:
        yield end


async def test_an_instance_is_created_after_its_receiver_answered_the_challenge(
    caller: Caller, end: ReceivingEnd
) -> None:
    answered = await caller.provision(end)
    assert answered.status == 201
    made = wire.parse_object(wire.ProvisionedInstance, json.dumps(answered.body).encode())
    assert made.instance.name == "refund-desk"
    assert made.instance.delivery is not None
    assert made.instance.delivery.url == end.url
    assert [challenge["instance_id"] for challenge in end.challenges] == [made.instance.id]
    wire.parse_object(wire.VerificationEvent, json.dumps(end.challenges[0]).encode())


async def test_an_instance_without_delivery_needs_no_receiver(caller: Caller) -> None:
    answered = await caller.provision(name=None)
    assert answered.status == 201
    assert answered.body["instance"]["name"]
    assert "delivery" not in answered.body["instance"]


async def test_a_read_shows_neither_secret_nor_token(caller: Caller, end: ReceivingEnd) -> None:
    made = (await caller.provision(end)).body
    read = await caller.call("GET", f"/v1/instances/{made['instance']['id']}")
    assert (read.status, read.body) == (200, made["instance"])
    assert "whsec_" not in json.dumps(read.body)


@pytest.mark.parametrize(
    "answer",
    [
        lambda challenge: (201, {"challenge": challenge}),
        lambda challenge: (302, {"challenge": challenge}),
        lambda challenge: (403, {"challenge": challenge}),
        lambda challenge: (500, {"challenge": challenge}),
        lambda challenge: (200, {"challenge": challenge, "more": 1}),
        lambda challenge: (200, {"challenge": challenge.upper() + "x"}),
        lambda challenge: (200, {"challenge": None}),
        lambda challenge: (200, [challenge]),
        lambda challenge: (200, challenge),
        lambda challenge: (200, {"challenge": challenge, "filler": "x" * 100_000}),
        lambda challenge: (200, {}),
    ],
)
async def test_a_receiver_that_does_not_prove_itself_creates_nothing(
    caller: Caller, end: ReceivingEnd, answer: Callable[[str], tuple[int, object]]
) -> None:
    proves_itself, end.answer_challenge = end.answer_challenge, answer
    refused = await caller.provision(end, key="k")
    assert (refused.status, refused.code) == (422, "webhook_verification_failed")
    assert len(end.challenges) == 1
    end.answer_challenge = proves_itself
    assert (await caller.provision(end, key="k")).status == 201


async def test_a_receiver_with_another_secret_creates_nothing(caller: Caller, end: ReceivingEnd) -> None:
    other = ReceivingEnd(url=end.url, registration_id=end.registration_id)
    refused = await caller.provision(other)
    assert (refused.status, refused.code) == (422, "webhook_verification_failed")


async def test_nobody_listening_creates_nothing(caller: Caller) -> None:
    refused = await caller.provision(ReceivingEnd(url="http://127.0.0.1:9/aap/events"))
    assert (refused.status, refused.code) == (422, "webhook_verification_failed")


async def test_the_same_key_returns_the_original_credential(caller: Caller, end: ReceivingEnd) -> None:
    first = await caller.provision(end, key="k")
    again = await caller.provision(end, key="k")
    assert (first.status, again.status) == (201, 200)
    assert again.body == first.body
    assert len(end.challenges) == 1


async def test_the_same_key_returns_the_original_credential_after_a_restart(tmp_path: Path, end: ReceivingEnd) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        first = await caller.provision(end, key="k")
    async with provider(settings) as caller:
        again = await caller.provision(end, key="k")
    assert (again.status, again.body) == (200, first.body)


async def test_the_same_key_with_other_fields_conflicts(caller: Caller, end: ReceivingEnd) -> None:
    await caller.provision(end, key="k")
    for other in (
        {"instance_name": "other", "delivery": end.delivery()},
        {"delivery": end.delivery()},
        {"instance_name": "refund-desk"},
        {"instance_name": "refund-desk", "delivery": end.delivery(url=end.url + "/2")},
        {"instance_name": "refund-desk", "delivery": end.delivery(registration_id=str(uuid.uuid4()))},
        {"instance_name": "refund-desk", "delivery": end.delivery(signing_secret=ReceivingEnd().secret)},
    ):
        refused = await caller.call("POST", "/v1/instances", key="k", body=other)
        assert (refused.status, refused.code) == (409, "idempotency_conflict")


async def test_submissions_of_one_key_at_the_same_time_are_one_creation(caller: Caller, end: ReceivingEnd) -> None:
    end.pause = 0.2
    answers = await asyncio.gather(*(caller.provision(end, key="k") for _ in range(8)))
    assert len(end.challenges) == 1
    assert len({answer.body["credential"]["token"] for answer in answers}) == 1


async def test_a_conflict_is_seen_while_the_first_submission_is_still_running(
    caller: Caller, end: ReceivingEnd
) -> None:
    end.pause = 0.3
    first, second = await asyncio.gather(caller.provision(end, key="k"), caller.provision(end, key="k", name="other"))
    assert sorted([first.status, second.status]) == [201, 409]


async def test_deleting_revokes_the_credential_and_can_be_repeated(caller: Caller, end: ReceivingEnd) -> None:
    made = (await caller.provision(end, key="k")).body
    path, token = f"/v1/instances/{made['instance']['id']}", made["credential"]["token"]
    request_id = await caller.request_id(token)
    assert [(await caller.call("DELETE", path)).status for _ in range(2)] == [204, 204]
    assert (await caller.call("GET", path)).status == 404
    assert (await caller.call("GET", f"/v1/requests/{request_id}", token=token)).status == 401
    assert (await caller.submit(token)).status == 401
    replay = await caller.provision(end, key="k")
    assert (replay.status, replay.code) == (409, "instance_deleted")


async def test_deleting_cancels_what_is_pending_without_notifications(tmp_path: Path, end: ReceivingEnd) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        made = (await caller.provision(end)).body
        for _ in range(3):
            await caller.request_id(made["credential"]["token"])
        await caller.call("DELETE", f"/v1/instances/{made['instance']['id']}")
        await asyncio.sleep(0.2)
    rows = list(list_requests(settings))
    assert [(row["status"], row["decided_by"], row["event_id"]) for row in rows] == [
        ("cancelled", "deletion", None)
    ] * 3
    assert end.messages == []


async def test_deleting_keeps_earlier_outcomes_and_ends_their_delivery(tmp_path: Path, end: ReceivingEnd) -> None:
    settings = provider_settings(tmp_path)
    end.statuses = [503] * 100
    async with provider(settings) as caller:
        made = (await caller.provision(end)).body
        request_id = await caller.request_id(made["credential"]["token"])
        decide(settings, request_id, "deny")
        await end.received(1)
        await caller.call("DELETE", f"/v1/instances/{made['instance']['id']}")
        seen = len(end.messages)
        await asyncio.sleep(1.0)
        assert len(end.messages) == seen
    assert [row["status"] for row in list_requests(settings)] == ["denied"]


async def test_a_long_poll_ends_when_its_instance_is_deleted(caller: Caller) -> None:
    made = (await caller.provision()).body
    token = made["credential"]["token"]
    request_id = await caller.request_id(token)
    poll = asyncio.create_task(caller.call("GET", f"/v1/requests/{request_id}?wait=20s", token=token))
    await asyncio.sleep(0.1)
    await caller.call("DELETE", f"/v1/instances/{made['instance']['id']}")
    async with asyncio.timeout(2):
        assert (await poll).status == 404


async def test_an_unknown_instance_is_not_found(caller: Caller) -> None:
    for method in ("GET", "DELETE"):
        for item in (str(uuid.uuid4()), "no-uuid"):
            answered = await caller.call(method, f"/v1/instances/{item}")
            assert (answered.status, answered.code) == (404, "not_found")


async def test_an_instance_credential_manages_no_instances(caller: Caller) -> None:
    token = await caller.credential()
    for method, path in (("POST", "/v1/instances"), ("GET", f"/v1/instances/{uuid.uuid4()}")):
        answered = await caller.call(method, path, token=token, key="k", body={})
        assert (answered.status, answered.body["error"]["type"]) == (403, "authorization")


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com/hook",
        "http://example.com/hook",
        "https://10.0.0.1/hook",
        "https://169.254.169.254/hook",
        "http://user:pass@127.0.0.1:9/hook",
        "http://127.0.0.1:9/hook#part",
        "ftp://127.0.0.1/hook",
        "hook",
        "",
    ],
)
async def test_only_a_plain_url_on_loopback_is_delivered_to(caller: Caller, end: ReceivingEnd, url: str) -> None:
    refused = await caller.call("POST", "/v1/instances", key="k", body={"delivery": end.delivery(url=url)})
    assert (refused.status, refused.code, refused.body["error"]["param"]) == (
        400,
        "invalid_webhook_url",
        "delivery.url",
    )


async def test_another_delivery_type_is_named(caller: Caller, end: ReceivingEnd) -> None:
    refused = await caller.call("POST", "/v1/instances", key="k", body={"delivery": end.delivery(type="email")})
    assert (refused.status, refused.code) == (400, "unsupported_delivery_type")


async def test_a_malformed_secret_is_refused_without_being_shown(caller: Caller, end: ReceivingEnd) -> None:
    body = {"delivery": end.delivery(signing_secret="whsec_c2hvcnQ=")}
    refused = await caller.call("POST", "/v1/instances", key="k", body=body)
    assert (refused.status, refused.code) == (400, "bad_secret")
    assert "c2hvcnQ" not in json.dumps(refused.body)


async def test_a_creation_without_a_key_is_refused(caller: Caller) -> None:
    refused = await caller.call("POST", "/v1/instances", body={})
    assert (refused.status, refused.code) == (400, "missing_idempotency_key")
