"""Hostile input to the control API: one clear answer each, nothing half done, and webhooks go on."""

import asyncio
import json
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.control import Reply, Site, Voice, by_token, control_site, token_of
from support.desk import Desk
from support.receivers import Client, Running
from wakegate_receiver.control.app import _understood
from wakegate_receiver.control.routes import Route
from wakegate_schema import clock

TABLES = {"desk": by_token("desk", "refund-desk")}
CALL = {"tool": "issue_refund", "arguments": {"amount": 4900}, "key": "k"}
BOUND_S = 15.0


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with control_site(TABLES, tcp=True) as found:
        await Desk(found.store, name="refund-desk").open()
        yield found


def head(method: str, path: str, *lines: str, body: bytes | None = None, token: str = "desk") -> bytes:
    """One request as bytes."""
    given = [f"{method} {path} HTTP/1.1", "host: a", f"authorization: Bearer {token_of(token)}", *lines]
    if body is not None:
        given += ["content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*given, "", ""]).encode("latin-1") + (body or b"")


async def raw(site: Site, data: bytes) -> Reply:
    """Send bytes on a connection of their own; return the one answer."""
    address: Any = site.settings.control_address
    async with Client((address.host, address.port)) as client:
        await client.send(data)
        reply = await client.reply(BOUND_S)
        return Reply(reply.status, reply.headers, reply.body)


def body_of(**changes: object) -> bytes:
    """A suspension with something changed."""
    return json.dumps({**CALL, **changes}).encode()


SUSPEND = "/v1/executions"
ID = "00000000-0000-4000-8000-000000000000"
NESTED = b'{"a":' * 61 + b"1" + b"}" * 61
BODIES: dict[str, tuple[bytes, int, str, str | None]] = {
    "empty": (b"", 400, "not_json", None),
    "not json": (b"{", 400, "not_json", None),
    "two objects": (b"{}{}", 400, "not_json", None),
    "array": (b"[]", 400, "not_an_object", None),
    "null": (b"null", 400, "not_an_object", None),
    "not utf-8": (b'{"tool":"\xff"}', 400, "not_utf8", None),
    "utf-16": (json.dumps(CALL).encode("utf-16"), 400, "not_utf8", None),
    "byte order mark": (b"\xef\xbb\xbf{}", 400, "bom", None),
    "duplicate key": (b'{"tool":"a","tool":"b"}', 400, "duplicate_key", None),
    "duplicate inside": (b'{"tool":"t","key":"k","arguments":{"a":1,"a":2}}', 400, "duplicate_key", None),
    "NaN": (b'{"tool":"t","key":"k","arguments":{"a":NaN}}', 400, "non_finite_number", None),
    "lone surrogate": (b'{"tool":"t","key":"k","arguments":{"a":"\\ud800"}}', 400, "lone_surrogate", None),
    "long number": (b'{"tool":"t","key":"k","arguments":{"a":' + b"9" * 700 + b"}}", 400, "number_too_long", None),
    "huge exponent": (b'{"tool":"t","key":"k","arguments":{"a":1e99999999}}', 400, "number_too_long", None),
    "deep": (b"[" * 100_000, 400, "too_deep", None),
    "deep arguments": (b'{"tool":"t","key":"k","arguments":' + NESTED + b"}", 400, "too_deep", "arguments" + ".a" * 60),
    "unknown field": (body_of(nothing=1), 400, "unknown_field", "nothing"),
    "unknown name is not echoed": (body_of(**{"<script>": 1}), 400, "unknown_field", "?"),
    "no tool": (b'{"key":"k","arguments":{}}', 400, "missing_field", "tool"),
    "no key": (b'{"tool":"t","arguments":{}}', 400, "missing_field", "key"),
    "arguments are text": (body_of(arguments="x"), 400, "wrong_type", "arguments"),
    "arguments are null": (body_of(arguments=None), 400, "wrong_type", "arguments"),
    "tool is a number": (body_of(tool=1), 400, "wrong_type", "tool"),
    "tool is empty": (body_of(tool=""), 400, "bad_tool", "tool"),
    "tool has a line": (body_of(tool="a\nb"), 400, "bad_tool", "tool"),
    "key has a blank": (body_of(key="a b"), 400, "bad_key", "key"),
    "long key": (body_of(key="k" * 256), 400, "bad_key", "key"),
    "timeout": (body_of(timeout="1d"), 400, "bad_timeout", "timeout"),
    "reasoning": (body_of(reasoning="x" * 17_000), 400, "bad_reasoning", "reasoning"),
    "runs": (body_of(runs="nowhere"), 400, "unknown_value", "runs"),
    "wake": (body_of(wake="http://evil.example"), 400, "bad_wake", "wake"),
    "wake is a path": (body_of(wake="../x"), 400, "bad_wake", "wake"),
    "instance is a path": (body_of(instance="../x"), 400, "instance_unclear", None),
    "hold of nothing": (body_of(hold={"id": "h", "seconds": 0}), 400, "bad_hold_seconds", None),
    "hold for ever": (body_of(hold={"id": "h", "seconds": 1e300}), 400, "bad_hold_seconds", None),
    "hold of text": (body_of(hold={"id": "h", "seconds": "30"}), 400, "wrong_type", "hold.seconds"),
    "hold with more": (body_of(hold={"id": "h", "seconds": 1, "x": 1}), 400, "unknown_field", "hold.x"),
    "large arguments": (body_of(arguments={"a": "x" * 262_144}), 400, "too_large", "arguments"),
    "large context": (body_of(context={"a": "x" * 65_536}), 400, "too_large", "context"),
}


async def test_a_body_that_is_wrong_is_refused_and_nothing_is_saved(site: Site) -> None:
    for case, (body, status, reason, path) in BODIES.items():
        answer = await raw(site, head("POST", SUSPEND, body=body))
        assert (answer.status, answer.reason) == (status, reason), (case, answer.body)
        assert answer.value.keys() <= {"reason", "message", "path"}, case
        assert path is None or answer.value["path"] == path, case
        assert "<script>" not in answer.body.decode()
    assert await site.store.executions() == []


HEADS: dict[str, tuple[bytes, int, str]] = {
    "another path": (head("GET", "/v1/nothing"), 404, "wrong_path"),
    "no path of the API": (head("GET", "/v2/executions"), 404, "wrong_path"),
    "a slash more": (head("GET", "/v1/executions/"), 404, "wrong_path"),
    "two slashes": (head("GET", "//v1/executions"), 404, "wrong_path"),
    "dots": (head("GET", "/v1/../v1/executions"), 404, "wrong_path"),
    "upper case": (head("GET", "/V1/executions"), 404, "wrong_path"),
    "escaped letters": (head("GET", "/v1/%65xecutions"), 404, "wrong_path"),
    "webhooks' path": (head("POST", "/aap/events", body=b"{}"), 404, "wrong_path"),
    "absolute form": (head("GET", "http://evil.example/v1/harness"), 404, "wrong_path"),
    "asterisk": (head("OPTIONS", "*"), 404, "wrong_path"),
    "put": (head("PUT", SUSPEND, body=b"{}"), 405, "wrong_method"),
    "head": (head("OPTIONS", SUSPEND), 405, "wrong_method"),
    "delete": (head("DELETE", f"{SUSPEND}/{ID}"), 405, "wrong_method"),
    "an id that is none": (head("GET", f"{SUSPEND}/x"), 404, "not_found"),
    "an id with a byte": (head("GET", f"{SUSPEND}/%00"), 404, "not_found"),
    "an id that climbs": (head("GET", f"{SUSPEND}/..%2f..%2fetc%2fpasswd"), 404, "not_found"),
    "an id that is not utf-8": (head("GET", f"{SUSPEND}/%ff"), 400, "malformed_path"),
    "half an escape": (head("GET", f"{SUSPEND}/%4"), 400, "malformed_path"),
    "raw bytes": (head("GET", f"{SUSPEND}/\xe9"), 400, "malformed_http"),
    "long id": (head("GET", f"{SUSPEND}/{'x' * 7000}"), 404, "not_found"),
    "an unknown parameter": (head("GET", f"{SUSPEND}?nothing=1"), 400, "unknown_parameter"),
    "another path's parameter": (head("GET", f"{SUSPEND}?wait=1"), 400, "unknown_parameter"),
    "a parameter twice": (head("GET", f"{SUSPEND}?limit=1&limit=2"), 400, "repeated_parameter"),
    "no limit": (head("GET", f"{SUSPEND}?limit="), 400, "bad_parameter"),
    "limit of nothing": (head("GET", f"{SUSPEND}?limit=0"), 400, "bad_parameter"),
    "limit over all": (head("GET", f"{SUSPEND}?limit=501"), 400, "bad_parameter"),
    "limit in other digits": (head("GET", f"{SUSPEND}?limit=%D9%A1"), 400, "bad_parameter"),
    "before of others": (head("GET", f"{SUSPEND}?before=9999999999999999"), 400, "bad_parameter"),
    "a state that is none": (head("GET", f"{SUSPEND}?state=done"), 400, "bad_parameter"),
    "no name": (head("GET", f"{SUSPEND}?&"), 400, "bad_parameter"),
    "a wait too long": (head("GET", f"{SUSPEND}/{ID}?wait=61"), 400, "bad_parameter"),
    "a wait for ever": (head("GET", f"{SUSPEND}/{ID}?wait=inf"), 400, "bad_parameter"),
    "a wait back": (head("GET", f"{SUSPEND}/{ID}?wait=-1"), 400, "bad_parameter"),
    "many parameters": (head("GET", f"{SUSPEND}?" + "&".join("a=1" for _ in range(100))), 400, "bad_parameter"),
    "a body with a get": (head("GET", "/v1/harness", body=b"{}"), 400, "unexpected_body"),
    "a chunked body with a get": (
        head("GET", "/v1/harness", "transfer-encoding: chunked") + b"0\r\n\r\n",
        400,
        "unexpected_body",
    ),
    "no content type": (head("POST", SUSPEND, "content-length: 2") + b"{}", 415, "wrong_content_type"),
    "a form": (
        head("POST", SUSPEND, "content-type: application/x-www-form-urlencoded", "content-length: 3") + b"a=1",
        415,
        "wrong_content_type",
    ),
    "a charset": (
        head("POST", SUSPEND, 'content-type: application/json; charset="latin1"', "content-length: 2") + b"{}",
        415,
        "wrong_charset",
    ),
    "gzip": (head("POST", SUSPEND, "content-encoding: gzip", body=b"{}"), 415, "wrong_content_encoding"),
    "an expectation": (head("POST", SUSPEND, "expect: 200-maybe", body=b"{}"), 417, "unsupported_expectation"),
    "a declared megabyte": (
        head("POST", SUSPEND, "content-type: application/json", f"content-length: {2**20 + 1}"),
        413,
        "body_too_large",
    ),
    "a declared exabyte": (
        head("POST", SUSPEND, "content-type: application/json", f"content-length: {10**18}"),
        413,
        "body_too_large",
    ),
    "two lengths": (
        head("POST", SUSPEND, "content-type: application/json", "content-length: 2", "content-length: 3") + b"{}",
        400,
        "malformed_http",
    ),
    "smuggling": (
        head("POST", SUSPEND, "content-type: application/json", "content-length: 4", "transfer-encoding: chunked")
        + b"0\r\n\r\n",
        400,
        "malformed_http",
    ),
    "two tokens": (head("GET", "/v1/harness", f"authorization: Bearer {token_of('desk')}"), 401, "unauthenticated"),
    "last event twice": (
        head("GET", "/v1/resolutions", "last-event-id: 1-1", "last-event-id: 1-1"),
        400,
        "repeated_parameter",
    ),
    "not http": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "malformed_http"),
    "http/0.9": (b"GET /v1/harness\r\n\r\n", 400, "malformed_http"),
    "http/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "malformed_http"),
    "a long head": (head("GET", "/v1/harness", *(f"x-{n}: {'x' * 4000}" for n in range(20))), 400, "malformed_http"),
    "a long line": (head("GET", "/v1/harness", f"x: {'x' * 20_000}"), 400, "malformed_http"),
    "a nul": (head("GET", "/v1/harness", "x: a\x00b"), 400, "malformed_http"),
}


