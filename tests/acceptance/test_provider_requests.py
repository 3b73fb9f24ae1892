"""Requests over real HTTP: creation, replay, long polls, cancellation, deadlines, and exact arguments."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.provider import REFUND, Caller, provider, provider_settings
from support.tables import each_row
from wakegate_provider import ReviewError, decide, list_requests
from wakegate_schema import strict_json, timestamps, wire
from wakegate_schema.clock import DAY, MINUTE, SECOND
from wakegate_schema.settings import Settings

POLICY = """
[[rule]]
tool = "approve_*"
decision = "approve"
note = "by policy"
approval_ttl = "10m"

[[rule]]
tool = "deny_*"
decision = "deny"
note = "not this one"

[[rule]]
tool = "later_*"
decision = "approve"
delay = "1s"

[[rule]]
tool = "asked_*"
decision = "ask"
approval_ttl = "2h"
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return provider_settings(tmp_path, POLICY)


@pytest.fixture
async def caller(settings: Settings) -> AsyncIterator[Caller]:
    async with provider(settings) as caller:
        yield caller


@pytest.fixture
async def token(caller: Caller) -> str:
    return await caller.credential()


async def test_a_new_request_is_pending_with_the_fields_it_was_given(caller: Caller, token: str) -> None:
    answered = await caller.submit(token, agent_reasoning="charged twice", context={"run": 7}, server="shop")
    assert answered.status == 201
    request = wire.parse_object(wire.ApprovalRequest, json.dumps(answered.body).encode())
    assert (request.status, request.agent_reasoning, request.server) == ("pending", "charged twice", "shop")
    assert timestamps.parse(request.deadline_at) - timestamps.parse(request.created_at) == 30 * MINUTE


async def test_the_same_key_and_fields_return_the_same_request(caller: Caller, token: str) -> None:
    first = await caller.submit(token, key="k")
    again = await caller.submit(token, key="k")
    assert (first.status, again.status) == (201, 200)
    assert again.body == first.body


async def test_a_replay_shows_the_current_state(settings: Settings, caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token, key="k")
    decide(settings, request_id, "deny", note="no")
    again = await caller.submit(token, key="k")
    assert (again.status, again.body["status"], again.body["decision"]["note"]) == (200, "denied", "no")


@pytest.mark.parametrize(
    "fields",
    [
        {"arguments": {"amount": 4901}},
        {"arguments": {"amount": "4900"}},
        {"arguments": {"amount": True}},
        {"arguments": {"amount": 4900, "more": 1}},
        {"tool": "other"},
        {"timeout": "1800s"},
        {"context": {}},
        {"agent_reasoning": ""},
    ],
)
async def test_the_same_key_with_other_fields_conflicts(caller: Caller, token: str, fields: dict[str, object]) -> None:
    await caller.submit(token, key="k")
    refused = await caller.submit(token, key="k", **fields)
    assert (refused.status, refused.code) == (409, "idempotency_conflict")


async def test_numbers_and_key_order_are_compared_by_value(caller: Caller, token: str) -> None:
    path = "/v1/requests"
    first = b'{"tool":"t","arguments":{"a":49,"b":1.50},"timeout":"1m"}'
    again = b'{"timeout":"1m","arguments":{"b":15e-1,"a":49.0},"tool":"t"}'
    assert (await caller.call("POST", path, token=token, key="k", raw=first)).status == 201
    assert (await caller.call("POST", path, token=token, key="k", raw=again)).status == 200


async def test_two_instances_may_use_one_key(caller: Caller, token: str) -> None:
    other = await caller.credential()
    first, second = await caller.submit(token, key="k"), await caller.submit(other, key="k")
    assert (first.status, second.status) == (201, 201)
    assert first.body["id"] != second.body["id"]


async def test_submissions_of_one_key_at_the_same_time_are_one_request(caller: Caller, token: str) -> None:
    answers = await asyncio.gather(*(caller.submit(token, key="k") for _ in range(10)))
    assert sorted(answer.status for answer in answers) == [200] * 9 + [201]
    assert len({answer.body["id"] for answer in answers}) == 1


async def test_arguments_come_back_exactly(caller: Caller, token: str) -> None:
    arguments = (
        '{"exact":0.10,"big":123456789012345678901234567890,"tiny":1E-30,"yes":true,"none":null,'
        '"text":"\u2028 \U0001f4b6 \\u0000 é","deep":[[{"a":[]}]],"":1}'
    )
    raw = f'{{"tool":"t","arguments":{arguments},"timeout":"1m"}}'.encode()
    made = await caller.session.post(
        f"{caller.url}/v1/requests",
        data=raw,
        headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "k", "Content-Type": "application/json"},
    )
    body = strict_json.parse(await made.read())
    assert isinstance(body, dict)
    assert strict_json.equal(body["arguments"], strict_json.parse(arguments.encode()))
    assert b'"exact":0.10,"big":123456789012345678901234567890,"tiny":1E-30' in await made.read()


