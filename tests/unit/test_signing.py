"""Signatures: exact bytes, any good token, both sides of five minutes, and only our own refusals."""

import base64
import hashlib
import hmac
import inspect
import json
import math
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks
from agentapprovalprotocol import receiver as sdk
from agentapprovalprotocol.testing import FakeProvider
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tables import each_row
from wakegate_schema import signing
from wakegate_schema.signing import (
    MalformedHeaders,
    MalformedSecret,
    Refused,
    SecurityHeaders,
    SigningSecret,
    Verified,
    parse_headers,
    sign,
    verify,
)

VECTOR: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "signing.json").read_text())
PUBLISHED = SigningSecret.parse(VECTOR["secret"], allow_published=True)
BODY = VECTOR["accepted_body"].encode()
ID = VECTOR["webhook-id"]
AT = int(VECTOR["webhook-timestamp"])
GOOD = VECTOR["webhook-signature"]
JUNK = "v1," + "A" * 43 + "="
NOW = AT + 0.5


def raw(signature: str = GOOD, *, message_id: str = ID, timestamp: str = str(AT)) -> list[tuple[bytes, bytes]]:
    return [
        (b"Content-Type", b"application/json"),
        (b"Webhook-Id", message_id.encode()),
        (b"webhook-timestamp", timestamp.encode()),
        (b"WEBHOOK-SIGNATURE", signature.encode()),
    ]


def headers(signature: str = GOOD, **others: str) -> SecurityHeaders:
    return parse_headers(raw(signature, **others))


def verdict(signature: str = GOOD, body: bytes = BODY, now_s: float = NOW, **others: str) -> Any:
    return verify({"one": PUBLISHED}, headers(signature, **others), body, now_s)


# the published vector


def test_the_published_example_verifies() -> None:
    assert verdict() == Verified("one")


def test_the_published_example_is_what_we_sign() -> None:
    assert sign(PUBLISHED, ID, AT, BODY) == GOOD


@each_row("name", VECTOR["refused_bodies"])
def test_a_rewritten_body_fails(name: str) -> None:
    assert verdict(body=VECTOR["refused_bodies"][name].encode()) == Refused("signature")


@each_row(
    "body",
    [b"", b"\xff\xfe", BODY.decode().encode("utf-16"), b"\xef\xbb\xbf" + BODY, '{"a":"\u2028\U0001f600"}'.encode()],
)
def test_any_bytes_are_verified_before_they_are_read(body: bytes) -> None:
    assert verdict(sign(PUBLISHED, ID, AT, body), body) == Verified("one")
    assert verdict(body=body) == Refused("signature")


# other implementations


def test_standardwebhooks_accepts_what_we_sign() -> None:
    secret, at = SigningSecret.generate(), int(time.time())
    peer = standardwebhooks.Webhook(secret.reveal())
    given_headers = {
        "webhook-id": ID,
        "webhook-timestamp": str(at),
        "webhook-signature": sign(secret, ID, at, BODY),
    }
    assert peer.verify(BODY, given_headers) == json.loads(BODY)


def test_we_accept_what_standardwebhooks_signs() -> None:
    secret = SigningSecret.generate()
    peer = standardwebhooks.Webhook(secret.reveal())
    signature = peer.sign(ID, datetime.fromtimestamp(AT, tz=UTC), BODY.decode())
    assert verify({1: secret}, headers(signature), BODY, NOW) == Verified(1)


def test_the_public_sdk_accepts_what_we_sign() -> None:
    secret = SigningSecret.generate()
    given_headers = {
        "webhook-id": ID,
        "webhook-timestamp": str(AT),
        "webhook-signature": f"{JUNK} {sign(secret, ID, AT, BODY)}",
    }
    assert sdk.verify(secret.reveal(), given_headers, BODY, now=NOW) == json.loads(BODY)


def test_we_accept_what_the_public_sdk_signs() -> None:
    secret = SigningSecret.parse(sdk.new_secret())
    delivered, body = FakeProvider().webhook(ID, secret=secret.reveal())
    assert verify({1: secret}, parse_headers(list(delivered.items())), body, time.time()) == Verified(1)
    assert sdk.sign(secret.reveal(), ID, AT, BODY) == sign(secret, ID, AT, BODY)


# lists of signatures


