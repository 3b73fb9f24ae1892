"""What the AAP client sends, and what it never does, against a real server on loopback."""

import asyncio
import json
import time
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from support.aap_calls import TOKEN, answering, cancel, client, error_body, failing, read, submit
from support.executions import NOW, REQUEST_ID, an_execution, pending_json, request_json, unattached
from support.http_servers import Handler, http_server
from support.tables import each_row
from wakegate_schema import strict_json
from wakegate_schema.sealing import BearerToken, MalformedCredential
from wakegate_schema.urls import MalformedUrl
from wakegate_worker.boundary import Permit, check
from wakegate_worker.decisions import (
    CancelAnswer,
    DecisionError,
    DecisionSource,
    InvalidAnswer,
    SubmissionRejected,
    Unreachable,
)


async def test_a_submission_is_the_saved_call_under_its_saved_key(session: aiohttp.ClientSession) -> None:
    async with http_server(answering(pending_json(), status=201)) as provider:
        reading = await client(session, provider.url + "/aap").submit(unattached())
    (seen,) = provider.seen
    assert (seen.method, seen.path) == ("POST", "/aap/v1/requests")
    assert seen.headers["Idempotency-Key"] == "run-7:call-2"
    assert seen.headers["Authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["Content-Type"] == "application/json"
    assert seen.headers["Accept-Encoding"] == "identity"
    assert json.loads(seen.body) == {
        "tool": "issue_refund",
        "arguments": {"payment_id": "p-9", "amount": 4900, "rate": 0.1},
        "timeout": "30m",
        "agent_reasoning": "charged twice",
        "context": {"ticket": "T-1"},
    }
    assert reading.request.status == "pending"


async def test_numbers_go_out_digit_by_digit(session: aiohttp.ClientSession) -> None:
    arguments = (
        b'{"big":123456789012345678901234567890,"cents":0.10,"more":9007199254740993,"tiny":1e-07,"one":1.0,"yes":true}'
    )
    async with http_server(answering(pending_json(), status=201)) as provider:
        await client(session, provider.url).submit(unattached(arguments=arguments))
    (seen,) = provider.seen
    assert strict_json.dumps(strict_json.parse(arguments)) in seen.body
    for digits in (b"123456789012345678901234567890", b":0.10,", b"9007199254740993", b":1.0,", b":true"):
        assert digits in seen.body


async def test_what_was_not_saved_is_not_sent(session: aiohttp.ClientSession) -> None:
    async with http_server(answering(pending_json(), status=201)) as provider:
        await client(session, provider.url).submit(unattached(context=None, reasoning=None))
        await client(session, provider.url).submit(unattached(context=b"{}", reasoning=""))
    absent, empty = (json.loads(seen.body) for seen in provider.seen)
    assert not {"context", "agent_reasoning", "server"} & absent.keys()
    assert (empty["context"], empty["agent_reasoning"]) == ({}, "")


async def test_every_repeat_of_a_submission_is_the_same_bytes(session: aiohttp.ClientSession) -> None:
    async with http_server(answering(pending_json())) as provider:
        for _ in range(3):
            await client(session, provider.url).submit(unattached())
    assert len({(seen.body, seen.headers["Idempotency-Key"]) for seen in provider.seen}) == 1


@pytest.mark.parametrize("status", [200, 201])
async def test_a_submission_may_be_answered_with_its_decision(session: aiohttp.ClientSession, status: int) -> None:
    async with http_server(answering(request_json(), status=status)) as provider:
        reading = await client(session, provider.url).submit(unattached())
    assert isinstance(check(unattached(), reading.request, NOW), Permit)


@pytest.mark.parametrize(
    ("wait_s", "path"),
    [
        (0.0, f"/v1/requests/{REQUEST_ID}"),
        (0.9, f"/v1/requests/{REQUEST_ID}"),
        (-3.0, f"/v1/requests/{REQUEST_ID}"),
        (12.7, f"/v1/requests/{REQUEST_ID}?wait=12s"),
        (30.0, f"/v1/requests/{REQUEST_ID}?wait=30s"),
        (86_400.0, f"/v1/requests/{REQUEST_ID}?wait=30s"),
    ],
)
async def test_a_read_waits_up_to_thirty_seconds(session: aiohttp.ClientSession, wait_s: float, path: str) -> None:
    async with http_server(answering(pending_json())) as provider:
        await client(session, provider.url).read(an_execution(), wait_s)
    assert (provider.seen[0].method, provider.seen[0].path) == ("GET", path)
    assert provider.seen[0].body == b""


async def test_a_long_poll_outlasts_the_time_of_a_plain_read(session: aiohttp.ClientSession) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.8)
        return await answering(pending_json())(request)

    async with http_server(slow) as provider:
        assert (await client(session, provider.url).read(an_execution(), 2)).request.status == "pending"
        assert (await failing(read(), session, provider.url)).problem == "timeout"


async def test_a_reading_carries_the_providers_clock_and_ours(session: aiohttp.ClientSession) -> None:
    before = time.monotonic()
    async with http_server(answering(request_json(), Date="Wed, 16 Sep 2026 12:02:01 GMT")) as provider:
        reading = await client(session, provider.url).read(an_execution(), 0)
    assert reading.server_date == 1_789_560_121.0
    assert before <= reading.received_monotonic <= time.monotonic()


@pytest.mark.parametrize("date", ["", "yesterday", "Wed, 16 Sep 2026 12:02:61 GMT", "2026-09-16T12:02:01Z", "9" * 2000])
async def test_a_date_that_is_none_is_no_clock(session: aiohttp.ClientSession, date: str) -> None:
    async with http_server(answering(request_json(), Date=date)) as provider:
        reading = await client(session, provider.url).read(an_execution(), 0)
    assert reading.server_date is None


