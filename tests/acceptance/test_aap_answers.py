"""What the AAP client makes of every answer: nothing but a whole, right one is a reading."""

import gzip
import json
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from support.aap_calls import TRACE, answering, cancel, client, error_body, failing, read, submit
from support.executions import NOW, an_execution, request_json
from support.http_servers import http_server
from support.tables import each_row
from wakegate_worker.aap import AapClient
from wakegate_worker.boundary import Close, check
from wakegate_worker.decisions import (
    CredentialRefused,
    InvalidAnswer,
    SubmissionRejected,
    Unreachable,
)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("call", [read(), submit(), cancel], ids=["read", "submit", "cancel"])
async def test_a_refused_credential_is_told_apart(
    session: aiohttp.ClientSession, call: Callable[[AapClient], Awaitable[object]], status: int
) -> None:
    async with http_server(answering(error_body("bad_token", "authentication"), status=status)) as provider:
        assert isinstance(await failing(call, session, provider.url), CredentialRefused)


@each_row(
    ("status", "problem"),
    [(404, "not_found"), (429, "http_429"), (500, "http_500"), (502, "http_502"), (503, "http_503"), (599, "http_599")],
)
@each_row("call", [read(), submit()], ids=["read", "submit"])
async def test_what_may_pass_is_retried(
    session: aiohttp.ClientSession, call: Callable[[AapClient], Awaitable[object]], status: int, problem: str
) -> None:
    async with http_server(answering(error_body("internal"), status=status, Retry_After="7")) as provider:
        error = await failing(call, session, provider.url)
    assert isinstance(error, Unreachable)
    assert (error.problem, error.retry_after_s) == (problem, 7.0)


@pytest.mark.parametrize("status", [400, 405, 409, 410, 418, 422])
async def test_a_read_is_never_final(session: aiohttp.ClientSession, status: int) -> None:
    async with http_server(answering(error_body("conflict"), status=status)) as provider:
        error = await failing(read(), session, provider.url)
    assert isinstance(error, Unreachable)
    assert error.problem == f"http_{status}"


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (400, "missing_idempotency_key", "submission_rejected"),
        (409, "idempotency_conflict", "idempotency_conflict"),
        (413, "too_large", "submission_rejected"),
        (422, "invalid_tool", "submission_rejected"),
    ],
)
async def test_the_providers_own_no_to_a_submission_is_final(
    session: aiohttp.ClientSession, status: int, code: str, reason: str
) -> None:
    async with http_server(answering(error_body(code), status=status, X_Request_ID=TRACE)) as provider:
        error = await failing(submit(), session, provider.url)
    assert isinstance(error, SubmissionRejected)
    assert (error.reason, error.code) == (reason, code)
    assert TRACE in str(error)


@each_row(
    "body",
    [
        b"<html>Bad Request</html>",
        b"",
        b"{",
        b"[]",
        b'{"error": "no"}',
        b'{"error": {"code": 7}}',
        b'{"error": {"code": "Not A Code"}}',
        b'{"error": {"code": "' + b"a" * 65 + b'"}}',
        b'{"error": {"code": "bad"}, "x": "' + b"y" * 70_000 + b'"}',
        b'{"error": {"code": "bad", "code": "bad"}}',
    ],
)
async def test_a_no_that_is_not_the_providers_own_is_not_final(session: aiohttp.ClientSession, body: bytes) -> None:
    async with http_server(answering(body, status=400)) as provider:
        error = await failing(submit(), session, provider.url)
    assert isinstance(error, Unreachable)
    assert error.problem == "http_400"


@pytest.mark.parametrize("status", [407, 408, 421, 425])
async def test_a_no_that_is_not_about_the_call_is_not_final(session: aiohttp.ClientSession, status: int) -> None:
    async with http_server(answering(error_body("come_back"), status=status)) as provider:
        assert isinstance(await failing(submit(), session, provider.url), Unreachable)


@each_row("status", [300, 301, 302, 303, 304, 307, 308])
@each_row("call", [read(), submit(), cancel], ids=["read", "submit", "cancel"])
async def test_a_redirect_is_never_followed(
    session: aiohttp.ClientSession, call: Callable[[AapClient], Awaitable[object]], status: int
) -> None:
    async with (
        http_server(answering(request_json())) as other,
        http_server(answering(request_json(), status=status, Location=other.url)) as provider,
    ):
        error = await failing(call, session, provider.url)
    assert isinstance(error, Unreachable)
    assert error.problem == "redirect"
    assert other.seen == []


@each_row(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("700000", 700_000.0),
        ("9" * 300, 366 * 86_400.0),
        ("Wed, 16 Sep 2026 12:03:01 GMT", 60.0),
        ("Tue, 15 Sep 2026 12:03:01 GMT", 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 366 * 86_400.0),
        ("9" * 301, None),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("1e9", None),
        ("", None),
        ("\u0663", None),
    ],
)
async def test_a_retry_after_is_read_however_it_is_written(
    session: aiohttp.ClientSession, text: str, seconds: float | None
) -> None:
    headers = {"Retry_After": text, "Date": "Wed, 16 Sep 2026 12:02:01 GMT"}
    async with http_server(answering(b"", status=503, **headers)) as provider:
        error = await failing(read(), session, provider.url)
    assert error.retry_after_s == seconds