@each_row(
    "signature",
    [
        f"v1,AAAA {GOOD}",
        f"{JUNK} {GOOD}",
        f"{GOOD} {JUNK}",
        f"v1a {GOOD}",
        f"v1a,{GOOD[3:]} {GOOD}",
        f"v2,x {GOOD}",
        f"v2,{GOOD[3:]} {GOOD}",
        f"v1,A {GOOD}",
        f"v1, {GOOD}",
        f", {GOOD}",
        f",, {GOOD}",
        f"v1,a,b {GOOD}",
        f"{GOOD},{GOOD} {GOOD}",
        f"junk  {GOOD}",
        f"  {GOOD}",
        f"{GOOD}   ",
        f"\u00e9\x00 {GOOD}",
        f"v1,{'=' * 44} {GOOD}",
        " ".join(["v1,AAAA"] * 200 + [GOOD]),
        " ".join([JUNK] * 150 + [GOOD]),
        " " * 8000 + GOOD,
        "a " * 4000 + GOOD,
    ],
)
def test_one_good_signature_is_enough_wherever_it_stands(signature: str) -> None:
    assert verdict(signature) == Verified("one")


@each_row(
    "signature",
    [
        JUNK,
        "junk",
        ",",
        "v1",
        "v1,",
        "v1,,",
        GOOD[3:],
        f"v2,{GOOD[3:]}",
        f"v1a,{GOOD[3:]}",
        f"V1,{GOOD[3:]}",
        f"v1 {GOOD[3:]}",
        f"{GOOD},{GOOD}",
        f"{GOOD},",
        f"x{GOOD}",
        f"{GOOD}x",
        GOOD[:-1],
        f"{GOOD}=",
        f"{GOOD[:-2]}9=",
        GOOD.replace("+", "-"),
        GOOD.swapcase(),
        f"\t{GOOD}\n",
        "\u00e9" * 50,
    ],
)
def test_no_good_signature_is_refused_and_nothing_else(signature: str) -> None:
    assert verdict(signature) == Refused("signature")


@given(st.binary(min_size=1, max_size=300))
@settings(max_examples=300, deadline=None)
def test_any_signature_bytes_are_refused_not_raised(junk: bytes) -> None:
    try:
        parsed = parse_headers([*raw()[:3], (b"webhook-signature", junk)])
    except MalformedHeaders as error:
        reason = error.reason
    else:
        refused = verify({"one": PUBLISHED}, parsed, BODY, NOW)
        reason = refused.reason if isinstance(refused, Refused) else "verified"
    assert reason in ("signature", "malformed_webhook_signature")


def test_the_work_per_header_is_bounded() -> None:
    longest = (JUNK + " ") * 1000
    assert len(headers(longest[: signing.MAX_SIGNATURE_HEADER]).signatures) <= 175
    with pytest.raises(MalformedHeaders) as refused:
        headers(longest[: signing.MAX_SIGNATURE_HEADER + 1])
    assert refused.value.reason == "malformed_webhook_signature"


# time


@each_row(("offset", "fresh"), [(-301, False), (-300, True), (0, True), (300, True), (301, False)])
def test_five_minutes_either_way_are_tolerated_and_no_second_more(offset: int, fresh: bool) -> None:
    assert verdict(now_s=AT + offset) == (Verified("one") if fresh else Refused("timestamp"))


@each_row("now_s", [AT + 300.001, AT - 300.001, AT * 1000.0, 0.0, math.inf, -math.inf, math.nan])
def test_a_clock_that_is_off_refuses(now_s: float) -> None:
    assert verdict(now_s=now_s) == Refused("timestamp")


@pytest.mark.parametrize("timestamp", [f"{AT}000", "0", "9" * 20])
def test_a_signed_timestamp_in_another_unit_is_refused(timestamp: str) -> None:
    digest = hmac.digest(PUBLISHED.key, f"{ID}.{timestamp}.".encode() + BODY, "sha256")
    signature = "v1," + base64.b64encode(digest).decode()
    assert verdict(signature, timestamp=timestamp) == Refused("timestamp")


def test_a_wrong_signature_is_called_so_whatever_the_time() -> None:
    assert verdict(JUNK, now_s=0.0) == Refused("signature")


