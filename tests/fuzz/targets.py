"""What is fuzzed: each target takes any bytes, and an AssertionError or an error nobody documented is a find."""

import base64
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from multidict import CIMultiDict, CIMultiDictProxy
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from support.cpu import cpu_bound
from wakegate_receiver import messages, screening
from wakegate_receiver.answers import ANSWERS, Refused, refusal
from wakegate_schema import ids, signing, strict_json, timestamps
from wakegate_schema.signing import MalformedHeaders, SecurityHeaders, SigningSecret, Verified
from wakegate_schema.strict_json import MAX_DEPTH, JsonValue, MalformedJson
from wakegate_schema.wire import ResolvedEvent, VerificationEvent

Target = Callable[[bytes], object]

LONGEST: Final = 65_536
"""Bytes: as many as the receiver reads of a body."""
CPU_LIMIT_S: Final = 2.0
"""Processor seconds that one input may take; most take less than a thousandth of it."""
SECRET: Final = SigningSecret(bytes(range(32, 64)))
MESSAGE_ID: Final = "f4b96ac4-404d-4f6a-9a03-a0565edc4922"
GOOD: Final = b"{good}"
"""In an input of `check_signature`: where the right signature is put."""


def check_json(data: bytes) -> JsonValue:
    """Any bytes are read or refused with a documented reason, and the standard library agrees."""
    try:
        value = strict_json.parse(data)
    except MalformedJson as error:
        assert error.reason in _JSON_REASONS
        if error.reason in ("not_json", "not_utf8", "bom"):
            assert not _read_by_stdlib(data), "the standard library reads what is not JSON here"
        return None
    assert _same(value, json.loads(data.decode(), parse_float=Decimal))
    assert _depth(value) <= MAX_DEPTH
    again = strict_json.parse(strict_json.dumps(value), max_bytes=8 * LONGEST)
    assert strict_json.equal(value, again)
    return value


def check_headers(data: bytes) -> SecurityHeaders | None:
    """Any header lines give three well-formed headers, each of which was there once, or a documented refusal."""
    raw = header_lines(data)
    as_bytes = _headers(raw)
    as_text = _headers([(name.decode("utf-8", "replace"), value.decode("latin-1")) for name, value in raw])
    assert (as_bytes is None) == (as_text is None), "bytes and text are read differently"
    if as_bytes is None:
        return None
    found = {name.lower(): value for name, value in raw}
    assert [name.lower() for name, _ in raw].count(b"webhook-id") == 1
    assert ids.parse(found[b"webhook-id"].decode()) == as_bytes.message_id
    assert as_bytes.timestamp == int(found[b"webhook-timestamp"])
    assert 0 <= as_bytes.timestamp < 10**20
    assert as_bytes.prefix == found[b"webhook-id"] + b"." + found[b"webhook-timestamp"] + b"."
    assert len(as_bytes.signatures) <= signing.MAX_SIGNATURE_HEADER // 47
    assert all(len(base64.b64decode(signature, validate=True)) == 32 for signature in as_bytes.signatures)
    return as_bytes


def check_signature(data: bytes) -> bool:
    """A signature header over a body is accepted exactly if it holds the right token, as `standardwebhooks` has it.

    The first line is the header, in which `{good}` stands for the right signature, the rest is the body.
    """
    line, _, body = data.partition(b"\n")
    at = int(time.time())
    good = signing.sign(SECRET, MESSAGE_ID, at, body).encode()
    header = line.replace(GOOD, good)[: signing.MAX_SIGNATURE_HEADER]
    raw = {"webhook-id": MESSAGE_ID, "webhook-timestamp": str(at), "webhook-signature": header.decode("latin-1")}
    try:
        headers = signing.parse_headers([(name.encode(), value.encode("latin-1")) for name, value in raw.items()])
    except MalformedHeaders as error:
        assert error.reason == "malformed_webhook_signature"
        assert not header.strip(b" \t")
        return False
    accepted = isinstance(signing.verify({1: SECRET}, headers, body, at), Verified)
    assert accepted == (good in re.split(rb" ", header))
    for off in (-301, 301):
        assert not isinstance(signing.verify({1: SECRET}, headers, body, at + off), Verified)
    said = _standardwebhooks_says(raw, body)
    if said is not None and _TOKENS.fullmatch(header):
        assert said == accepted, "standardwebhooks decides otherwise on a well-formed header"
    return accepted


