"""What the provider's own tests do not show yet of its requirements (AAP, "Provider Requirements").

`docs/conformance.md` names the test of every requirement.
"""

import asyncio
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from agentapprovalprotocol import Client

from support.clocks import SetApart
from support.provider import REFUND, Answered, Caller, ReceivingEnd, provider, provider_settings
from wakegate_provider import ReviewError, decide, list_requests, redeliver
from wakegate_schema import clock, strict_json, timestamps, wire
from wakegate_schema.clock import DAY, HOUR, SECOND
from wakegate_schema.settings import Settings

POLICY = """
[[rule]]
tool = "approve_*"
decision = "approve"
approval_ttl = "10m"

[[rule]]
tool = "later_*"
decision = "approve"
delay = "1s"
"""
STATUSES = ("pending", "approved", "denied", "expired", "cancelled")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The provider's."""
    return provider_settings(tmp_path, POLICY)


@pytest.fixture
async def caller(settings: Settings) -> AsyncIterator[Caller]:
    """A running provider."""
    async with provider(settings) as called:
        yield called


@pytest.fixture
async def end() -> AsyncIterator[ReceivingEnd]:
    """A receiver of notifications."""
    async with ReceivingEnd().serving() as serving:
        yield serving


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SetApart:
    """This process's wall clock."""
    made = SetApart(tmp_path)
    monkeypatch.setattr(clock, "_set_apart_by", made.environment[clock.TEST_CLOCK])
    return made


async def request_in(settings: Settings, caller: Caller, token: str, status: str) -> str:
    """Return a request that has come to this status."""
    request_id = await caller.request_id(token, key=status, timeout="1s" if status == "expired" else "30m")
    if status in ("approved", "denied"):
        decide(settings, request_id, "approve" if status == "approved" else "deny", note="I looked at it")
    if status == "cancelled":
        await caller.call("DELETE", f"/v1/requests/{request_id}", token=token)
    if status == "expired":
        await caller.call("GET", f"/v1/requests/{request_id}?wait=5s", token=token)
    return request_id


async def answers_about(caller: Caller, token: str, request_id: str, status: str) -> list[Answered]:
    """What each operation answers about a request, while its status is this; the cancel last."""
    timeout, path = "1s" if status == "expired" else "30m", f"/v1/requests/{request_id}"
    wait = "?wait=1s" if status == "pending" else "?wait=30s"
    return [
        await caller.submit(token, key=status, timeout=timeout),
        await caller.call("GET", path, token=token),
        await caller.call("GET", path + wait, token=token),
        *([await caller.call("DELETE", path, token=token)] if status != "pending" else []),
    ]


@pytest.mark.parametrize("status", STATUSES)
async def test_provider_6_every_answer_has_consistent_states_and_the_contracts_form(
    settings: Settings, caller: Caller, status: str
) -> None:
    token = await caller.credential()
    request_id = await request_in(settings, caller, token, status)
    answered = await answers_about(caller, token, request_id, status)
    told = [each.body for each in answered if each.status == 200]
    assert len(told) == (4 if status == "cancelled" else 3)
    for body in told:
        read = wire.parse_object(wire.ApprovalRequest, strict_json.dumps(body))
        assert (read.id, read.status) == (request_id, status)
        assert (read.decision is None) == (status == "pending")
        assert read.decision is None or read.decision.status == status
        assert body == told[0], "and all say the same"
    for each in answered:
        assert uuid.UUID(each.headers["X-Request-ID"])
    if status not in ("pending", "cancelled"):
        assert (answered[-1].status, answered[-1].code) == (409, "already_terminal")
    with closing(Client(caller.url, token, retry_budget=2.0)) as client:
        theirs = await asyncio.to_thread(client.get, request_id)
    assert theirs.status == status, "the public package reads it so too"
    assert (theirs.decision is None) == (status == "pending")


@pytest.mark.parametrize("status", STATUSES)
async def test_provider_7_the_call_stays_as_it_was_accepted(settings: Settings, caller: Caller, status: str) -> None:
    token = await caller.credential()
    request_id = await request_in(settings, caller, token, status)
    others: list[dict[str, Any]] = [
        {"tool": "other"}, {"arguments": {"amount": 1}}, {"arguments": {"amount": 4900, "to": "me"}},
    ]  # fmt: skip
    for fields in others:
        timeout = "1s" if status == "expired" else "30m"
        refused = await caller.submit(token, key=status, **{"timeout": timeout} | fields)
        assert (refused.status, refused.code) == (409, "idempotency_conflict")
    for method in ("PATCH", "PUT", "POST"):
        body = {"tool": "other", "arguments": {}}
        answer = await caller.call(method, f"/v1/requests/{request_id}", token=token, key="k", body=body)
        assert answer.status == 405
    for each in await answers_about(caller, token, request_id, status):
        if each.status == 200:
            assert (each.body["tool"], each.body["arguments"]) == (REFUND["tool"], REFUND["arguments"])
    with closing(sqlite3.connect(settings.provider_database_path)) as database:
        for column in ("tool", "submission"):
            with pytest.raises(sqlite3.IntegrityError):
                database.execute(f"UPDATE requests SET {column} = 'other'")


