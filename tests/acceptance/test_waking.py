"""Wakes over real HTTP: signed by Standard Webhooks, to the configured URL only, until somebody acknowledges."""

import asyncio
import json
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from standardwebhooks import Webhook

from support.executions import CREATED, DECIDED, EXPIRES, an_execution
from support.http_servers import Handler, http_server, raw_server
from wakegate_schema import clock
from wakegate_schema.clock import DAY, HOUR, SECOND
from wakegate_schema.records import Wake
from wakegate_schema.secret_files import SecretFileError
from wakegate_schema.signing import SigningSecret
from wakegate_schema.states import State
from wakegate_schema.wake_targets import WakeTarget
from wakegate_worker import waking
from wakegate_worker.outbound import Limits
from wakegate_worker.wake_sender import LIMITS, Delivered, RetryAt, Undelivered, WakeSender, ensure_wake_secrets

SECRET = SigningSecret(bytes(range(200, 232)))
EXECUTION = an_execution(
    state=State.SUCCEEDED,
    reason="returned",
    wake="my-harness",
    decided_at=DECIDED,
    expires_at=EXPIRES,
    result='{"refund": "r-1", "note": "für dich"}'.encode(),
    finished_at=DECIDED + SECOND,
)


def a_wake(**changes: Any) -> Wake:
    wake = Wake(
        wake_id=f"{EXECUTION.execution_id}_5",
        execution_id=EXECUTION.execution_id,
        number=5,
        target="my-harness",
        state="owed",
        tries=0,
        problem=None,
        due_at=CREATED,
        created_at=DECIDED + SECOND,
        delivered_at=None,
        to_state=State.SUCCEEDED,
    )
    return replace(wake, **changes)


def sender(session: aiohttp.ClientSession, url: str) -> WakeSender:
    targets = {"my-harness": WakeTarget("my-harness", "http", url), "none": WakeTarget("none", "none")}
    return WakeSender(session, targets, [SECRET], random=lambda: 1.0, limits=Limits(1.0, 0.5, 0))


def acknowledging(status: int = 204, **headers: str) -> Handler:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}

    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=status, headers=sent)

    return handler


async def test_a_wake_is_signed_so_that_the_public_library_accepts_it(session: aiohttp.ClientSession) -> None:
    async with http_server(acknowledging()) as harness:
        result = await sender(session, harness.url + "/wake?tenant=7").deliver(a_wake(), EXECUTION, clock.now())
    assert result == Delivered()
    (seen,) = harness.seen
    assert (seen.method, seen.path) == ("POST", "/wake?tenant=7")
    assert seen.headers["Content-Type"] == "application/json"
    message = Webhook(SECRET.reveal()).verify(seen.body, {name.lower(): value for name, value in seen.headers.items()})
    assert message == json.loads(seen.body)
    assert message["type"] == "execution.resolved"
    assert message["timestamp"] == "2026-09-16T12:02:01Z"
    assert message["data"]["id"] == seen.headers["webhook-id"] == a_wake().wake_id
    assert message["data"]["state"] == "succeeded"
    assert message["data"]["result"] == {"refund": "r-1", "note": "für dich"}


async def test_every_attempt_has_the_same_id_and_body_and_its_own_time_and_signature(
    session: aiohttp.ClientSession,
) -> None:
    now = clock.now()
    async with http_server(acknowledging()) as harness:
        for at in (now, now + 2 * SECOND):
            await sender(session, harness.url).deliver(a_wake(), EXECUTION, at)
    first, second = harness.seen
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert int(second.headers["webhook-timestamp"]) - int(first.headers["webhook-timestamp"]) == 2
    for seen in (first, second):
        sent_at = datetime.fromtimestamp(int(seen.headers["webhook-timestamp"]), UTC)
        signed = Webhook(SECRET.reveal()).sign(seen.headers["webhook-id"], sent_at, seen.body.decode())
        assert seen.headers["webhook-signature"] == signed


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        (State.PERMITTED, "execution.permitted"),
        (State.IN_DOUBT, "execution.in_doubt"),
        (State.DENIED, "execution.resolved"),
        (State.UNOBTAINED, "execution.resolved"),
        (State.LAPSED, "execution.resolved"),
    ],
)
async def test_a_wake_says_which_kind_of_state_it_tells_of(
    session: aiohttp.ClientSession, state: State, kind: str
) -> None:
    async with http_server(acknowledging(200)) as harness:
        await sender(session, harness.url).deliver(a_wake(to_state=state), an_execution(state=state), clock.now())
    message = json.loads(harness.seen[0].body)
    assert (message["type"], message["data"]["state"]) == (kind, state.value)


