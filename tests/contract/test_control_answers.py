"""Whatever answers in the receiver's place: what is not understood permits nothing, and is never taken for a denial."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.tables import each_row
from wakegate_adapter import (
    Adapter,
    Call,
    CallRefused,
    ControlRefused,
    ControlUnavailable,
    Grant,
    InstanceUnclear,
    KeyConflict,
    NotAllowed,
    NotFound,
    StoreUnavailable,
)
from wakegate_adapter.control_calls import ControlCalls
from wakegate_adapter.control_errors import refused_by
from wakegate_schema import ids, timestamps
from wakegate_schema.clock import HOUR, now
from wakegate_schema.downstream import downstream_key

pytestmark = pytest.mark.by_receiver

CALL = ids.new()
CLAIM = "claim"
STANDING: dict[str, Any] = {
    "id": f"{CALL}_5", "execution_id": CALL, "key": "k", "instance_id": ids.new(), "request_id": ids.new(), "tool": "t",
    "state": "started", "reason": "claimed", "note": None, "decided_at": "2026-01-01T00:00:00Z",
    "expires_at": "2026-01-01T01:00:00.5Z", "result": None, "error": None, "finished_at": None, "group": None,
    "explanation": "It runs.", "runs": "harness", "wake": "none", "problem": None, "hold_id": None,
    "created_at": "2026-01-01T00:00:00Z", "deadline_at": None, "claim_id": CLAIM, "started_at": "2026-01-01T00:00:01Z",
}  # fmt: skip


def claimed(**changes: Any) -> dict[str, Any]:
    """A good answer to the claim, with changes in its attempt (or its execution, as `execution__NAME`)."""
    attempt: dict[str, Any] = {
        "number": 3, "token": "t" * 43, "arguments": {"n": 1.0}, "idempotency_key": downstream_key(CALL),
        "lease_seconds": 30.0, "start_before": timestamps.render(now() + HOUR),
    }  # fmt: skip
    execution = dict(STANDING)
    for name, value in changes.items():
        part, field = (execution, name[11:]) if name.startswith("execution__") else (attempt, name)
        part[field] = value
    return {"execution": execution, "attempt": attempt}


def answer(value: Any, status: str = "200 OK", kind: str = "application/json") -> bytes:
    """An answer as bytes."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@asynccontextmanager
async def peer(said: bytes, *, for_ever: bytes = b"") -> AsyncIterator[ControlCalls]:
    """The calls, over a socket where everything is answered so; and then `for_ever` again and again."""
    folder = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(said)
            await writer.drain()
            while for_ever:
                writer.write(for_ever)
                await writer.drain()
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, str(folder / "c.sock"))
    calls = ControlCalls(folder / "c.sock")
    try:
        yield calls
    finally:
        await calls.close()
        server.close()
        await server.wait_closed()
        shutil.rmtree(folder)


async def test_a_good_answer_to_a_claim_is_taken() -> None:
    async with peer(answer(claimed())) as calls:
        taken = await calls.take(CALL, CLAIM)
    assert taken.permitted
    assert taken.grant == Grant(CALL, 3, "t" * 43)
    assert (taken.arguments, taken.lease_seconds) == ({"n": 1.0}, 30.0)
    assert taken.unfit is not None
    assert taken.unfit() is None
    assert taken.start_before is not None


