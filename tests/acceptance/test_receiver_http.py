"""HTTP that is not what it should be: refused shortly, counted, and neither echoed nor logged."""

import asyncio
import io
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.deliveries import Delivery
from support.log_lines import captured_log
from support.receivers import Client, Registered, Running, receiver_in, request_bytes, stalled, until
from support.tables import each_row

CANARY = b"CANARY-7f3a"
START = b"POST /aap/events HTTP/1.1\r\nhost: a\r\n"
MALFORMED = {
    "nothing but blank lines": b"\r\n" * 3 + b"\0\r\n\r\n",
    "garbage": b"\x00\x01" + CANARY + b"\r\n\r\n",
    "HTTP/0.9": b"GET /" + CANARY + b"\r\n\r\n",
    "HTTP/1.2": b"POST /aap/events HTTP/1.2\r\nhost: a\r\nx: " + CANARY + b"\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2.0 by name": b"POST /aap/events HTTP/2.0\r\nhost: a\r\n\r\n",
    "a content length that is no number": START + b"content-length: " + CANARY + b"\r\n\r\n",
    "a negative content length": START + b"content-length: -1\r\n\r\n",
    "a signed content length": START + b"content-length: +1\r\n\r\n1",
    "a content length of 30 digits": START + b"content-length: " + b"9" * 30 + b"\r\n\r\n",
    "a content length of 5000 digits": START + b"content-length: " + b"9" * 5000 + b"\r\n\r\n",
    "two content lengths": START + b"content-length: 1\r\ncontent-length: 2\r\n\r\n1",
    "content length and chunks": START + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "an unknown transfer coding": START + b"transfer-encoding: " + CANARY + b"\r\n\r\n",
    "a folded header": START + b"x: y\r\n " + CANARY + b"\r\n\r\n",
    "a header that is too long": START + b"x: " + CANARY * 900 + b"\r\n\r\n",
    "too many headers": START + b"x: y\r\n" * 100 + b"\r\n",
    "headers that are too large together": START + (b"x: " + CANARY * 700 + b"\r\n") * 5 + b"\r\n",
    "headers that are too large and do not end": START + (b"x: " + CANARY * 700 + b"\r\n") * 5,
    "a target that is too long": b"POST /" + CANARY * 900 + b" HTTP/1.1\r\nhost: a\r\n\r\n",
    "no host": b"POST /aap/events HTTP/1.1\r\nx: " + CANARY + b"\r\n\r\n",
    "a NUL in a header": START + b"x: \x00" + CANARY + b"\r\n\r\n",
    "a space before the colon": START + b"x : " + CANARY + b"\r\n\r\n",
    "a target with a port that is none": b"POST http://a:99999999/aap/events HTTP/1.1\r\nhost: a\r\n\r\n",
    "a target with half an address": b"POST http://[::1/aap/events HTTP/1.1\r\nhost: a\r\n\r\n",
    "two content types": START + b"content-type: a/b\r\ncontent-type: a/b\r\n\r\n",
}
ODD = {
    "CONNECT": (b"CONNECT a:443 HTTP/1.1\r\nhost: a\r\n\r\n", 404),
    "OPTIONS *": (b"OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n", 404),
    "an upgrade to websocket": (START + b"connection: upgrade\r\nupgrade: websocket\r\n\r\n", 415),
    "an upgrade to HTTP/2": (START + b"connection: upgrade\r\nupgrade: h2c\r\n\r\n", 415),
    "HTTP/1.0": (b"POST /aap/events HTTP/1.0\r\n\r\n", 415),
    "two transfer codings": (START + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 415),
    "a header that is not ASCII": (START + b"content-type: \xff\xfe\r\n\r\n", 415),
    "an absolute target": (b"POST http://a/aap/events HTTP/1.1\r\nhost: a\r\n\r\n", 415),
    "a fragment": (b"POST /aap/events#x HTTP/1.1\r\nhost: a\r\n\r\n", 404),
    "a disguised path": (b"POST /aap/%65vents HTTP/1.1\r\nhost: a\r\n\r\n", 404),
    "a path with dots": (b"POST /x/../aap/events HTTP/1.1\r\nhost: a\r\n\r\n", 404),
}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    with captured_log() as stream:
        yield stream


@pytest.fixture
async def running(tmp_path: Path, log: io.StringIO) -> AsyncIterator[Running]:
    async with receiver_in(tmp_path, request_timeout=1.5) as found:
        yield found


@pytest.fixture
async def desk(running: Running) -> Registered:
    return await running.register()


@pytest.mark.parametrize("name", MALFORMED)
async def test_what_is_not_http_gets_a_constant_400(running: Running, log: io.StringIO, name: str) -> None:
    async with Client(running.address) as client:
        await client.send(MALFORMED[name])
        reply = await client.reply()
        assert (reply.status, reply.body) == (400, b'{"reason":"malformed_http"}')
        assert await client.ends(timeout=3) == b""
    assert running.reasons() == ["malformed_http"]
    assert running.receiver.refusals.counts == {"malformed_http": 1}
    lines = [line for line in log.getvalue().splitlines() if '"action": "refuse"' in line]
    assert len(lines) == 1
    assert len(log.getvalue()) < 2000
    assert CANARY.decode() not in log.getvalue()


@each_row("name", ODD)
async def test_what_is_odd_but_http_is_refused_as_such(running: Running, name: str) -> None:
    data, status = ODD[name]
    async with Client(running.address) as client:
        await client.send(data)
        assert (await client.reply()).status == status