async def test_the_client_is_a_decision_source(session: aiohttp.ClientSession) -> None:
    source: DecisionSource = client(session, "https://approvals.example")
    assert source


async def test_no_cookie_is_sent_back(session: aiohttp.ClientSession) -> None:
    async with http_server(answering(pending_json(), Set_Cookie="sid=1; Path=/")) as provider:
        for _ in range(2):
            await client(session, provider.url).read(an_execution(), 0)
    assert "Cookie" not in provider.seen[1].headers


async def test_a_proxy_in_the_environment_is_not_used(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with http_server(answering(pending_json())) as provider:
        assert (await client(session, provider.url).read(an_execution(), 0)).request.id == REQUEST_ID


@pytest.mark.parametrize("url", ["http://approvals.example", "ftp://127.0.0.1", "https://user@approvals.example"])
async def test_a_base_url_that_would_show_the_credential_is_refused(session: aiohttp.ClientSession, url: str) -> None:
    with pytest.raises(MalformedUrl):
        client(session, url)


@each_row("token", ["s3cr3t\n", "s3cr3t\r\nX: 1", " s3cr3t", "s3cr3t b", "", "s3cr3t\u00f6", "\ufeffs3cr3t"])
def test_a_credential_that_would_change_a_header_is_refused(token: str) -> None:
    with pytest.raises(MalformedCredential) as raised:
        BearerToken(token)
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"idempotency_key": "a\r\nX-Injected: 1"}, "idempotency_key_malformed"),
        ({"idempotency_key": ""}, "idempotency_key_malformed"),
        ({"idempotency_key": "k" * 256}, "idempotency_key_malformed"),
        ({"idempotency_key": "sch\u00f6n"}, "idempotency_key_malformed"),
        ({"idempotency_key": " k"}, "idempotency_key_malformed"),
        ({"arguments": None}, "payload_erased"),
        ({"arguments": b"[1]"}, "payload_unreadable"),
        ({"arguments": b'{"n": NaN}'}, "payload_unreadable"),
        ({"arguments": b'{"n": 1e400000}'}, "payload_unreadable"),
        ({"arguments": b'{"n": "\\ud800"}'}, "payload_unreadable"),
        ({"arguments": b'{"a": 1}, "tool": "x"'}, "payload_unreadable"),
        ({"context": b"null"}, "payload_unreadable"),
        ({"arguments": b'{"amount": 1}', "digest": unattached().digest}, "digest_differs"),
    ],
)
async def test_a_call_that_cannot_be_submitted_is_rejected_before_a_byte_is_sent(
    session: aiohttp.ClientSession, changes: dict[str, Any], reason: str
) -> None:
    async with http_server(answering(pending_json())) as provider:
        error = await failing(submit(unattached(**changes)), session, provider.url)
    assert isinstance(error, SubmissionRejected)
    assert error.reason == reason
    assert provider.seen == []


@pytest.mark.parametrize("request_id", [None, "", "../instances", "7ab8c8ec", f"{REQUEST_ID}/consume"])
async def test_a_request_id_that_is_none_never_gets_into_a_url(
    session: aiohttp.ClientSession, request_id: str | None
) -> None:
    async with http_server(answering(pending_json())) as provider:
        for call in (
            read(an_execution(request_id=request_id)),
            lambda s: s.cancel(an_execution(request_id=request_id)),
        ):
            assert (await failing(call, session, provider.url)).problem == "request_id_malformed"
    assert provider.seen == []


def cancelled_json(**changes: Any) -> dict[str, Any]:
    decision = {"status": "cancelled", "decided_at": "2026-09-16T12:02:00Z"}
    return request_json(**{"status": "cancelled", "decision": decision, **changes})


async def test_a_cancel_is_answered_with_the_cancelled_request(session: aiohttp.ClientSession) -> None:
    async with http_server(answering(cancelled_json())) as provider:
        assert await client(session, provider.url).cancel(an_execution()) is CancelAnswer.CANCELLED
    assert (provider.seen[0].method, provider.seen[0].path) == ("DELETE", f"/v1/requests/{REQUEST_ID}")


@pytest.mark.parametrize(
    ("status", "code", "answer"),
    [(409, "already_terminal", CancelAnswer.ALREADY_TERMINAL), (404, "not_found", CancelAnswer.NOT_FOUND)],
)
async def test_a_cancel_that_comes_too_late_is_settled(
    session: aiohttp.ClientSession, status: int, code: str, answer: CancelAnswer
) -> None:
    async with http_server(answering(error_body(code, "conflict"), status=status)) as provider:
        assert await client(session, provider.url).cancel(an_execution()) is answer


@pytest.mark.parametrize(
    ("handler", "kind"),
    [
        (answering(request_json()), InvalidAnswer),
        (answering(cancelled_json(id="00000000-0000-4000-8000-000000000000")), InvalidAnswer),
        (answering(b"ok"), InvalidAnswer),
        (answering(error_body("busy", "conflict"), status=409), Unreachable),
        (answering(b"<html>", status=404), Unreachable),
        (answering(b"<html>", status=409), Unreachable),
        (answering(b"", status=503), Unreachable),
    ],
)
async def test_a_cancel_that_was_not_answered_stays_owed(
    session: aiohttp.ClientSession, handler: Handler, kind: type[DecisionError]
) -> None:
    async with http_server(handler) as provider:
        assert isinstance(await failing(cancel, session, provider.url), kind)