async def test_a_request_that_is_wrong_has_one_clear_answer(site: Site) -> None:
    for case, (data, status, reason) in HEADS.items():
        answer = await raw(site, data)
        assert (answer.status, answer.reason) == (status, reason), (case, answer.body)
        assert answer.value.keys() <= {"reason", "message", "path"}, case
        assert answer.headers["content-type"] == "application/json", case
        assert status != 405 or answer.headers["allow"], case
    assert await site.store.executions() == []


async def test_a_body_that_grows_over_the_limit_is_cut_off(site: Site) -> None:
    chunk = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    data = head("POST", SUSPEND, "content-type: application/json", "transfer-encoding: chunked") + chunk * 20
    answer = await raw(site, data)
    assert (answer.status, answer.reason) == (413, "body_too_large")


async def test_a_body_that_breaks_off_does_nothing(site: Site) -> None:
    body = body_of()
    address: Any = site.settings.control_address
    for end in range(1, len(body), 7):
        async with Client((address.host, address.port)) as client:
            await client.send(head("POST", SUSPEND, body=body)[: -len(body) + end])
    await asyncio.sleep(0.2)
    assert await site.store.executions() == []


async def test_slow_and_silent_clients_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakegate_receiver.control.app.REQUEST_S", 1.0)
    monkeypatch.setattr("wakegate_receiver.control.serving.REQUEST_S", 1.0)
    async with control_site(TABLES, tcp=True) as site:
        address: Any = site.settings.control_address
        where = (address.host, address.port)
        async with Client(where) as silent, Client(where) as slow, Client(where) as half:
            await slow.send(b"GET /v1/har")
            await half.send(head("POST", SUSPEND, "content-type: application/json", "content-length: 100") + b"{")
            reply = await half.reply(BOUND_S)
            assert (reply.status, reply.reason) == (408, "request_timeout")
            assert await silent.ends(BOUND_S) == b""
            assert await slow.ends(BOUND_S) == b""


