"""Every wrong way of signing is recognised, told from the others, and never seen where there is none."""

import base64
import hmac
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from standardwebhooks import Webhook

from support.tables import each_row
from wakegate_console.explanation import OTHER, OTHER_TEXT
from wakegate_console.near_misses import STALE_S, WORDS, NearMiss, Sent, near_misses
from wakegate_schema.signing import SigningSecret

PAGE = Path(__file__).parents[2] / "docs" / "answers.md"
VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "signing.json").read_text())
SECRET = SigningSecret(bytes((29 + step * 7) % 256 for step in range(32)))
"""Its text has both + and /."""
TEXT = SECRET.reveal()
PART = TEXT.removeprefix("whsec_").encode()
ID = "F4b96ac4-404d-4f6a-9a03-a0565edc4922"
OTHER_ID = "b29a43a7-1949-4b9f-9d61-b7ae66f85d31"
AT = "1789560121"
EVENT = {
    "type": "request.resolved",
    "id": ID,
    "instance_id": OTHER_ID,
    "request_id": OTHER_ID,
    "created_at": "2026-09-16T12:02:00Z",
}
BODY = json.dumps(EVENT, indent=2).encode()
Signed = Callable[..., tuple[str, bytes]]


def signed(
    body: bytes = BODY,
    *,
    key: bytes = SECRET.key,
    prefix: str = f"{ID}.{AT}.",
    digest: str = "sha256",
    form: Callable[[bytes], str] = lambda mac: "v1," + base64.b64encode(mac).decode(),
    sent: bytes = BODY,
) -> Sent:
    """A delivery, signed as a sender does that goes wrong in some way."""
    signature = form(hmac.digest(key, prefix.encode() + body, digest))
    return Sent(ID.encode(), AT.encode(), signature.encode(), sent)


def said(sent: Sent) -> list[tuple[str, ...]]:
    return [miss.words for miss in near_misses(SECRET, sent)]


def base64_of(mac: bytes) -> str:
    return base64.b64encode(mac).decode()


MS = Sent(ID.encode(), f"{AT}000".encode(), signed().signature, BODY)
ACCENT = BODY.replace(b"request.resolved", "requést".encode())
OTHER_BODY = BODY.replace(ID.encode(), OTHER_ID.encode())
WAYS: Mapping[str, Sent] = {
    "key_text": signed(key=TEXT.encode()),
    "key_text_without_prefix": signed(key=PART),
    "key_text_with_newline": signed(key=TEXT.encode() + b"\n"),
    "key_encoded_twice": signed(key=base64.b64encode(PART)),
    "key_hex": signed(key=SECRET.key.hex().encode()),
    "key_decoded_with_prefix": signed(key=base64.b64decode(TEXT.replace("_", "") + "==")),
    "key_urlsafe": signed(key=base64.b64decode(re.sub(rb"[+/=]", b"", PART) + b"==")),
    "key_unpadded": signed(key=SECRET.key[:30]),
    "key_empty": signed(key=b""),
    "id_left_out": signed(prefix=f"{AT}."),
    "id_and_timestamp_swapped": signed(prefix=f"{AT}.{ID}."),
    "timestamp_left_out": signed(prefix=f"{ID}."),
    "only_body": signed(prefix=""),
    "no_dots": signed(prefix=f"{ID}{AT}"),
    "colons": signed(prefix=f"{ID}:{AT}:"),
    "body_id": signed(OTHER_BODY, sent=OTHER_BODY, prefix=f"{OTHER_ID}.{AT}."),
    "id_lower_case": signed(prefix=f"{ID.lower()}.{AT}."),
    "id_upper_case": signed(prefix=f"{ID.upper()}.{AT}."),
    "timestamp_ms": signed(prefix=f"{ID}.{AT}000."),
    "timestamp_s": MS,
    "timestamp_created_at": signed(prefix=f"{ID}.2026-09-16T12:02:00Z."),
    "timestamp_earlier": signed(prefix=f"{ID}.{int(AT) - 7200}."),
    "body_newline_added": signed(sent=BODY + b"\n"),
    "body_newline_removed": signed(BODY + b"\n"),
    "body_lf_to_crlf": signed(sent=BODY.replace(b"\n", b"\r\n")),
    "body_crlf_to_lf": signed(BODY.replace(b"\n", b"\r\n")),
    "body_bom_added": signed(sent=b"\xef\xbb\xbf" + BODY),
    "body_bom_removed": signed(b"\xef\xbb\xbf" + BODY),
    "body_rewritten": signed(json.dumps(EVENT, sort_keys=True, separators=(",", ":")).encode()),
    "body_latin_1": signed(ACCENT.decode().encode("latin-1"), sent=ACCENT),
    "body_utf_16": signed(BODY.decode().encode("utf-16-le")),
    "body_decoded_wrongly": signed(ACCENT.decode("latin-1").encode(), sent=ACCENT),
    "body_base64": signed(base64.b64encode(BODY)),
    "body_empty": signed(b""),
    "signature_hex": signed(form=lambda mac: "v1," + mac.hex()),
    "signature_hex_in_base64": signed(form=lambda mac: "v1," + base64_of(mac.hex().encode())),
    "signature_urlsafe": signed(form=lambda mac: "v1," + base64.urlsafe_b64encode(mac).decode(), prefix=f"{ID}.{AT}."),
    "signature_unpadded": signed(form=lambda mac: "v1," + base64_of(mac).rstrip("=")),
    "signature_form": signed(form=lambda mac: "sha256=" + base64_of(mac)),
    "digest_sha1": signed(digest="sha1"),
    "digest_sha512": signed(digest="sha512"),
}


