"""docs/answers.md has the refusals in the order in which a running receiver decides: one fault less at each step."""

import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.deliveries import Delivery, Sender, new_id, stamp
from support.receivers import Client, Registered, Running, receiver_in
from wakegate_schema.signing import SigningSecret

PAGE = Path(__file__).parents[2] / "docs" / "answers.md"
ORDER = re.findall(r"^\| .+ \| (?:\d+|–) \| `(\w+)` \|$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)

FAULTY = {
    "target": ["GET /nowhere"],
    "content-length": ["70000"],
    "content-encoding": ["br"],
    "content-type": ["text/plain"],
    "webhook-id": [],
    "webhook-timestamp": [],
    "webhook-signature": [],
    "expect": ["coffee"],
}
STEPS: list[tuple[str, str, list[str]]] = [
    ("wrong_path", "target", ["GET /aap/events"]),
    ("wrong_method", "target", ["POST /aap/events"]),
    ("body_too_large", "content-length", ["0"]),
    ("wrong_content_encoding", "content-encoding", []),
    ("wrong_content_type", "content-type", ["application/json; charset=latin-1"]),
    ("wrong_charset", "content-type", ["application/json"]),
    ("missing_webhook_id", "webhook-id", ["x", "x"]),
    ("repeated_webhook_id", "webhook-id", ["x"]),
    ("missing_webhook_timestamp", "webhook-timestamp", ["x", "x"]),
    ("repeated_webhook_timestamp", "webhook-timestamp", ["x"]),
    ("missing_webhook_signature", "webhook-signature", ["", ""]),
    ("repeated_webhook_signature", "webhook-signature", [""]),
    ("malformed_webhook_id", "webhook-id", [new_id()]),
    ("malformed_webhook_timestamp", "webhook-timestamp", ["1"]),
    ("malformed_webhook_signature", "webhook-signature", ["v1,AAAA"]),
    ("unsupported_expectation", "expect", []),
]
"""What is found, and the header that no longer has this fault afterwards."""
BODIES: list[tuple[str, bytes]] = [
    ("bom", b"\xef\xbb\xbf\xff" + b'"\\ud800"' + b"[" * 70),
    ("not_utf8", b"\xff" + b'"\\ud800"' + b"[" * 70),
    ("too_deep", b'"\\ud800"' + b"[" * 70),
    ("lone_surrogate", b'{"\\ud800": 1, "a": 1, "a": 2} NaN'),
    ("duplicate_key", b'{"a": 1, "a": 2} NaN'),
    ("not_json", b'{"type": "request.pending"'),
    ("not_an_object", b'["request.pending"]'),
    ("unknown_type", b'{"type": "request.pending", "instance_id": "x"}'),
]


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    async with receiver_in(tmp_path) as found:
        yield found


def in_order(reasons: list[str]) -> list[str]:
    return sorted(set(reasons), key=ORDER.index)


async def test_the_headers_are_looked_at_in_the_order_of_the_page(running: Running) -> None:
    headers = dict(FAULTY)
    for _, name, fixed in STEPS:
        lines = [f"{headers['target'][0]} HTTP/1.1", "host: receiver.test"]
        lines += [f"{key}: {value}" for key, values in headers.items() if key != "target" for value in values]
        async with Client(running.address) as client:
            await client.send("\r\n".join([*lines, "", ""]).encode())
            await client.reply()
        headers[name] = fixed
    expected = [reason for reason, _, _ in STEPS]
    assert running.reasons() == expected
    assert expected == in_order(expected)


async def test_the_body_is_looked_at_in_the_order_of_the_page(running: Running) -> None:
    desk = await running.register()
    for _, body in BODIES:
        await running.post(desk.sender.raw(body))
    expected = [reason for reason, _ in BODIES]
    assert running.reasons() == expected
    assert expected == in_order(expected)


def after_the_body(desk: Registered) -> list[tuple[str, Delivery]]:
    event = {"id": new_id(), "type": "request.resolved", "instance_id": desk.instance_id, "request_id": "x", "more": 1}
    whole = event | {"request_id": new_id(), "created_at": stamp()}
    whole.pop("more")
    stranger = Sender(desk.secret.reveal(), new_id())
    forger = Sender(SigningSecret.generate().reveal(), desk.instance_id)
    old = time.time() - 302
    return [
        ("unknown_instance", stranger.message(event | {"instance_id": stranger.instance_id}, at=old)),
        ("wrong_signature", forger.message(event, at=old)),
        ("timestamp_off", desk.sender.message(event, at=old)),
        ("unknown_field", desk.sender.message(whole | {"more": 1})),
        ("missing_field", desk.sender.message({key: whole[key] for key in whole if key != "created_at"})),
        ("bad_uuid", desk.sender.message(whole | {"request_id": "x"})),
        ("id_mismatch", desk.sender.raw(json.dumps(whole).encode())),
    ]


async def test_the_signature_the_object_and_the_record_follow_in_the_order_of_the_page(running: Running) -> None:
    desk = await running.expect(promised=True)
    steps = [*after_the_body(desk), ("not_live", desk.sender.notification())]
    for _, delivery in steps:
        await running.post(delivery)
    expected = [reason for reason, _ in steps]
    assert running.reasons() == expected
    assert expected == in_order(expected)