NONSENSE: dict[str, bytes] = {
    "nothing": b"",
    "no HTTP": b"hello\r\n\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
    "half an answer": answer(claimed())[:-10],
    "a page": answer(b"<html>", kind="text/html"),
    "JSON under another name": answer(claimed(), kind="text/plain"),
    "no JSON": answer(b"{"),
    "no object": answer([claimed()]),
    "a key twice": answer(json.dumps(claimed()).replace('"number": 3', '"number": 3, "number": 4').encode()),
    "not a number": answer(json.dumps(claimed()).replace('"number": 3', '"number": NaN').encode()),
    "not UTF-8": answer(b'{"a": "\xff"}'),
    "compressed": answer(b"\x1f\x8b" + b"x" * 30),
    "a redirection": b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "created": answer(claimed(), "201 Created"),
    "a refusal without a reason": answer({"message": "no"}, "409 Conflict"),
    "a refusal in a good status": answer({"reason": "denied", "message": "no", "execution": STANDING}),
    "another call": answer(claimed(execution__execution_id=ids.new())),
    "a call that is not started": answer(claimed(execution__state="permitted")),
    "another's claim": answer(claimed(execution__claim_id="other")),
    "a state there is not": answer(claimed(execution__state="granted")),
    "no attempt": answer({"execution": STANDING}),
    "no execution": answer({"attempt": claimed()["attempt"]}),
    "another downstream key": answer(claimed(idempotency_key="other")),
    "no token": answer(claimed(token="")),
    "a number that is true": answer(claimed(number=True)),
    "a number that is none": answer(claimed(number=0)),
    "arguments that are no object": answer(claimed(arguments=[1])),
    "a lease that is over": answer(claimed(lease_seconds=0)),
    "a lease for ever": answer(claimed(lease_seconds=1e9)),
    "no end": answer(claimed(start_before=None)),
    "an end in another form": answer(claimed(start_before="soon")),
    "a time that is a number": answer(claimed(start_before=1_800_000_000)),
}


@each_row("said", NONSENSE.values(), ids=NONSENSE.keys())
async def test_nonsense_permits_nothing(said: bytes) -> None:
    async with peer(said) as calls:
        with pytest.raises(ControlUnavailable) as lost:
            await calls.take(CALL, CLAIM)
    assert isinstance(lost.value, StoreUnavailable)
    assert "denied" not in str(lost.value)


async def test_a_token_in_an_answer_that_is_not_understood_is_not_shown() -> None:
    async with peer(answer(claimed(token="secret" * 10, number="secret"))) as calls:
        with pytest.raises(ControlUnavailable) as lost:
            await calls.take(CALL, CLAIM)
    shown, cause = [str(lost.value)], lost.value.__context__
    while cause is not None:
        shown.append(str(cause))
        cause = cause.__context__
    assert "secret" not in "".join(shown)
    assert "attempt.number" in shown[0]


async def test_an_endless_answer_is_not_read_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    async with peer(head, for_ever=b"x" * 65_536) as calls:
        with pytest.raises(ControlUnavailable, match="longer than"):
            await calls.take(CALL, CLAIM)


async def test_a_slow_answer_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakegate_adapter.control_http.REQUEST_S", 0.3)
    async with peer(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{") as calls:
        with pytest.raises(ControlUnavailable):
            await calls.take(CALL, CLAIM)


def changed(**changes: Any) -> bytes:
    return answer(STANDING | changes)


@pytest.mark.parametrize(
    "said",
    [changed(execution_id=ids.new()), changed(runs="nobody"), changed(created_at=None), changed(id=""), answer({})],
)
async def test_nonsense_about_where_a_call_stands_is_no_standing(said: bytes) -> None:
    async with peer(said) as calls:
        for use in (calls.show(CALL), calls.abandon(CALL, "r")):
            with pytest.raises(ControlUnavailable):
                await use


@pytest.mark.parametrize("value", [{}, {"kept": "yes", "settled": False}, {"kept": 1, "settled": 0}, {"held": None}])
async def test_nonsense_about_a_lease_or_a_hold_is_no_word(value: Any) -> None:
    grant = Grant(CALL, 3, "t")
    async with peer(answer(value)) as calls:
        for use in (calls.renew(grant), calls.runs_on(grant), calls.keep_hold(CALL, "h")):
            with pytest.raises(ControlUnavailable):
                await use


async def test_another_call_than_the_one_that_was_to_be_saved_is_not_taken_for_it() -> None:
    async with peer(answer(STANDING | {"created": True})) as calls:
        with pytest.raises(ControlUnavailable):
            await calls.suspend(Call("t", {}, key="other"), "harness", "none")


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"id: 1-1\nevent: resolution\ndata: {}\n\n",
        b"event: resolution\ndata: {}\n\n",
        b"id: x\nevent: resolution\ndata: {}\n\n",
        b"id: 1-1\nevent: resolution\ndata: [\n\n",
        b"id: 1-1\nevent: resolution\ndata: \xff\n\n",
        b"id: 1-1\nevent: resolu",
        b"",
    ],
)
async def test_a_stream_that_is_not_understood_tells_of_nothing(said: bytes) -> None:
    async with peer(STREAM + said) as calls:
        with pytest.raises(ControlUnavailable):
            await anext(calls.resolutions(""))
        with pytest.raises(ControlUnavailable):
            await calls.end_of_stream()