def test_the_tolerance_cannot_be_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(inspect.signature(verify).parameters) == ["keys", "headers", "body", "now_s"]
    for name in ("WAKEGATE_TOLERANCE", "WAKEGATE_TOLERANCE_S"):
        monkeypatch.setenv(name, "1000000000")
    assert verdict(now_s=AT + 301) == Refused("timestamp")
    assert signing.TOLERANCE_S == 300


def test_a_retry_needs_a_signature_of_its_own() -> None:
    later = AT + 3600
    retried = sign(PUBLISHED, ID, later, BODY)
    assert verdict(retried, timestamp=str(later), now_s=later) == Verified("one")
    assert verdict(GOOD, timestamp=str(later), now_s=later) == Refused("signature")


# what is signed


def test_the_exact_text_of_the_headers_is_signed() -> None:
    upper, padded = ID.upper(), f"0{AT}"
    digest = hmac.digest(PUBLISHED.key, f"{upper}.{padded}.".encode() + BODY, "sha256")
    signature = "v1," + base64.b64encode(digest).decode()
    parsed = headers(signature, message_id=upper, timestamp=padded)
    assert (parsed.message_id, parsed.timestamp) == (ID, AT)
    assert verify({"one": PUBLISHED}, parsed, BODY, NOW) == Verified("one")
    assert verdict(signature) == Refused("signature")


def test_another_message_id_fails() -> None:
    assert verdict(message_id="00000000-404d-4f6a-9a03-a0565edc4922") == Refused("signature")


@each_row(
    "key", [PUBLISHED.reveal().encode(), PUBLISHED.reveal()[6:].encode(), hashlib.sha256(PUBLISHED.key).digest(), b""]
)
def test_a_key_derived_in_another_way_fails(key: bytes) -> None:
    digest = hmac.digest(key, f"{ID}.{AT}.".encode() + BODY, "sha256")
    assert verdict("v1," + base64.b64encode(digest).decode()) == Refused("signature")


def test_a_digest_in_hexadecimal_fails() -> None:
    digest = hmac.digest(PUBLISHED.key, f"{ID}.{AT}.".encode() + BODY, "sha256")
    assert verdict("v1," + digest.hex()) == Refused("signature")


# many secrets


@pytest.mark.parametrize("place", [0, 1, 2])
def test_every_live_secret_is_tried_and_the_right_one_named(place: int) -> None:
    keys = {number: SigningSecret.generate() for number in range(3)}
    parsed = headers(sign(keys[place], ID, AT, BODY))
    assert verify(keys, parsed, BODY, NOW) == Verified(place)