async def test_connections_beyond_the_bound_push_out_idle_ones_and_never_a_wait(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wakegate_receiver.binding.CONTROL_CONNECTIONS", 16)
    async with control_site(TABLES, tcp=True) as small, small.voice("desk") as ask:
        desk = await Desk(small.store, name="refund-desk").open()
        saved = await desk.save()
        path = f"{SUSPEND}/{saved.execution_id}?unlike={saved.execution_id}_1&wait=30"
        waiting = asyncio.create_task(ask("GET", path))
        await asyncio.sleep(0.3)
        address: Any = small.settings.control_address
        idle = [socket.create_connection((address.host, address.port)) for _ in range(60)]
        try:
            async with small.voice("desk") as another:
                assert (await another("GET", "/v1/harness")).status == 200
            assert not waiting.done()
        finally:
            for each in idle:
                each.close()
        await small.store.abandon(saved.execution_id, "closed", "harness", clock.now())
        assert (await waiting).value["state"] == "abandoned"
    del site


async def test_neither_strangers_nor_a_busy_harness_hold_up_webhooks_or_other_harnesses(site: Site) -> None:
    """Only the median is looked at, and with much room: it must not come to seconds."""
    registered = await Running(None, site.settings, site.store, site.stop).register()  # type: ignore[arg-type]
    public = urlsplit(site.url)
    site.tables({**TABLES, "busy": by_token("busy", "another")})
    large = body_of(key="large", arguments={"a": ["x" * 20] * 9_000})
    async with site.voice("x") as stranger, site.voice("busy") as busy, site.voice("desk") as ask:
        junk = [asyncio.create_task(_over_and_over(stranger, "GET", "/v1/harness")) for _ in range(20)]
        junk += [asyncio.create_task(_over_and_over(busy, "GET", "/v1/executions?limit=500")) for _ in range(20)]
        junk += [asyncio.create_task(_over_and_over(busy, "POST", SUSPEND, large)) for _ in range(5)]
        await asyncio.sleep(1)
        loop = asyncio.get_running_loop()
        took: dict[str, list[float]] = {"harness": [], "webhook": []}
        async with Client((public.hostname or "", public.port or 0)) as sender:
            for _ in range(15):
                began = loop.time()
                assert (await ask("GET", "/v1/harness")).status == 200
                middle = loop.time()
                assert (await sender.post(registered.sender.notification())).status == 204
                took["harness"].append(middle - began)
                took["webhook"].append(loop.time() - middle)
        for task in junk:
            task.cancel()
        await asyncio.gather(*junk, return_exceptions=True)
        assert {kind: sorted(times)[7] < 1 for kind, times in took.items()} == {"harness": True, "webhook": True}


async def test_large_bodies_of_one_harness_are_read_one_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many threads that read at once would keep the loop, and so the webhooks, from its turn."""
    inside: Counter[str] = Counter()
    most: Counter[str] = Counter()

    def reading(route: Route, body: bytes) -> Any:
        who = "busy" if b'"busy' in body else "desk"
        inside[who] += 1
        most[who] = max(most[who], inside[who])
        time.sleep(0.05)
        found = _understood(route, body)
        inside[who] -= 1
        return found

    monkeypatch.setattr("wakegate_receiver.control.app._understood", reading)
    await Desk(site.store, name="another").open()
    site.tables({**TABLES, "busy": by_token("busy", "another")})
    async with site.voice("busy") as busy, site.voice("desk") as ask:
        answers = await asyncio.gather(
            *(busy("POST", SUSPEND, body_of(key=f"busy-{n}", arguments={"a": [0.5] * 2_000})) for n in range(6)),
            *(ask("POST", SUSPEND, body_of(key=f"desk-{n}", arguments={"a": [0.5] * 2_000})) for n in range(6)),
        )
    assert {answer.status for answer in answers} == {201}
    assert most == {"busy": 1, "desk": 1}


async def _over_and_over(voice: Voice, method: str, path: str, body: bytes | None = None) -> None:
    while True:
        assert (await voice(method, path, body)).status < 500
        await asyncio.sleep(0)