async def test_comments_and_fields_of_later_versions_pass_by() -> None:
    event = {name: STANDING[name] for name in list(STANDING)[:15]}
    others = b": alive\n\nid: 1-7\nevent: news\ndata: x\n\nretry: 5\n"
    said = f"id: 1-8\nevent: resolution\ndata: {json.dumps(event)}\n\n".encode()
    async with peer(STREAM + others + said) as calls:
        cursor, resolution = await anext(calls.resolutions(""))
    assert (cursor, resolution.execution_id) == ("1-8", CALL)


@pytest.mark.parametrize("part", [b"x" * 65_536, b"data: " + b"x" * 1_000 + b"\n"])
async def test_an_event_that_never_ends_is_not_kept_for_ever(part: bytes) -> None:
    async with peer(STREAM + b"data: ", for_ever=part) as calls:
        with pytest.raises(ControlUnavailable):
            await anext(calls.resolutions(""))


@each_row(
    ("status", "body", "expected", "reason"),
    [
        (404, {"reason": "not_found", "message": "there is no execution"}, NotFound, "not_found"),
        (409, {"reason": "idempotency_conflict", "message": "m"}, KeyConflict, "idempotency_conflict"),
        (400, {"reason": "instance_unclear", "message": "m"}, InstanceUnclear, "instance_unclear"),
        (409, {"reason": "already_started", "message": "m"}, NotAllowed, "already_started"),
        (409, {"reason": "not_your_attempt", "message": "m"}, NotAllowed, "not_your_attempt"),
        (401, {"reason": "unauthenticated", "message": "m"}, ControlRefused, "unauthenticated"),
        (403, {"reason": "harness_unknown", "message": "m"}, ControlRefused, "harness_unknown"),
        (429, {"reason": "rate_limit", "message": "m"}, ControlUnavailable, "rate_limit"),
        (503, {"reason": "harnesses_unreadable", "message": "m"}, ControlUnavailable, "harnesses_unreadable"),
        (500, {"reason": "unforeseen", "message": "m"}, ControlUnavailable, "unforeseen"),
        (404, {"reason": "wrong_path", "message": "m"}, ControlRefused, "wrong_path"),
        (404, {"error": "no"}, ControlUnavailable, "control_answer"),
        (200, {"reason": "not_found", "message": "m"}, ControlUnavailable, "control_answer"),
        (503, {"reason": "not_found", "message": "m"}, ControlUnavailable, "not_found"),
    ],
)
def test_a_refusal_is_the_error_that_the_store_would_raise(
    status: int, body: dict[str, Any], expected: type[Exception], reason: str
) -> None:
    error = refused_by(status, body)
    assert (type(error), error.reason) == (expected, reason)
    if expected is not ControlUnavailable or reason != "control_answer":
        assert body["message"] in str(error)


def test_a_bad_part_of_a_call_is_named_as_the_store_names_it() -> None:
    body = {"reason": "bad_timeout", "message": "timeout: it is no duration", "path": "timeout"}
    error = refused_by(400, body)
    assert isinstance(error, CallRefused)
    assert (error.path, error.problem, str(error)) == ("timeout", "it is no duration", "timeout: it is no duration")


async def test_nobody_at_the_socket_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ControlUnavailable, match=rf"{tmp_path}/none\.sock .*is the receiver running\?") as lost:
        await Adapter.open(tmp_path / "none.sock")
    assert lost.value.reason == "control_unreachable"


async def test_closed_calls_ask_nobody_any_more() -> None:
    async with peer(answer(STANDING)) as calls:
        await calls.close()
        with pytest.raises(ControlUnavailable) as closed:
            await calls.show(CALL)
    assert closed.value.reason == "closed"
