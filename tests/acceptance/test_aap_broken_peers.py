"""The AAP client against peers that are broken: slow, endless, cut off, not HTTP, not there."""

import asyncio
import json
import socket
import time
from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from support.aap_calls import answering, client, failing, read, submit
from support.executions import REQUEST_ID, an_execution, pending_json, request_json
from support.http_servers import http_server, raw_server
from wakegate_worker.decisions import (
    InvalidAnswer,
    Unreachable,
)
from wakegate_worker.outbound import MAX_BODY, Limits

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
GOOD = json.dumps(request_json()).encode()


def whole(body: bytes, head: bytes = HEAD) -> bytes:
    return head + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body


async def test_a_plain_answer_from_a_socket_is_read(session: aiohttp.ClientSession) -> None:
    async with raw_server(whole(GOOD)) as provider:
        reading = await client(session, provider.url).read(an_execution(), 0)
    assert reading.request.id == REQUEST_ID
    assert reading.server_date is None


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"\0" * 4096,
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 99999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
        HEAD + b"Content-Length: 100\r\nContent-Length: 200\r\n\r\n" + GOOD,
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
        HEAD + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a',
        HEAD + b"Content-Length: 5000\r\n\r\n" + GOOD,
        HEAD,
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
    ids=range(14),
)
async def test_bytes_that_are_no_whole_answer_are_retried(session: aiohttp.ClientSession, sent: bytes) -> None:
    async with raw_server(sent) as provider:
        error = await failing(read(), session, provider.url)
    # Which of them is aiohttp's parsers' to say, and the C one and the Python one differ.
    assert error.problem in {"malformed_http", "connection_lost", "invalid_answer"}


async def test_a_truncated_chunked_approval_is_no_answer(session: aiohttp.ClientSession) -> None:
    sent = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(GOOD) + GOOD + b"\r\n"
    async with raw_server(sent) as provider:
        assert (await failing(read(), session, provider.url)).problem == "connection_lost"


async def test_an_answer_over_the_limit_is_cut_off_while_it_comes(session: aiohttp.ClientSession) -> None:
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(HEAD + b"Connection: close\r\n\r\n")
        while True:
            writer.write(b" " * 65_536)
            await writer.drain()
            sent += 65_536

    async with raw_server(flood) as provider:
        error = await failing(read(), session, provider.url)
    assert isinstance(error, InvalidAnswer)
    assert sent < MAX_BODY + 16_000_000  # what the sockets hold beside the limit


async def test_an_answer_of_just_the_limit_is_read(session: aiohttp.ClientSession) -> None:
    async with raw_server(whole(GOOD.ljust(MAX_BODY))) as provider:
        assert (await client(session, provider.url).read(an_execution(), 0)).request.status == "approved"
    async with raw_server(whole(GOOD.ljust(MAX_BODY + 1))) as provider:
        assert isinstance(await failing(read(), session, provider.url), InvalidAnswer)


async def dribble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(GOOD))
    for byte in GOOD:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(30)


async def interim(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("talk", [dribble, silence, interim])
async def test_a_slow_answer_ends_in_time(session: aiohttp.ClientSession, talk: Callable[..., Awaitable[None]]) -> None:
    began = time.monotonic()
    async with raw_server(talk) as provider:
        error = await failing(read(), session, provider.url)
    assert error.problem == "timeout"
    assert time.monotonic() - began < 5


async def test_the_status_of_a_failure_counts_though_its_body_never_comes(session: aiohttp.ClientSession) -> None:
    async def stalled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 503 Busy\r\nRetry-After: 60\r\nContent-Length: 100\r\n\r\n")
        await asyncio.sleep(30)

    async with raw_server(stalled) as provider:
        error = await failing(read(), session, provider.url)
    assert (error.problem, error.retry_after_s) == ("http_503", 60.0)


async def test_nobody_there_is_retried(session: aiohttp.ClientSession) -> None:
    async with raw_server(b"") as provider:
        pass
    error = await failing(submit(), session, provider.url)
    assert isinstance(error, Unreachable)
    assert error.problem == "connection_refused"


async def test_a_peer_that_speaks_no_tls_is_retried(session: aiohttp.ClientSession) -> None:
    async with http_server(answering(request_json())) as provider:
        error = await failing(read(), session, provider.url.replace("http:", "https:"))
    assert isinstance(error, Unreachable)
    assert error.problem == "tls"
    assert provider.seen == []


class NoNames(AbstractResolver):
    """A resolver that knows nobody, so that no name leaves this machine."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        raise OSError(None, f"no such name: {host}")

    async def close(self) -> None:
        """Nothing is open."""


async def test_a_name_that_does_not_resolve_is_retried() -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(resolver=NoNames())) as session:
        assert (await failing(read(), session, "https://nowhere.invalid")).problem == "dns"


async def test_giving_up_a_long_poll_frees_its_connection(session: aiohttp.ClientSession) -> None:
    async with raw_server(silence) as provider:
        poll = asyncio.ensure_future(client(session, provider.url, Limits()).read(an_execution(), 30))
        await asyncio.sleep(0.1)
        poll.cancel()
        with pytest.raises(asyncio.CancelledError):
            await poll
        assert session.connector is not None
        assert not session.connector._acquired


async def test_one_session_carries_many_long_polls_at_once(session: aiohttp.ClientSession) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.3)
        return await answering(pending_json())(request)

    async with http_server(slow) as provider:
        source = client(session, provider.url, Limits(total_s=5.0))
        began = time.monotonic()
        readings = await asyncio.gather(*(source.read(an_execution(), 1) for _ in range(150)))
    assert len(readings) == 150
    assert time.monotonic() - began < 4