async def test_provider_9_keeps_requests_instance_results_and_their_keys_for_the_required_periods(
    settings: Settings, end: ReceivingEnd, apart: SetApart
) -> None:
    """Seven days later, in another process's life, each is answered as it was then."""
    async with provider(settings) as caller:
        created = await caller.provision(end, key="creation")
        instance, token = created.body["instance"]["id"], created.body["credential"]["token"]
        path = f"/v1/instances/{instance}"
        changed = await caller.call("PATCH", path, key="update", body={"instance_name": "renamed"})
        gone = (await caller.provision(key="gone")).body["instance"]["id"]
        assert (await caller.call("DELETE", f"/v1/instances/{gone}")).status == 204
        requests = {status: await request_in(settings, caller, token, status) for status in STATUSES[1:]}
        before = {
            status: (await caller.call("GET", f"/v1/requests/{request_id}", token=token)).body
            for status, request_id in requests.items()
        }
    apart.apart(7 * DAY - HOUR)
    async with provider(settings) as caller:
        replayed = await caller.provision(end, key="creation")
        assert (replayed.status, replayed.body["credential"]) == (200, created.body["credential"])
        assert replayed.body["instance"]["id"] == instance
        again = await caller.call("PATCH", path, key="update", body={"instance_name": "renamed"})
        assert (again.status, again.body) == (200, changed.body)
        assert (await caller.call("DELETE", f"/v1/instances/{gone}")).status == 204
        assert (await caller.provision(key="gone")).code == "instance_deleted"
        for status, request_id in requests.items():
            read = await caller.call("GET", f"/v1/requests/{request_id}", token=token)
            replayed = await caller.submit(token, key=status, timeout="1s" if status == "expired" else "30m")
            assert (replayed.status, replayed.body) == (200, before[status])
            assert read.body == before[status]
            assert (await caller.submit(token, key=status, tool="other")).code == "idempotency_conflict"


@pytest.mark.parametrize("way", ["by policy", "by policy later", "by a person", "for a time of their own"])
async def test_provider_10_an_approvals_end_is_later_than_its_decision_and_fixed(settings: Settings, way: str) -> None:
    tool = {"by policy": "approve_refund", "by policy later": "later_refund"}.get(way, "issue_refund")
    async with provider(settings) as caller:
        token = await caller.credential()
        request_id = await caller.request_id(token, key="k", tool=tool)
        if tool == "issue_refund":
            decide(settings, request_id, "approve", expires_in="2h" if way == "for a time of their own" else None)
        path = f"/v1/requests/{request_id}"
        decision = (await caller.call("GET", f"{path}?wait=5s", token=token)).body["decision"]
        assert timestamps.parse(decision["expires_at"]) >= timestamps.parse(decision["decided_at"]) + SECOND
        with pytest.raises(ReviewError):
            decide(settings, request_id, "approve", expires_in="9h")
        await caller.call("DELETE", path, token=token)
        said = [
            await caller.call("GET", path, token=token),
            await caller.call("GET", f"{path}?wait=1s", token=token),
            await caller.submit(token, key="k", tool=tool),
        ]
    async with provider(settings) as caller:
        said.append(await caller.call("GET", path, token=token))
    assert [each.body["decision"] for each in said] == [decision] * 4


async def test_async_provider_7_keeps_requests_keys_and_notifications_a_day_longer_than_it_delivers(
    settings: Settings, end: ReceivingEnd, apart: SetApart
) -> None:
    async with provider(settings) as caller:
        token = await caller.credential(end)
        end.statuses = [503] * 100
        request_id = await request_in(settings, caller, token, "approved")
        await end.received(1)
        before = (await caller.call("GET", f"/v1/requests/{request_id}", token=token)).body
    (event,) = {row["event_id"] for row in list_requests(settings)}
    apart.apart(8 * DAY - HOUR)
    tried = len(end.messages)
    async with provider(settings) as caller:
        assert (await caller.call("GET", f"/v1/requests/{request_id}", token=token)).body == before
        assert (await caller.submit(token, key="approved")).body == before
        assert (await caller.submit(token, key="approved", tool="other")).code == "idempotency_conflict"
        (row,) = list_requests(settings)
        assert (row["event_id"], row["deliveries_made"]) == (event, 0)
        with pytest.raises(ReviewError) as refused:
            redeliver(settings, str(event))
        assert refused.value.reason == "delivery_ended"
        await asyncio.sleep(0.5)
    assert len(end.messages) == tried, "kept, and delivered no more"


async def test_async_provider_8_bounds_what_it_sends_to_receivers(caller: Caller, end: ReceivingEnd) -> None:
    """At most sixteen receivers are challenged at once; who proves nothing gets nothing more."""
    end.pause = 1.0
    answered = await asyncio.gather(*(caller.provision(end, key=f"k{number}") for number in range(20)))
    refused = [each for each in answered if each.status == 429]
    assert (len(refused), end.most_running) == (4, 16)
    assert all(each.code == "too_many_creations" and int(each.headers["Retry-After"]) >= 1 for each in refused)
    end.pause, end.answer_challenge = 0.0, lambda _: (403, {})
    challenged = len(end.challenges)
    assert (await caller.provision(end)).status == 422
    assert len(end.challenges) == challenged + 1, "one attempt, and no retry"
    await asyncio.sleep(0.5)
    assert (len(end.challenges), end.messages) == (challenged + 1, [])