def with_decision(**decision: Any) -> dict[str, Any]:
    return request_json(decision=decision)


@each_row(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"<html><body>It works!</body></html>",
        json.dumps(request_json()).encode()[:-20],
        json.dumps(request_json()).encode() + b"{}",
        json.dumps({**request_json(), "note": None}).encode(),
        json.dumps({**request_json(), "decision": None}).encode(),
        json.dumps(request_json(status="maybe")).encode(),
        json.dumps(request_json(status="APPROVED")).encode(),
        json.dumps(request_json(decision=None)).encode(),
        json.dumps(with_decision(status="approved", decided_at="2026-09-16T12:02:00Z")).encode(),
        json.dumps(with_decision(status="denied", decided_at="2026-09-16T12:02:00Z")).encode(),
        json.dumps(
            with_decision(status="approved", decided_at="2026-09-16T12:02:00Z", expires_at="2026-09-16T12:02:00Z")
        ).encode(),
        json.dumps(
            with_decision(status="approved", decided_at="2026-09-16T12:02:00Z", expires_at="2026-09-16 13:02:00")
        ).encode(),
        json.dumps(request_json(id="not-a-uuid")).encode(),
        json.dumps(request_json(surprise=1)).encode(),
        json.dumps(request_json()).replace("4900", "NaN").encode(),
        json.dumps(request_json()).replace("4900", "1" * 5000).encode(),
        json.dumps(request_json()).replace("4900", "1e400000").encode(),
        json.dumps(request_json()).replace('"p-9"', '"\\ud800"').encode(),
        json.dumps(request_json()).replace('"amount"', '"payment_id"').encode(),
        json.dumps(request_json()).replace("4900", "[" * 5000 + "]" * 5000).encode(),
        json.dumps(request_json()).encode("utf-16"),
        b"\xef\xbb\xbf" + json.dumps(request_json()).encode(),
        json.dumps(request_json()).encode().replace(b"p-9", b"\xff\xfe"),
    ],
    ids=range(27),
)
@each_row("call", [read(), submit()], ids=["read", "submit"])
async def test_a_success_that_is_no_approval_request_is_invalid(
    session: aiohttp.ClientSession, call: Callable[[AapClient], Awaitable[object]], body: bytes
) -> None:
    async with http_server(answering(body)) as provider:
        error = await failing(call, session, provider.url)
    assert isinstance(error, InvalidAnswer)
    assert error.problem == "invalid_answer"


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "text/html",
        "text/plain",
        "application/json; charset=utf-16",
        "application/jsonp",
        "application/problem+json",
    ],
)
async def test_a_success_of_another_type_is_invalid(session: aiohttp.ClientSession, content_type: str | None) -> None:
    async with http_server(answering(request_json(), content_type=content_type)) as provider:
        assert isinstance(await failing(read(), session, provider.url), InvalidAnswer)


@pytest.mark.parametrize(
    "content_type", ["Application/JSON", "application/json;charset=UTF-8", 'application/json; charset="utf-8"']
)
async def test_a_success_of_the_right_type_in_another_spelling_is_fine(
    session: aiohttp.ClientSession, content_type: str
) -> None:
    async with http_server(answering(request_json(), content_type=content_type)) as provider:
        assert (await client(session, provider.url).read(an_execution(), 0)).request.status == "approved"


@each_row("status", [202, 203, 204, 206, 226])
@each_row("call", [read(), submit(), cancel], ids=["read", "submit", "cancel"])
async def test_another_success_is_none(
    session: aiohttp.ClientSession, call: Callable[[AapClient], Awaitable[object]], status: int
) -> None:
    async with http_server(answering(b"" if status == 204 else request_json(), status=status)) as provider:
        assert isinstance(await failing(call, session, provider.url), InvalidAnswer)


async def test_a_read_is_not_answered_by_201(session: aiohttp.ClientSession) -> None:
    async with http_server(answering(request_json(), status=201)) as provider:
        assert isinstance(await failing(read(), session, provider.url), InvalidAnswer)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "identity, gzip", "x"])
async def test_an_encoded_answer_is_refused_without_being_unpacked(
    session: aiohttp.ClientSession, encoding: str
) -> None:
    bomb = gzip.compress(b"\0" * 50_000_000) if encoding != "deflate" else zlib.compress(b"\0" * 50_000_000)
    async with http_server(answering(bomb, Content_Encoding=encoding)) as provider:
        assert isinstance(await failing(read(), session, provider.url), InvalidAnswer)


async def test_another_requests_body_is_refused_at_the_boundary(session: aiohttp.ClientSession) -> None:
    other = request_json(id="00000000-0000-4000-8000-000000000000")
    async with http_server(answering(other)) as provider:
        reading = await client(session, provider.url).read(an_execution(), 0)
    verdict = check(an_execution(), reading.request, NOW)
    assert isinstance(verdict, Close)
    assert verdict.closing.reason == "request_id_differs"


async def test_a_newer_providers_fields_are_read(session: aiohttp.ClientSession) -> None:
    body = request_json(consumption={"consumed_at": "2026-09-16T12:02:01Z"}, server="payments")
    async with http_server(answering(body)) as provider:
        reading = await client(session, provider.url).read(an_execution(), 0)
    assert reading.request.consumption is not None
