"""Hostile and mistaken calls: every answer is a 4xx in the error shape, never a 5xx, and nothing is echoed."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.provider import REFUND, Caller, provider, provider_settings
from support.tables import each_row
from wakegate_schema import wire


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    async with provider(provider_settings(tmp_path)) as caller:
        yield caller


@pytest.fixture
async def token(caller: Caller) -> str:
    return await caller.credential()


async def raw(caller: Caller, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes as they are and return the status, headers and body of the one answer."""
    host, port = caller.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    writer.close()
    await writer.wait_closed()
    return int(lines[0].split()[1]), headers, body


async def test_every_answer_has_a_request_id(caller: Caller, token: str) -> None:
    ids = []
    for method, path in (("POST", "/v1/requests"), ("GET", "/nowhere"), ("GET", f"/v1/requests/{uuid.uuid4()}")):
        answered = await caller.call(method, path, token=token, key="k", body=dict(REFUND))
        ids.append(str(uuid.UUID(answered.headers["X-Request-ID"])))
    assert len(set(ids)) == 3


async def test_a_refusal_carries_the_request_id_of_its_header(caller: Caller) -> None:
    answered = await caller.call("GET", "/nowhere")
    error = wire.parse_object(wire.ErrorBody, json.dumps(answered.body).encode()).error
    assert error.request_id == answered.headers["X-Request-ID"]


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/", "/v2/requests", "/v1/requests/", "//v1/requests", "/v1/requests/a/b", "/V1/requests", "/v1/x"],
)
async def test_an_unknown_path_is_not_found(caller: Caller, path: str) -> None:
    answered = await caller.call("GET", path)
    assert (answered.status, answered.code) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/v1/requests", "POST"),
        ("PUT", "/v1/requests", "POST"),
        ("GET", "/v1/instances", "POST"),
        ("PUT", "/v1/instances/b29a43a7-1949-4b9f-9d61-b7ae66f85d31", "DELETE, GET, PATCH"),
        ("POST", "/v1/requests/7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71", "DELETE, GET"),
        ("PATCH", "/v1/requests", "POST"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(caller: Caller, method: str, path: str, allow: str) -> None:
    answered = await caller.call(method, path)
    assert (answered.status, answered.code, answered.headers["Allow"]) == (405, "method_not_allowed", allow)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": "Bearer unknown"},
        {"Authorization": "Bearer two words"},
        {"Authorization": "Bearer é"},
        {"Authorization": "Bearer " + "x" * 5000},
    ],
)
async def test_a_stranger_is_told_nothing(caller: Caller, headers: dict[str, str]) -> None:
    for method, path in (
        ("POST", "/v1/requests"),
        ("GET", f"/v1/requests/{uuid.uuid4()}"),
        ("POST", "/v1/instances"),
        ("DELETE", f"/v1/instances/{uuid.uuid4()}"),
    ):
        answered = await caller.call(method, path, token="", key="k", body=dict(REFUND), headers=headers)
        assert (answered.status, answered.code) == (401, "invalid_credential")
        assert answered.headers["WWW-Authenticate"] == "Bearer"


async def test_two_credentials_are_none(caller: Caller, token: str) -> None:
    status, _, _ = await raw(
        caller,
        f"GET /v1/requests/{uuid.uuid4()} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode(),
    )
    assert status == 401


@each_row(
    ("body", "code", "param"),
    [
        (b"", "not_json", None),
        (b"{", "not_json", None),
        (b"null", "wrong_type", None),
        (b"[]", "wrong_type", None),
        (b"{}", "missing_field", "tool"),
        (b'{"tool":"","arguments":{},"timeout":"1m"}', "empty", "tool"),
        (b'{"tool":1,"arguments":{},"timeout":"1m"}', "wrong_type", "tool"),
        (b'{"tool":"t","arguments":[],"timeout":"1m"}', "wrong_type", "arguments"),
        (b'{"tool":"t","arguments":null,"timeout":"1m"}', "null", "arguments"),
        (b'{"tool":"t","arguments":{},"timeout":"1"}', "bad_duration", "timeout"),
        (b'{"tool":"t","arguments":{},"timeout":"99999999999h"}', "bad_duration", "timeout"),
        (b'{"tool":"t","arguments":{},"timeout":"1m","context":null}', "null", "context"),
        (b'{"tool":"t","arguments":{},"timeout":"1m","status":"approved"}', "unknown_field", "status"),
        (b'{"tool":"t","arguments":{"a":1,"a":2},"timeout":"1m"}', "duplicate_key", None),
        (b'{"tool":"t","arguments":{"a":NaN},"timeout":"1m"}', "non_finite_number", None),
        (b'{"tool":"t","arguments":{"a":1e9999},"timeout":"1m"}', "number_too_long", None),
        (b'{"tool":"t","arguments":{"a":"\\ud800"},"timeout":"1m"}', "lone_surrogate", None),
        (b'{"tool":"t","arguments":{"a":"\xff"},"timeout":"1m"}', "not_utf8", None),
        (b'\xef\xbb\xbf{"tool":"t","arguments":{},"timeout":"1m"}', "bom", None),
        (b'{"tool":"t","arguments":{"a":' + b"[" * 70 + b"]" * 70 + b'},"timeout":"1m"}', "too_deep", None),
    ],
)
async def test_a_malformed_body_is_refused_by_name(
    caller: Caller, token: str, body: bytes, code: str, param: str | None
) -> None:
    answered = await caller.call("POST", "/v1/requests", token=token, key="k", raw=body)
    assert (answered.status, answered.code, answered.body["error"].get("param")) == (400, code, param)


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", ""]
)
async def test_another_content_type_is_refused(caller: Caller, token: str, content_type: str) -> None:
    answered = await caller.call(
        "POST", "/v1/requests", token=token, key="k", body=dict(REFUND), headers={"Content-Type": content_type}
    )
    assert (answered.status, answered.code) == (415, "unsupported_media_type")