async def test_a_wake_tells_of_its_own_state_though_the_execution_has_moved_on(session: aiohttp.ClientSession) -> None:
    async with http_server(acknowledging()) as harness:
        await sender(session, harness.url).deliver(a_wake(to_state=State.IN_DOUBT), EXECUTION, clock.now())
    data = json.loads(harness.seen[0].body)["data"]
    assert (data["state"], data["result"], data["finished_at"]) == ("in_doubt", None, None)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_every_success_acknowledges(session: aiohttp.ClientSession, status: int) -> None:
    async with http_server(acknowledging(status)) as harness:
        assert await sender(session, harness.url).deliver(a_wake(), EXECUTION, clock.now()) == Delivered()


@pytest.mark.parametrize("status", [400, 401, 404, 410, 422, 429, 500, 503])
async def test_every_failure_is_tried_again(session: aiohttp.ClientSession, status: int) -> None:
    now = a_wake().created_at
    async with http_server(acknowledging(status)) as harness:
        result = await sender(session, harness.url).deliver(a_wake(tries=3), EXECUTION, now)
    assert result == RetryAt(now + 8 * SECOND, f"http_{status}")


async def test_a_redirect_is_not_followed(session: aiohttp.ClientSession) -> None:
    async with (
        http_server(acknowledging()) as other,
        http_server(acknowledging(307, Location=other.url)) as harness,
    ):
        result = await sender(session, harness.url).deliver(a_wake(), EXECUTION, a_wake().created_at)
    assert isinstance(result, RetryAt)
    assert result.problem == "redirect"
    assert other.seen == []


async def test_what_the_harness_asks_for_is_respected(session: aiohttp.ClientSession) -> None:
    now = a_wake().created_at
    async with http_server(acknowledging(503, Retry_After="3600")) as harness:
        result = await sender(session, harness.url).deliver(a_wake(), EXECUTION, now)
    assert result == RetryAt(now + HOUR + SECOND, "http_503")


async def test_a_wake_is_tried_for_a_day_and_then_undelivered(session: aiohttp.ClientSession) -> None:
    end = a_wake().created_at + DAY
    async with http_server(acknowledging(503, Retry_After="999999")) as harness:
        late = await sender(session, harness.url).deliver(a_wake(tries=90), EXECUTION, end - 1)
        last = await sender(session, harness.url).deliver(a_wake(tries=91), EXECUTION, end)
    assert late == RetryAt(end, "http_503")
    assert last == Undelivered("http_503")


async def test_a_wake_that_gets_through_at_the_last_moment_is_delivered(session: aiohttp.ClientSession) -> None:
    async with http_server(acknowledging()) as harness:
        result = await sender(session, harness.url).deliver(a_wake(), EXECUTION, a_wake().created_at + 2 * DAY)
    assert result == Delivered()


async def test_nobody_there_is_tried_again(session: aiohttp.ClientSession) -> None:
    async with raw_server(b"") as harness:
        pass
    result = await sender(session, harness.url).deliver(a_wake(), EXECUTION, a_wake().created_at)
    assert isinstance(result, RetryAt)
    assert result.problem == "connection_refused"


@pytest.mark.parametrize("sent", [b"\0" * 100, b"", b"HTTP/1.1 204", b"SSH-2.0-OpenSSH_9.2\r\n"])
async def test_what_is_not_http_acknowledges_nothing(session: aiohttp.ClientSession, sent: bytes) -> None:
    async with raw_server(sent) as harness:
        result = await sender(session, harness.url).deliver(a_wake(), EXECUTION, a_wake().created_at)
    assert isinstance(result, RetryAt)