async def test_the_policy_approves_with_the_creation_s_answer(caller: Caller, token: str) -> None:
    answered = await caller.submit(token, tool="approve_refund")
    assert answered.status == 201
    decision = wire.parse_object(wire.ApprovalRequest, json.dumps(answered.body).encode()).decision
    assert decision is not None
    assert decision.expires_at is not None
    assert (decision.status, decision.note) == ("approved", "by policy")
    assert timestamps.parse(decision.expires_at) - timestamps.parse(decision.decided_at) == 10 * MINUTE


async def test_the_policy_denies_with_its_note(caller: Caller, token: str) -> None:
    answered = await caller.submit(token, tool="deny_refund")
    assert answered.body["decision"]["note"] == "not this one"
    assert "expires_at" not in answered.body["decision"]


async def test_a_delayed_decision_of_the_policy_wakes_a_long_poll(caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token, tool="later_refund")
    began = time.monotonic()
    answered = await caller.call("GET", f"/v1/requests/{request_id}?wait=10s", token=token)
    assert answered.body["status"] == "approved"
    assert 0.8 < time.monotonic() - began < 3


async def test_a_review_lasts_as_long_as_the_policy_says_for_the_tool(
    settings: Settings, caller: Caller, token: str
) -> None:
    request_id = await caller.request_id(token, tool="asked_refund")
    view = wire.object_from(wire.ApprovalRequest, decide(settings, request_id, "approve"))
    assert view.decision is not None
    assert view.decision.expires_at is not None
    lasts = timestamps.parse(view.decision.expires_at) - timestamps.parse(view.decision.decided_at)
    assert lasts == 120 * MINUTE


async def test_a_review_may_say_how_long_its_approval_lasts(settings: Settings, caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token)
    view = wire.object_from(wire.ApprovalRequest, decide(settings, request_id, "approve", expires_in="2s"))
    assert view.decision is not None
    assert view.decision.expires_at is not None
    assert timestamps.parse(view.decision.expires_at) - timestamps.parse(view.decision.decided_at) == 2 * SECOND


async def test_reading_again_never_changes_the_decision(settings: Settings, caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token)
    decided = decide(settings, request_id, "approve", note="fine")
    for _ in range(2):
        assert (await caller.call("GET", f"/v1/requests/{request_id}", token=token)).body == json.loads(
            strict_json.dumps(decided)
        )


async def test_a_long_poll_hears_of_another_connection_s_decision_at_once(
    settings: Settings, caller: Caller, token: str
) -> None:
    request_id = await caller.request_id(token)
    polls = [
        asyncio.create_task(caller.call("GET", f"/v1/requests/{request_id}?wait=20s", token=token)) for _ in range(5)
    ]
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await asyncio.to_thread(decide, settings, request_id, "approve")
    answers = await asyncio.gather(*polls)
    assert {answer.body["status"] for answer in answers} == {"approved"}
    assert time.monotonic() - began < 1


async def test_a_long_poll_without_a_decision_answers_pending(caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token)
    began = time.monotonic()
    answered = await caller.call("GET", f"/v1/requests/{request_id}?wait=1s", token=token)
    assert (answered.status, answered.body["status"]) == (200, "pending")
    assert 0.9 < time.monotonic() - began < 3


async def test_a_longer_wait_is_shortened_and_not_refused(settings: Settings, caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token)
    poll = asyncio.create_task(caller.call("GET", f"/v1/requests/{request_id}?wait=999999h", token=token))
    await asyncio.sleep(0.1)
    decide(settings, request_id, "deny")
    assert (await poll).body["status"] == "denied"


@each_row("wait", ["30", "0s", "-1s", "1.5s", "s", "", "30 s", "1d", "٣s", "1s&wait=1s"])
async def test_a_malformed_wait_is_refused(caller: Caller, token: str, wait: str) -> None:
    request_id = await caller.request_id(token)
    refused = await caller.call("GET", f"/v1/requests/{request_id}?wait={wait}", token=token)
    assert (refused.status, refused.code) == (400, "invalid_wait")


async def test_a_request_expires_at_its_deadline(caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token, timeout="1s")
    answered = await caller.call("GET", f"/v1/requests/{request_id}?wait=10s", token=token)
    assert answered.body["status"] == "expired"
    assert answered.body["decision"] == {"status": "expired", "decided_at": answered.body["deadline_at"]}


