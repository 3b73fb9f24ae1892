"""Deliveries to a real receiver: signed, retried, one at a time, once per decision."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from support.provider import Caller, ReceivingEnd, provider, provider_settings
from wakegate_provider import ReviewError, decide, list_requests, redeliver
from wakegate_schema import strict_json, wire
from wakegate_schema.clock import SECOND
from wakegate_schema.settings import Settings

POLICY = '[[rule]]\ntool = "approve_*"\ndecision = "approve"\n'


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return provider_settings(tmp_path, POLICY)


@pytest.fixture
async def end() -> AsyncIterator[ReceivingEnd]:
    async with ReceivingEnd().serving() as end:
        yield end


@pytest.fixture
async def caller(settings: Settings) -> AsyncIterator[Caller]:
    async with provider(settings) as caller:
        yield caller


@pytest.fixture
async def token(caller: Caller, end: ReceivingEnd) -> str:
    return await caller.credential(end)


def only_row(settings: Settings) -> dict[str, Any]:
    (row,) = list_requests(settings)
    return row


async def settled(settings: Settings, made: int = 1) -> dict[str, Any]:
    """Return the one request's row when so many deliveries were made."""
    async with asyncio.timeout(5):
        while (row := only_row(settings))["deliveries_made"] != made:
            await asyncio.sleep(0.02)
    return row


async def test_a_decision_is_notified_with_a_body_that_says_nothing_of_it(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str
) -> None:
    request_id = await caller.request_id(token)
    decided = wire.object_from(wire.ApprovalRequest, decide(settings, request_id, "approve", note="private"))
    await end.received(1)
    _, headers, body = end.messages[0]
    event = wire.parse_object(wire.ResolvedEvent, body)
    assert decided.decision is not None
    assert (event.request_id, event.created_at) == (request_id, decided.decision.decided_at)
    assert (headers["webhook-id"], headers["Content-Type"]) == (event.id, "application/json")
    Webhook(end.secret).verify(body, headers)
    row = await settled(settings)
    assert (row["event_id"], row["attempts"], row["last_result"]) == (event.id, 1, "status_204")


async def test_a_decision_of_another_connection_is_notified_within_a_moment(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str
) -> None:
    request_id = await caller.request_id(token)
    began = time.monotonic()
    decide(settings, request_id, "deny")
    await end.received(1)
    assert time.monotonic() - began < 1


async def test_every_kind_of_outcome_is_notified_once(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str
) -> None:
    approved = await caller.request_id(token, tool="approve_refund")
    denied = await caller.request_id(token)
    cancelled = await caller.request_id(token)
    expired = await caller.request_id(token, timeout="1s")
    decide(settings, denied, "deny")
    await caller.call("DELETE", f"/v1/requests/{cancelled}", token=token)
    await end.received(4)
    await asyncio.sleep(0.3)
    assert sorted(message["request_id"] for message, _, _ in end.messages) == sorted(
        [approved, denied, cancelled, expired]
    )


async def test_a_retry_has_the_same_id_and_body_with_a_fresh_timestamp(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str
) -> None:
    end.statuses = [500, 410, 302, 400]
    decide(settings, await caller.request_id(token), "approve")
    await end.received(5, seconds=10)
    row = await settled(settings)
    assert len({body for _, _, body in end.messages}) == 1
    assert len({headers["webhook-id"] for _, headers, _ in end.messages}) == 1
    assert len({headers["webhook-timestamp"] for _, headers, _ in end.messages}) > 1
    assert len({headers["webhook-signature"] for _, headers, _ in end.messages}) > 1
    assert row["attempts"] == 5


async def test_any_2xx_ends_the_delivery(settings: Settings, caller: Caller, end: ReceivingEnd, token: str) -> None:
    end.statuses = [299]
    decide(settings, await caller.request_id(token), "approve")
    await settled(settings)
    await asyncio.sleep(0.6)
    assert len(end.messages) == 1


async def test_retry_after_is_respected(settings: Settings, caller: Caller, end: ReceivingEnd, token: str) -> None:
    end.statuses, end.retry_after = [503], "2"
    decide(settings, await caller.request_id(token), "approve")
    await end.received(1)
    began = time.monotonic()
    await end.received(2)
    assert time.monotonic() - began > 1.8


async def test_at_most_one_attempt_of_an_event_is_in_flight(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str
) -> None:
    end.pause = 0.4
    request_id = await caller.request_id(token)
    decide(settings, request_id, "approve")
    await asyncio.sleep(0.1)
    redeliver(settings, only_row(settings)["event_id"])
    await settled(settings, made=2)
    assert (len(end.messages), end.most_running) == (2, 1)