async def test_a_harness_that_never_answers_is_left_in_time(session: aiohttp.ClientSession) -> None:
    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    began = time.monotonic()
    async with raw_server(silence) as harness:
        result = await sender(session, harness.url).deliver(a_wake(), EXECUTION, a_wake().created_at)
    assert isinstance(result, RetryAt)
    assert result.problem == "timeout"
    assert time.monotonic() - began < 5


def test_a_wake_that_a_dead_worker_was_at_is_soon_taken_up_and_never_while_a_try_may_last() -> None:
    assert LIMITS.total_s < waking.LEASE_S <= 2 * LIMITS.total_s


async def test_the_body_of_an_acknowledgement_is_not_read(session: aiohttp.ClientSession) -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
        while True:
            writer.write(b"\0" * 65_536)
            await writer.drain()

    async with raw_server(flood) as harness:
        assert await sender(session, harness.url).deliver(a_wake(), EXECUTION, clock.now()) == Delivered()


async def test_a_target_nobody_configured_is_tried_for_a_day_too(session: aiohttp.ClientSession) -> None:
    """A worker with newer settings may know it."""
    wake, nowhere = a_wake(target="elsewhere", tries=3), sender(session, "http://127.0.0.1:9")
    end = wake.created_at + DAY
    again = await nowhere.deliver(wake, EXECUTION, wake.created_at)
    assert again == RetryAt(wake.created_at + 8 * SECOND, "unknown_target")
    assert await nowhere.deliver(wake, EXECUTION, end) == Undelivered("unknown_target")


async def test_the_target_none_owes_nothing(session: aiohttp.ClientSession) -> None:
    wake = a_wake(target="none")
    assert await sender(session, "http://127.0.0.1:9").deliver(wake, EXECUTION, clock.now()) == Delivered()


@pytest.mark.parametrize("result", [b"1e999", b"[-1e999]", b"NaN"])
async def test_a_result_that_json_cannot_carry_is_undelivered(session: aiohttp.ClientSession, result: bytes) -> None:
    execution = replace(EXECUTION, result=result)
    async with http_server(acknowledging()) as harness:
        delivered = await sender(session, harness.url).deliver(a_wake(), execution, clock.now())
    assert delivered == Undelivered("resolution_not_json")
    assert harness.seen == []


def test_the_wake_secret_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "wake.secret"
    (secret,) = ensure_wake_secrets(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == secret.reveal() + "\n"
    assert ensure_wake_secrets(path) == (secret,)


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_one_line_ending_after_the_wake_secret_is_nothing(tmp_path: Path, ending: str) -> None:
    path = tmp_path / "wake.secret"
    path.write_bytes((SECRET.reveal() + ending).encode())
    path.chmod(0o600)
    assert ensure_wake_secrets(path) == (SECRET,)


@pytest.mark.parametrize(("text", "mode"), [("whsec_short", 0o600), ("", 0o600), (SECRET.reveal(), 0o644)])
def test_a_wake_secret_that_is_none_stops_and_is_not_replaced(tmp_path: Path, text: str, mode: int) -> None:
    path = tmp_path / "wake.secret"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(SecretFileError) as raised:
        ensure_wake_secrets(path)
    assert str(path) in str(raised.value)
    assert SECRET.reveal() not in str(raised.value)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


async def test_while_two_secrets_are_in_the_file_either_verifies_a_wake(
    session: aiohttp.ClientSession, tmp_path: Path
) -> None:
    new = SigningSecret.generate()
    path = tmp_path / "wake.secret"
    path.touch(mode=0o600)
    path.write_text(f"{new.reveal()}\n{SECRET.reveal()}\n")
    async with http_server(acknowledging()) as harness:
        targets = {"my-harness": WakeTarget("my-harness", "http", harness.url)}
        delivered = await WakeSender(session, targets, ensure_wake_secrets(path)).deliver(
            a_wake(), EXECUTION, clock.now()
        )
    assert delivered == Delivered()
    (seen,) = harness.seen
    for secret in (new, SECRET):
        Webhook(secret.reveal()).verify(seen.body, dict(seen.headers))


def test_the_same_wake_secret_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wake.secret"
    path.touch(mode=0o600)
    path.write_text(f"{SECRET.reveal()}\n{SECRET.reveal()}\n")
    with pytest.raises(SecretFileError, match="twice"):
        ensure_wake_secrets(path)