async def test_a_request_past_its_deadline_is_never_approved(settings: Settings) -> None:
    async with provider(settings) as caller:
        token = await caller.credential()
        request_id = await caller.request_id(token, timeout="1s")
    await asyncio.sleep(1.1)
    with pytest.raises(ReviewError, match="already expired"):
        decide(settings, request_id, "approve")
    assert [row["status"] for row in list_requests(settings)] == ["expired"]


async def test_a_deadline_that_passed_while_the_provider_was_down_expires_at_the_start(settings: Settings) -> None:
    async with provider(settings) as caller:
        token = await caller.credential()
        request_id = await caller.request_id(token, timeout="1s")
    await asyncio.sleep(1.1)
    async with provider(settings) as caller:
        answered = await caller.call("GET", f"/v1/requests/{request_id}", token=token)
    assert answered.body["status"] == "expired"


async def test_a_very_long_timeout_is_shortened_to_thirty_days(caller: Caller, token: str) -> None:
    answered = await caller.submit(token, timeout="10000h")
    window = timestamps.parse(answered.body["deadline_at"]) - timestamps.parse(answered.body["created_at"])
    assert (answered.body["timeout"], window) == ("10000h", 30 * DAY)


async def test_a_pending_request_can_be_cancelled_again_and_again(caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token)
    answers = [await caller.call("DELETE", f"/v1/requests/{request_id}", token=token) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[0].body == answers[1].body
    assert answers[0].body["decision"]["status"] == "cancelled"


@pytest.mark.parametrize(("decision", "status"), [("approve", "approved"), ("deny", "denied")])
async def test_a_decided_request_cannot_be_cancelled(
    settings: Settings, caller: Caller, token: str, decision: str, status: str
) -> None:
    request_id = await caller.request_id(token)
    decide(settings, request_id, decision)  # type: ignore[arg-type]
    refused = await caller.call("DELETE", f"/v1/requests/{request_id}", token=token)
    assert (refused.status, refused.code) == (409, "already_terminal")
    assert (await caller.call("GET", f"/v1/requests/{request_id}", token=token)).body["status"] == status


async def test_an_expired_request_cannot_be_cancelled(caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token, timeout="1s")
    await asyncio.sleep(1.05)
    refused = await caller.call("DELETE", f"/v1/requests/{request_id}", token=token)
    assert (refused.status, refused.code) == (409, "already_terminal")


async def test_a_cancelled_request_cannot_be_approved(settings: Settings, caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token)
    await caller.call("DELETE", f"/v1/requests/{request_id}", token=token)
    with pytest.raises(ReviewError, match="already cancelled"):
        decide(settings, request_id, "approve")


async def test_many_reviewers_at_once_leave_one_outcome(settings: Settings, caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token)

    def attempt(number: int) -> bool:
        try:
            decide(settings, request_id, "approve" if number % 2 else "deny", note=str(number))
        except ReviewError:
            return False
        return True

    won = await asyncio.gather(*(asyncio.to_thread(attempt, number) for number in range(12)))
    assert sum(won) == 1
    answered = await caller.call("GET", f"/v1/requests/{request_id}", token=token)
    assert answered.body["decision"]["note"] == str(won.index(True))


async def test_an_instance_sees_only_its_own_requests(caller: Caller, token: str) -> None:
    other = await caller.credential()
    request_id = await caller.request_id(token)
    for method in ("GET", "DELETE"):
        refused = await caller.call(method, f"/v1/requests/{request_id}", token=other)
        assert (refused.status, refused.code) == (404, "not_found")


async def test_the_provisioner_reads_no_requests(caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token)
    assert (await caller.call("GET", f"/v1/requests/{request_id}")).status == 403
    assert (await caller.call("POST", "/v1/requests", key="k", body=dict(REFUND))).status == 403


async def test_an_unknown_request_is_not_found(caller: Caller, token: str) -> None:
    for item in (str(uuid.uuid4()), "no-uuid", "%00"):
        assert (await caller.call("GET", f"/v1/requests/{item}", token=token)).status == 404


async def test_there_is_no_consumption(caller: Caller, token: str) -> None:
    request_id = await caller.request_id(token)
    for verb in ("consume", "outcome"):
        refused = await caller.call("POST", f"/v1/requests/{request_id}/{verb}", token=token, key="k", body={})
        assert (refused.status, refused.code) == (404, "not_found")


async def test_an_instance_without_delivery_is_owed_no_notification(
    settings: Settings, caller: Caller, token: str
) -> None:
    decide(settings, await caller.request_id(token), "approve")
    assert [row["event_id"] for row in list_requests(settings)] == [None]