async def test_an_event_can_be_delivered_a_second_time_on_purpose(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str
) -> None:
    decide(settings, await caller.request_id(token), "approve")
    row = await settled(settings)
    redeliver(settings, row["event_id"])
    await end.received(2)
    row = await settled(settings, made=2)
    assert end.messages[0][2] == end.messages[1][2]
    assert (row["deliveries_wanted"], row["attempts"]) == (2, 2)


async def test_an_unknown_event_is_not_delivered_again(settings: Settings, caller: Caller) -> None:
    for event_id in ("f4b96ac4-404d-4f6a-9a03-a0565edc4922", "nonsense"):
        with pytest.raises(ReviewError) as refused:
            redeliver(settings, event_id)
        assert refused.value.reason == "not_found"


async def test_a_deleted_instance_s_event_is_not_delivered_again(
    settings: Settings, caller: Caller, end: ReceivingEnd
) -> None:
    made = (await caller.provision(end)).body
    decide(settings, await caller.request_id(made["credential"]["token"]), "approve")
    row = await settled(settings)
    await caller.call("DELETE", f"/v1/instances/{made['instance']['id']}")
    with pytest.raises(ReviewError) as refused:
        redeliver(settings, row["event_id"])
    assert refused.value.reason == "delivery_ended"


async def test_a_receiver_that_is_away_gets_its_notification_when_it_is_back(
    settings: Settings, caller: Caller
) -> None:
    end = ReceivingEnd()
    async with end.serving():
        token = await caller.credential(end)
        port = int(end.url.split(":")[2].split("/")[0])
    decide(settings, await caller.request_id(token), "approve")
    await asyncio.sleep(0.5)
    assert only_row(settings)["last_result"] == "connection"
    async with end.serving(port):
        await end.received(1)


async def test_after_the_retry_window_no_attempt_is_made(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakegate_provider.decisions.RETRY_WINDOW", SECOND)
    end.statuses = [503] * 100
    decide(settings, await caller.request_id(token), "approve")
    await asyncio.sleep(1.5)
    made = len(end.messages)
    await asyncio.sleep(1.5)
    assert len(end.messages) == made
    row = only_row(settings)
    assert (row["deliveries_made"], row["attempts"]) == (0, made)
    with pytest.raises(ReviewError) as refused:
        redeliver(settings, row["event_id"])
    assert refused.value.reason == "delivery_ended"


async def test_a_receiver_that_hangs_does_not_hold_up_another(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str
) -> None:
    async with ReceivingEnd().serving() as slow:
        other = await caller.credential(slow)
        slow.pause = 3.0
        for _ in range(20):
            decide(settings, await caller.request_id(other), "deny")
        await asyncio.sleep(0.1)
        decide(settings, await caller.request_id(token), "approve")
        await end.received(1, seconds=1)
        assert slow.most_running <= 8


async def test_what_was_not_delivered_before_a_stop_is_delivered_after_the_start(
    settings: Settings, end: ReceivingEnd
) -> None:
    async with provider(settings) as caller:
        token = await caller.credential(end)
        end.statuses = [503] * 3
        decide(settings, await caller.request_id(token), "approve")
        await end.received(1)
    end.statuses = []
    seen = len(end.messages)
    async with provider(settings):
        await end.received(seen + 1)
    assert len({body for _, _, body in end.messages}) == 1


async def test_a_decision_made_while_the_provider_is_down_is_delivered_at_its_start(
    settings: Settings, end: ReceivingEnd
) -> None:
    async with provider(settings) as caller:
        request_id = await caller.request_id(await caller.credential(end))
    decide(settings, request_id, "deny")
    async with provider(settings):
        await end.received(1)


async def test_neither_secret_nor_credential_is_readable_in_the_store(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str
) -> None:
    decide(settings, await caller.request_id(token), "approve")
    await settled(settings)
    folder = settings.provider_database_path.parent
    for file in folder.glob("provider.db*"):
        data = file.read_bytes()
        for planted in (token, caller.token, end.secret, end.secret.removeprefix("whsec_")):
            assert planted.encode() not in data
        assert file.stat().st_mode & 0o777 == 0o600


async def test_a_listing_is_json_and_shows_no_arguments(
    settings: Settings, caller: Caller, end: ReceivingEnd, token: str
) -> None:
    await caller.request_id(token, arguments={"iban": "NL00PRIVATE"})
    text = json.dumps(list(list_requests(settings)))
    assert "NL00PRIVATE" not in text
    assert strict_json.parse(text.encode())
