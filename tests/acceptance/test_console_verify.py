"""`wakegate verify`: what it says of a captured delivery is what a real receiver says of it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from support.console import Console, Ran, run
from support.deliveries import Delivery, Sender, new_id
from support.receivers import Client, Registered, Running, receiver_in, request_bytes
from wakegate_schema import clock, timestamps
from wakegate_schema.signing import SigningSecret

SECRET = SigningSecret(bytes((29 + step * 7) % 256 for step in range(32)))
SENDER = Sender(SECRET.reveal(), "b29a43a7-1949-4b9f-9d61-b7ae66f85d31")
CANARY = "CANARY-7f3a"


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    made = Console(tmp_path, monkeypatch, capsys)
    made.secret_file("secret", SECRET.reveal() + "\n")
    return made


def saved(folder: Path, delivery: Delivery) -> list[str]:
    """Save a delivery as a body and a block of headers; return the options that name them."""
    (folder / "body").write_bytes(delivery.body)
    (folder / "headers").write_text("".join(f"{name}: {value}\r\n" for name, value in delivery.headers.items()))
    return ["verify", "--body", "body", "--headers", "headers"]


def verified(console: Console, delivery: Delivery, *more: str) -> tuple[int, Any]:
    """Return the exit code and the report on a delivery, with the secret in its file."""
    ran = console(*saved(console.directory, delivery), "--secret-file", "secret", "--json", *more)
    assert ran.err == ""
    return ran.code, ran.json


# With the secret in a file, and nothing else


def test_what_the_public_library_signs_passes(console: Console) -> None:
    event = json.loads(SENDER.notification().body)
    text = json.dumps(event, indent=2)
    signature = Webhook(SECRET.reveal()).sign(event["id"], datetime.now(UTC), text)
    headers = [
        f"webhook-id: {event['id']}",
        f"webhook-timestamp: {int(time.time())}",
        f"webhook-signature: {signature}",
    ]
    (console.directory / "body").write_text(text)
    given = [word for header in headers for word in ("--header", header)]
    ran = console("verify", "--body", "body", *given, "--secret-file", "secret")
    assert (ran.code, ran.err) == (0, "")
    assert "verdict:           passes\nanswer:            204\n" in ran.out
    assert not (console.directory / "wakegate.db").exists()


def test_the_report_names_the_bytes_the_secret_and_every_check(console: Console) -> None:
    delivery = SENDER.notification()
    code, report = verified(console, delivery)
    event = json.loads(delivery.body)
    assert code == 0
    assert report["signed_by"] == "secret"
    assert report["bytes"] == len(delivery.body)
    assert (report["body_id"], report["request_id"]) == (event["id"], event["request_id"])
    assert [check["result"] for check in report["checks"]] == ["pass"] * 10 + ["not looked at"]
    assert [check["check"] for check in report["checks"]][5:] == [
        "JSON, type and id",
        "a known secret",
        "signature",
        "timestamp",
        "the whole object",
        "the store's record",
    ]


def test_a_wrong_way_of_signing_is_named(console: Console) -> None:
    good = SENDER.notification()
    rewritten = Delivery(good.headers, json.dumps(json.loads(good.body), indent=2).encode())
    code, report = verified(console, rewritten)
    assert (code, report["reason"], report["answer"], report["told"]) == (1, "wrong_signature", 401, "unauthenticated")
    assert [miss["words"] for miss in report["near_misses"]] == [["body_rewritten"]]
    ran = console(*saved(console.directory, rewritten), "--secret-file", "secret")
    said = "the body was parsed and written anew after it was signed: spaces, escapes or the order of keys"
    assert f"the signature that was sent would be right if\n  {said}\n    secret: secret\n" in ran.out


def test_a_signature_of_nobody_says_so(console: Console) -> None:
    stranger = Sender(SigningSecret.generate().reveal(), SENDER.instance_id)
    _, report = verified(console, stranger.notification())
    assert report["near_misses"] == []
    assert "another secret signed it" in report["signature_hint"]


def test_the_timestamp_is_judged_then_and_now(console: Console) -> None:
    then = int(time.time()) - 3600
    old = SENDER.notification(at=then)
    code, report = verified(console, old, "--at", timestamps.render((then + 10) * clock.SECOND))
    assert (code, report["timestamp_then"]) == (0, "passes: 10 s ago")
    assert report["timestamp_now"].startswith("timestamp_off: 36")
    code, report = verified(console, old)
    assert (code, report["reason"]) == (1, "timestamp_off")
    assert "local time was taken for UTC" in report["timestamp_hint"]


def test_a_timestamp_in_milliseconds_is_named(console: Console) -> None:
    _, report = verified(console, SENDER.raw(b"{}").with_headers(webhook_timestamp=str(time.time_ns() // 1_000_000)))
    assert report["timestamp_hint"] == "it is in milliseconds; Unix seconds are wanted"


def test_checks_after_the_first_that_fails_are_made_too(console: Console) -> None:
    plain = SENDER.notification()
    odd = SENDER.raw(plain.body[:-1] + b',"note":"x"}', plain.headers["webhook-id"]).with_headers(
        content_type="text/plain"
    )
    _, report = verified(console, odd)
    failed = [check["reason"] for check in report["checks"] if check["result"] == "fail"]
    assert failed == ["wrong_content_type", "unknown_field"]
    assert report["reason"] == "wrong_content_type"
    assert report["signed_by"] == "secret"


# A whole request


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_a_whole_request_is_read_whatever_its_editor_made_of_its_head(console: Console, ending: str) -> None:
    head, _, body = request_bytes(SENDER.notification()).partition(b"\r\n\r\n")
    (console.directory / "request").write_bytes(head.replace(b"\r\n", ending.encode()) + ending.encode() * 2 + body)
    ran = console("verify", "--request", "request", "--secret-file", "secret", "--json")
    assert (ran.code, ran.json["verdict"], ran.json["bytes_after_the_end"]) == (0, "passes", 0)


@pytest.mark.parametrize(("change", "after", "missing"), [(b"\n", 1, 0), (b"\r\nGET", 5, 0), (None, 0, 1)])
def test_a_length_that_does_not_fit_is_told(console: Console, change: bytes | None, after: int, missing: int) -> None:
    request = request_bytes(SENDER.notification())
    (console.directory / "request").write_bytes(request[:-1] if change is None else request + change)
    ran = console("verify", "--request", "request", "--secret-file", "secret", "--json")
    assert (ran.json["bytes_after_the_end"], ran.json["bytes_missing"]) == (after, missing)
    assert ran.json["reason"] == ("disconnected" if missing else None)


def test_a_request_comes_on_standard_input(console: Console) -> None:
    request = request_bytes(SENDER.notification()).decode()
    ran = run(console.directory, "verify", "--request", "-", "--secret-file", "secret", stdin=request)
    assert ran.code == 0, ran.err


# With the store's secrets, beside a real receiver


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with receiver_in(tmp_path) as found:
        yield found


@pytest.fixture
async def desk(running: Running) -> Registered:
    return await running.register()


async def inspected(console: Console, request: bytes, *more: str) -> Ran:
    (console.directory / "request").write_bytes(request)
    return await asyncio.to_thread(console, "verify", "--request", "request", "--json", *more)


Change = Callable[[Registered], bytes]


def changed(**headers: str | None) -> Change:
    return lambda desk: request_bytes(desk.sender.notification().with_headers(**headers))


def with_body(body: bytes) -> Change:
    return lambda desk: request_bytes(desk.sender.raw(body))


def event(**changes: Any) -> Change:
    def make(desk: Registered) -> bytes:
        value = json.loads(desk.sender.notification().body) | changes
        return request_bytes(desk.sender.raw(json.dumps(value).encode(), value["id"]))

    return make


CASES: Mapping[str, Change] = {
    "genuine": lambda desk: request_bytes(desk.sender.notification()),
    "a verification": lambda desk: request_bytes(desk.sender.verification(desk.registration_id)),
    "in upper case": lambda desk: request_bytes(
        Sender(desk.secret.reveal(), desk.instance_id.upper()).notification(event_id=new_id().upper())
    ),
    "in chunks": lambda desk: (
        request_bytes(
            Delivery((d := desk.sender.notification()).with_headers(transfer_encoding="chunked").headers, b"")
        )
        + b"%x\r\n%b\r\n0\r\n\r\n" % (len(d.body), d.body)
    ),
    "HTTP/1.2": lambda desk: request_bytes(desk.sender.notification()).replace(b"HTTP/1.1", b"HTTP/1.2", 1),
    "no HTTP": lambda desk: b"\0\r\n\r\n",
    "two lengths": lambda desk: request_bytes(desk.sender.notification()).replace(
        b"\r\n", b"\r\ncontent-length: 1\r\n", 1
    ),
    "another path": lambda desk: request_bytes(desk.sender.notification(), "/aap/events/"),
    "another method": lambda desk: request_bytes(desk.sender.notification(), method="PUT"),
    "too large": lambda desk: request_bytes(desk.sender.raw(b" " * 70_000)),
    "broken chunks": lambda desk: (
        request_bytes(Delivery(desk.sender.notification().with_headers(transfer_encoding="chunked").headers, b""))
        + b"ZZ\r\n\r\n"
    ),
    "compressed": changed(content_encoding="gzip"),
    "a form": changed(content_type="application/x-www-form-urlencoded"),
    "another charset": changed(content_type="application/json; charset=utf-16"),
    "no id": changed(webhook_id=None),
    "an id that is none": changed(webhook_id="x"),
    "no signature": changed(webhook_signature=None),
    "a timestamp that is none": changed(webhook_timestamp="1e9"),
    "another expectation": changed(expect="x"),
    "another id": lambda desk: request_bytes(desk.sender.raw(desk.sender.notification().body)),
    "junk for a signature": changed(webhook_signature="v1,AAAA"),
    "an old timestamp": lambda desk: request_bytes(desk.sender.notification(at=time.time() - 400)),
    "an unknown instance": event(instance_id=new_id()),
    "an unknown registration": lambda desk: request_bytes(desk.sender.verification(new_id())),
    "no JSON": with_body(b"{"),
    "not UTF-8": with_body(b"\xff\xfe"),
    "a byte order mark": with_body(b"\xef\xbb\xbf{}"),
    "no body": with_body(b""),
    "a key twice": with_body(b'{"a":1,"a":2}'),
    "NaN": with_body(b"[NaN]"),
    "too deep": with_body(b"[" * 100 + b"]" * 100),
    "half a pair": with_body(b'"\\ud800"'),
    "a long number": with_body(b"9" * 700),
    "an array": with_body(b"[]"),
    "an unknown type": event(type="request.pending"),
    "an unknown field": event(note=CANARY),
    "a null": event(request_id=None),
    "a number for text": event(request_id=7),
    "a time that is none": event(created_at="2026-02-30T00:00:00Z"),
}


@pytest.mark.parametrize("name", CASES)
async def test_the_verdict_is_that_of_a_receiver(
    console: Console, running: Running, desk: Registered, name: str
) -> None:
    request = CASES[name](desk)
    ran = await inspected(console, request)
    assert ran.err == ""
    reply = await answer(running, request)
    assert ran.json["answer"] == reply
    assert ([ran.json["reason"]] if ran.code else []) == running.reasons()
    assert ran.code == (0 if reply < 300 else 1)
    for secret in (desk.secret.reveal(), desk.secret.reveal()[6:30], CANARY):
        assert secret not in ran.out


async def answer(running: Running, request: bytes) -> int:
    async with Client(running.address) as client:
        await client.send(request)
        return (await client.reply()).status


async def test_the_registration_that_signed_is_named_with_its_state(
    console: Console, running: Running, desk: Registered
) -> None:
    ran = await inspected(console, request_bytes(desk.sender.notification()))
    assert ran.json["signed_by"] == f"registration {desk.registration_id} (desk-{desk.registration_id}, verified)"
    await running.store.retire_registration(desk.registration_id, clock.now())
    ran = await inspected(console, request_bytes(desk.sender.notification()))
    assert ran.json["signed_by"].endswith(", retired)")


async def test_another_registrations_secret_is_named(console: Console, running: Running, desk: Registered) -> None:
    other = await running.register()
    delivery = Sender(other.secret.reveal(), desk.instance_id).notification()
    ran = await inspected(console, request_bytes(delivery))
    assert ran.json["reason"] == "wrong_signature"
    (miss,) = ran.json["near_misses"]
    assert miss["words"] == ["other_secret"]
    assert other.registration_id in miss["secret"]


async def test_what_the_receiver_said_of_these_bytes_before_is_told(
    console: Console, running: Running, desk: Registered
) -> None:
    delivery = desk.sender.notification().with_headers(webhook_signature="v1,AAAA")
    await running.post(delivery)
    await running.receiver.refusals.flush()
    ran = await inspected(console, request_bytes(delivery))
    assert ran.json["refused_before"].startswith("wrong_signature at 20")


async def test_nothing_is_written(console: Console, running: Running, desk: Registered) -> None:
    await inspected(console, request_bytes(desk.sender.notification()))
    assert await running.store.notifications() == []


# Usage


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "give the body with --body"),
        (["--body", "body", "--request", "body"], "give the body with --body"),
        (["--request", "body", "--header", "a: b"], "--request brings its own headers"),
        (["--body", "absent"], "absent: No such file or directory"),
        (["--body", "."], "Is a directory"),
        (["--body", "body", "--header", "POST /aap/events"], "a header is not `name: value`"),
        (["--body", "body", "--at", "yesterday"], "--at"),
        (["--body", "body", "--secret-file", "absent"], "absent (the signing secret) does not exist"),
        (["--body", "body", "--secret-file", "body"], "body (the signing secret)"),
    ],
)
def test_wrong_usage_is_named(console: Console, words: list[str], said: str) -> None:
    (console.directory / "body").write_bytes(b"{}")
    if "--secret-file" not in words and "--at" not in words:
        words = [*words, "--secret-file", "secret"]
    ran = console("verify", *words)
    assert ran.code == 2
    assert said in ran.err


def test_without_a_secret_file_there_must_be_a_store_and_a_key(console: Console) -> None:
    (console.directory / "body").write_bytes(b"{}")
    ran = console("verify", "--body", "body")
    assert ran.code == 2
    assert "receiver.key" in ran.err
    assert not (console.directory / "wakegate.db").exists()