def test_every_word_has_a_sender_that_goes_wrong_so() -> None:
    assert WAYS.keys() == WORDS.keys()


@each_row("word", WAYS)
def test_the_way_is_recognised_and_no_other(word: str) -> None:
    assert said(WAYS[word]) == [(word,)]


@each_row("name", VECTOR["refused_bodies"])
def test_the_published_example_rewritten_is_recognised(name: str) -> None:
    secret = SigningSecret.parse(VECTOR["secret"], allow_published=True)
    message_id, timestamp, signature = (VECTOR[f"webhook-{part}"].encode() for part in ("id", "timestamp", "signature"))
    (miss,) = near_misses(secret, Sent(message_id, timestamp, signature, VECTOR["refused_bodies"][name].encode()))
    known = {"trailing newline": "body_newline_added", "CRLF": "body_lf_to_crlf"}
    assert miss == NearMiss((known.get(name, "body_rewritten"),))


def test_two_ways_at_once_are_recognised() -> None:
    assert said(signed(BODY + b"\n", key=PART)) == [("key_text_without_prefix", "body_newline_removed")]
    hexed = signed(key=TEXT.encode(), form=lambda mac: mac.hex())
    assert said(hexed) == [("key_text", "signature_hex")]


def test_a_right_signature_is_no_near_miss() -> None:
    """As the public library signs it."""
    name, at = ID, datetime.fromtimestamp(int(AT), UTC)
    signature = Webhook(TEXT).sign(name, at, BODY.decode())
    assert said(Sent(name.encode(), AT.encode(), signature.encode(), BODY)) == []


@each_row(
    "sent",
    [
        signed(key=bytes(range(32))),
        signed(prefix=f"{ID}.{int(AT) - STALE_S - 1}."),
        signed(BODY + b"x"),
        Sent(ID.encode(), AT.encode(), b"", BODY),
        Sent(ID.encode(), AT.encode(), b"v1,AAAA", BODY),
        Sent(b"", b"", b"v1,\xff\xfe " + b"v1,,,," * 2000, b"\xff\xfe"),
        Sent(ID.encode(), b"9" * 5000, signed().signature, b"[" * 100_000),
        Sent(ID.encode(), AT.encode(), b"v1," + b"A" * 43 + b"=", b'{"id":' + b"9" * 10_000 + b"}"),
    ],
    ids=range(8),
)
def test_what_was_signed_in_another_way_or_is_junk_has_none(sent: Sent) -> None:
    assert said(sent) == []


def test_the_page_explains_exactly_these_words() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## Why was this refused?")[1]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", section, flags=re.MULTILINE))
    assert rows == {OTHER: OTHER_TEXT, **WORDS}