def check_message(data: bytes) -> bool:
    """Any body is a whole event, or refused with a documented 400 that tells nothing of it."""
    try:
        message = messages.read(data)
        said = message.value.get("id")
        name = ids.parse(said) if isinstance(said, str) else MESSAGE_ID
        model = VerificationEvent if message.kind == messages.VERIFICATION else ResolvedEvent
        event: Any = messages.complete(model, message, name)
    except Refused as error:
        _documented(error)
        return False
    except ids.MalformedId:
        return False
    timestamps.parse(event.created_at)
    assert event.id == name
    assert message.selector in (event.instance_id, getattr(event, "registration_id", None))
    return True


def check_screening(data: bytes) -> bool:
    """Any headers pass the screening, or are refused with a documented reason."""
    target, _, rest = data.partition(b"\n")
    raw = header_lines(rest)
    text = [(name.decode("latin-1"), value.decode("utf-8", "surrogateescape")) for name, value in raw]
    headers = CIMultiDictProxy(CIMultiDict(text))
    try:
        screening.check_size(target.decode("latin-1"), raw)
        screening.check_target("POST", target.decode("latin-1"), "/aap/events")
        screening.check_length(headers, LONGEST)
        screening.check_media(headers)
        screening.wants_continue(headers, (1, 1))
    except Refused as error:
        _documented(error)
        return False
    length = screening.declared_length(headers)
    assert length is None or 0 <= length <= LONGEST
    assert "json" in headers.getall("Content-Type")[0].lower()
    return True


def bounded(target: Target) -> Callable[[bytes], None]:
    """Return the target with the bounds on its input and on the processor's time."""

    def run(data: bytes) -> None:
        with cpu_bound(CPU_LIMIT_S):
            target(data[:LONGEST])

    return run


TARGETS: Final[Mapping[str, Target]] = {
    "json": check_json,
    "headers": check_headers,
    "signature": check_signature,
    "message": check_message,
    "screening": check_screening,
}

_JSON_REASONS: Final = frozenset(
    {
        "too_large",
        "bom",
        "not_utf8",
        "too_deep",
        "lone_surrogate",
        "duplicate_key",
        "non_finite_number",
        "number_too_long",
        "not_json",
    }
)
_TOKENS: Final = re.compile(rb"v[0-9]+,[A-Za-z0-9+/]{43}=( v[0-9]+,[A-Za-z0-9+/]{43}=)*")
"""Where both libraries mean the same: the standard's own form, without alien characters and empty tokens."""


def header_lines(data: bytes) -> list[tuple[bytes, bytes]]:
    """Return the names and values of lines such as `name: value`, as a server hands them over."""
    pairs = (line.partition(b":")[::2] for line in data.split(b"\n"))
    return [(name.strip(b" \t\r"), value.strip(b" \t\r")) for name, value in pairs]


def _headers(raw: Sequence[tuple[bytes | str, bytes | str]]) -> SecurityHeaders | None:
    try:
        return signing.parse_headers(raw)
    except MalformedHeaders as error:
        assert error.reason in ANSWERS
        assert re.fullmatch(r"(missing|repeated|malformed)_webhook_(id|timestamp|signature)", error.reason)
        return None


def _documented(error: Refused) -> None:
    answer = ANSWERS[error.reason]
    assert error.reason != "unforeseen"
    assert answer.status in (400, 404, 405, 413, 415, 417)
    assert refusal(error.reason).body == json.dumps({"reason": error.reason}, separators=(",", ":")).encode()


def _read_by_stdlib(data: bytes) -> bool:
    try:
        json.loads(data.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _standardwebhooks_says(headers: dict[str, str], body: bytes) -> bool | None:
    """Return whether the public library accepts; None where it cannot be asked (A01, A04)."""
    try:
        Webhook(SECRET.reveal()).verify(body, headers, json_parse=False)
    except WebhookVerificationError:
        return False
    except ValueError:  # a body that is not text, a token without a comma, wrong padding
        return None
    return True


def _same(value: object, other: object) -> bool:
    """Compare with what the standard library read, kinds kept apart."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_same(found, other[name]) for name, found in value.items())
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_same, value, other))
    return type(value) is type(other) and value == other


def _depth(value: object) -> int:
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if members is None else 1 + max(map(_depth, members), default=0)