async def test_an_encoded_body_is_refused(caller: Caller, token: str) -> None:
    answered = await caller.call(
        "POST", "/v1/requests", token=token, key="k", raw=b"x", headers={"Content-Encoding": "gzip"}
    )
    assert (answered.status, answered.code) == (415, "unsupported_encoding")


async def test_a_body_over_the_limit_is_refused(caller: Caller, token: str) -> None:
    body = b'{"tool":"t","arguments":{"a":"' + b"x" * 1_100_000 + b'"},"timeout":"1m"}'
    answered = await caller.call("POST", "/v1/requests", token=token, key="k", raw=body)
    assert (answered.status, answered.code) == (413, "body_too_large")


async def test_a_chunked_body_over_the_limit_is_refused(caller: Caller, token: str) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 65_536

    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k", "Content-Type": "application/json"}
    async with caller.session.post(f"{caller.url}/v1/requests", data=chunks(), headers=headers) as response:
        assert response.status == 413


@pytest.mark.parametrize("key", ["", " ", "a b", "é", "x" * 256])
async def test_a_malformed_idempotency_key_is_refused(caller: Caller, token: str, key: str) -> None:
    answered = await caller.call("POST", "/v1/requests", token=token, key=key, body=dict(REFUND))
    assert answered.status == 400
    assert answered.code in ("missing_idempotency_key", "invalid_idempotency_key")


async def test_a_request_without_a_key_is_refused(caller: Caller, token: str) -> None:
    answered = await caller.call("POST", "/v1/requests", token=token, body=dict(REFUND))
    assert (answered.status, answered.code) == (400, "missing_idempotency_key")


@pytest.mark.parametrize(
    "data",
    [
        b"NONSENSE\r\n\r\n",
        b"GET /v1/requests/%zz\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Header: planted\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"planted" * 2000 + b"\r\n\r\n",
        b"POST /v1/requests HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nplanted",
        b"POST /v1/requests HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"\x16\x03\x01planted\r\n\r\n",
    ],
)
async def test_what_is_not_http_is_refused_quietly_and_not_echoed(
    caller: Caller, data: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    status, headers, body = await raw(caller, data)
    error = wire.parse_object(wire.ErrorBody, body).error
    assert (status, error.code, error.request_id) == (400, "malformed_http", headers["x-request-id"])
    captured = capfd.readouterr()
    assert "planted" not in body.decode() + captured.out + captured.err
    assert "Traceback" not in captured.out + captured.err


async def test_a_broken_chunk_is_refused(caller: Caller, token: str) -> None:
    status, _, body = await raw(
        caller,
        f"POST /v1/requests HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: k\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".encode(),
    )
    assert status == 400
    wire.parse_object(wire.ErrorBody, body)


async def test_an_expectation_is_met_before_the_body(caller: Caller, token: str) -> None:
    host, port = caller.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps(REFUND).encode()
    writer.write(
        f"POST /v1/requests HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: k\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode()
    )
    async with asyncio.timeout(5):
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 201 ")
    writer.close()
    await writer.wait_closed()


async def test_another_expectation_is_refused(caller: Caller, token: str) -> None:
    answered = await caller.call(
        "POST", "/v1/requests", token=token, key="k", body=dict(REFUND), headers={"Expect": "miracles"}
    )
    assert (answered.status, answered.code) == (417, "expectation_failed")


async def test_a_client_that_leaves_mid_body_creates_nothing(caller: Caller, token: str) -> None:
    host, port = caller.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"POST /v1/requests HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: k\r\n"
        'Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"tool"'.encode()
    )
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await caller.submit(token, key="k")).status == 201


async def test_too_many_pending_requests_are_refused_for_a_while(
    caller: Caller, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakegate_provider.requests.MAX_PENDING", 2)
    first = await caller.request_id(token)
    await caller.request_id(token)
    refused = await caller.submit(token, key="k")
    assert (refused.status, refused.code, refused.headers["Retry-After"]) == (429, "too_many_pending", "5")
    await caller.call("DELETE", f"/v1/requests/{first}", token=token)
    assert (await caller.submit(token, key="k")).status == 201


async def test_too_many_long_polls_are_refused_for_a_while(
    caller: Caller, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakegate_provider.waiting.MAX_WAITING", 1)
    path = f"/v1/requests/{await caller.request_id(token)}?wait=1s"
    answers = await asyncio.gather(caller.call("GET", path, token=token), caller.call("GET", path, token=token))
    assert sorted(answer.status for answer in answers) == [200, 429]


async def test_too_many_instances_are_refused(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakegate_provider.instances.MAX_INSTANCES", 1)
    assert (await caller.provision()).status == 201
    refused = await caller.provision()
    assert (refused.status, refused.code) == (429, "too_many_instances")