def test_without_a_secret_everything_is_refused() -> None:
    empty: dict[str, SigningSecret] = {}
    assert verify(empty, headers(), BODY, NOW) == Refused("signature")


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_one_digest_is_computed_for_every_secret_whatever_matches(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    digest, computed = hmac.HMAC.digest, 0

    def counting(mac: hmac.HMAC) -> bytes:
        nonlocal computed
        computed += 1
        return digest(mac)

    monkeypatch.setattr(hmac.HMAC, "digest", counting)
    verify(dict.fromkeys(range(count), PUBLISHED), headers(), BODY, NOW)
    assert computed == max(count, 1)


# the form of the headers

HEADERS = ["webhook-id", "webhook-timestamp", "webhook-signature"]


def refused_reason(given_headers: list[tuple[bytes, bytes]]) -> str:
    with pytest.raises(MalformedHeaders) as refused:
        parse_headers(given_headers)
    return refused.value.reason


@pytest.mark.parametrize("name", HEADERS)
def test_a_missing_security_header_is_named(name: str) -> None:
    rest = [(header, value) for header, value in raw() if header.decode().lower() != name]
    assert refused_reason(rest) == f"missing_{name.replace('-', '_')}"


@pytest.mark.parametrize("name", HEADERS)
def test_a_repeated_security_header_is_named(name: str) -> None:
    again = [(header.upper(), value) for header, value in raw() if header.decode().lower() == name]
    assert refused_reason([*raw(), *again]) == f"repeated_{name.replace('-', '_')}"


def test_a_repeated_header_joined_by_a_proxy_is_called_repeated() -> None:
    assert refused_reason(raw(message_id=f"{ID}, {ID}")) == "repeated_webhook_id"
    assert refused_reason(raw(timestamp=f"{AT},{AT}")) == "repeated_webhook_timestamp"


@each_row(
    "message_id",
    [
        "",
        "msg_1",
        ID.replace("-", ""),
        f"{{{ID}}}",
        f"urn:uuid:{ID}",
        f" {ID}",
        f"{ID}\n",
        ID[:-1],
        ID[:-1] + "g",
        ID[:-1] + "\u0661",
        f"{ID}.{AT}",
    ],
)
def test_a_message_id_that_is_no_uuid_is_malformed(message_id: str) -> None:
    assert refused_reason(raw(message_id=message_id)) == "malformed_webhook_id"


@each_row(
    "timestamp",
    ["", "-1", "+1", "1.0", "1e9", " 1", "1\n", "0x10", "1_000", "\u0661", "\u00b2", "now", "1" * 21, "9" * 5000],
)
def test_a_timestamp_that_is_not_digits_is_malformed(timestamp: str) -> None:
    assert refused_reason(raw(timestamp=timestamp)) == "malformed_webhook_timestamp"


@pytest.mark.parametrize("signature", ["", " ", " \t "])
def test_an_empty_signature_is_malformed(signature: str) -> None:
    assert refused_reason(raw(signature)) == "malformed_webhook_signature"


def test_headers_come_as_text_or_bytes_and_with_any_neighbours() -> None:
    mixed: list[tuple[bytes | str, bytes | str]] = [
        ("Webhook-ID", ID),
        (b"\xff", b"\xff"),
        ("\ud800", "\ud800"),
        ("webhook-timestamp", str(AT)),
    ]
    assert parse_headers([*mixed, (b"webhook-signature", GOOD)]) == headers()


def test_a_refusal_does_not_repeat_the_header() -> None:
    with pytest.raises(MalformedHeaders) as refused:
        parse_headers(raw(timestamp="s3cret"))
    assert "s3cret" not in str(refused.value)


# secrets


@each_row(
    ("text", "reason"),
    [
        ("", "malformed_secret"),
        ("whsec_", "malformed_secret"),
        ("whsec_!!!!", "malformed_secret"),
        ("whsec_AA==", "malformed_secret"),
        (VECTOR["secret"].removesuffix("="), "malformed_secret"),
        (VECTOR["secret"] + "=", "malformed_secret"),
        (VECTOR["secret"] + "\n", "malformed_secret"),
        (" " + VECTOR["secret"], "malformed_secret"),
        ("v1," + VECTOR["secret"], "malformed_secret"),
        (VECTOR["secret"].removeprefix("whsec_"), "malformed_secret"),
        (VECTOR["secret"].upper(), "malformed_secret"),
        (VECTOR["secret"].replace("h8=", "h9="), "malformed_secret"),
        ("whsec_" + "-" * 42 + "A=", "malformed_secret"),
        ("whsec_" + base64.b64encode(bytes(range(31))).decode(), "malformed_secret"),
        ("whsec_" + base64.b64encode(bytes(range(33))).decode(), "malformed_secret"),
        ("whsec_" + "A" * 43 + "=", "weak_secret"),
        ("whsec_" + base64.b64encode(b"\xff" * 32).decode(), "weak_secret"),
        (VECTOR["secret"], "published_secret"),
    ],
)
def test_a_malformed_or_known_secret_is_refused_without_being_shown(text: str, reason: str) -> None:
    with pytest.raises(MalformedSecret) as refused:
        SigningSecret.parse(text)
    assert refused.value.reason == reason
    if len(text) > 6:
        assert text.strip() not in f"{refused.value} {refused.value!r}"


@each_row("key", [b"", b"k", bytes(31), bytes(32), bytes(range(33))])
def test_a_secret_cannot_be_made_of_a_weak_key(key: bytes) -> None:
    with pytest.raises(MalformedSecret):
        SigningSecret(key)


def test_a_generated_secret_reads_back() -> None:
    secret = SigningSecret.generate()
    assert SigningSecret.parse(secret.reveal()) == secret
    assert len({SigningSecret.generate() for _ in range(20)} | {secret}) == 21


@each_row("show", [str, repr, "{}".format, "{!r}".format, lambda secret: f"{[secret]}"])
def test_a_secret_does_not_show(show: Any) -> None:
    shown = show(PUBLISHED)
    assert "AAEC" not in shown
    assert "\\x01" not in shown
    assert shown.strip("[]") == "SigningSecret(…)"