async def test_tls_on_the_plain_port_is_refused(running: Running) -> None:
    hello = bytes.fromhex("160301007a0100007603") + b"\r\n" * 60
    async with Client(running.address) as client:
        await client.send(hello)
        assert (await client.reply()).status == 400


async def test_a_kept_connection_that_turns_to_garbage_is_closed(running: Running, desk: Registered) -> None:
    async with Client(running.address) as client:
        assert (await client.post(desk.sender.notification())).status == 204
        await client.send(b"\x00" + CANARY + b"\r\n\r\n")
        assert (await client.reply()).status == 400
        assert await client.ends() == b""


async def test_what_waits_behind_a_request_is_bounded(running: Running, desk: Registered) -> None:
    await running.post(desk.sender.notification())
    ahead = START + (b"x: " + CANARY * 700 + b"\r\n") * 3 + b"\r\n"
    async with Client(running.address) as client:
        with stalled(running.settings):
            await client.send(request_bytes(desk.sender.notification()))
            await until(lambda: running.receiver.connections.busy == 1)
            await client.send(ahead * 20)
            await until(lambda: running.reasons() == ["malformed_http"])
        assert (await client.reply()).status == 204
        assert await client.ends() == b""


async def test_requests_sent_ahead_within_the_bound_are_all_answered(running: Running, desk: Registered) -> None:
    async with Client(running.address) as client:
        await client.send(b"".join(request_bytes(desk.sender.notification()) for _ in range(100)))
        assert [(await client.reply()).status for _ in range(100)] == [204] * 100


async def test_a_body_after_a_refused_head_is_thrown_away_however_long(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification().with_headers(content_type="text/plain", content_length="60000")
    async with Client(running.address) as client:
        await client.send(request_bytes(Delivery(delivery.headers, b"")))
        assert (await client.reply()).status == 415
        await client.send(b"x" * 60_000 + request_bytes(desk.sender.notification()))
        assert (await client.reply()).status == 204


async def test_a_body_that_ends_with_a_long_piece_is_not_taken_for_a_head(running: Running, desk: Registered) -> None:
    small = desk.sender.notification()
    sent = request_bytes(desk.sender.raw(small.body.ljust(60_000), small.headers["webhook-id"]))
    async with Client(running.address) as client:
        for part in (sent[:10_000], sent[10_000:]):
            await client.send(part)
            await asyncio.sleep(0.05)
        assert (await client.reply()).status == 204
        assert (await client.post(desk.sender.notification())).status == 204  # on the same connection
    assert running.receiver.refusals.counts == {}


BROKEN = {
    "a size that is no number": [b"ZZ\r\n"],
    "a chunk longer than its size": [b"1\r\nx", b"yyyy\r\n"],
    "a trailer with a NUL": [b"1\r\nx\r\n0\r\n", b"bad\x00trailer\r\n\r\n"],
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("pause", [0.0, 0.05])
async def test_a_body_in_broken_chunks_is_refused_at_once(
    running: Running, desk: Registered, name: str, pause: float
) -> None:
    delivery = desk.sender.notification().with_headers(transfer_encoding="chunked")
    async with Client(running.address) as client:
        for part in [request_bytes(Delivery(delivery.headers, b"")), *BROKEN[name]]:
            await client.send(part)
            await asyncio.sleep(pause)
        reply = await client.reply(timeout=1)
        assert (reply.status, reply.reason) == (400, "malformed_http")
        assert await client.ends() == b""
    assert running.receiver.refusals.counts == {"malformed_http": 1}


# A27: Expect


async def test_a_sender_that_waits_is_told_to_go_on_after_its_headers_passed(
    running: Running, desk: Registered
) -> None:
    delivery = desk.sender.notification().with_headers(expect="100-continue")
    head, _, body = request_bytes(delivery).partition(b"\r\n\r\n")
    async with Client(running.address) as client:
        await client.send(head + b"\r\n\r\n")
        assert (await client.reply(timeout=5)).status == 100
        await client.send(body)
        assert (await client.reply(timeout=5)).status == 204


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"content_length": "70000"}, 413), ({"content_type": "text/plain"}, 415), ({"webhook_id": "x"}, 400)],
)
async def test_a_sender_that_waits_is_refused_without_100(
    running: Running, desk: Registered, headers: dict[str, str], status: int
) -> None:
    delivery = desk.sender.notification().with_headers(expect="100-continue", **headers)
    head, _, _ = request_bytes(delivery).partition(b"\r\n\r\n")
    async with Client(running.address) as client:
        await client.send(head + b"\r\n\r\n")
        assert (await client.reply(timeout=1)).status == status


async def test_a_sender_that_never_goes_on_is_cut(running: Running, desk: Registered) -> None:
    delivery = desk.sender.notification().with_headers(expect="100-continue")
    head, _, _ = request_bytes(delivery).partition(b"\r\n\r\n")
    async with Client(running.address) as client:
        await client.send(head + b"\r\n\r\n")
        assert (await client.reply(timeout=1)).status == 100
        assert (await client.reply(timeout=3)).status == 408
        assert await client.ends() == b""


# A29: the other of aiohttp's two parsers


@pytest.mark.skipif("AIOHTTP_NO_EXTENSIONS" in os.environ, reason="runs the tests above, once")
async def test_these_tests_pass_with_the_parser_in_python_too() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__,
        env={**os.environ, "AIOHTTP_NO_EXTENSIONS": "1"},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    assert process.returncode == 0, output.decode()[-4000:]
