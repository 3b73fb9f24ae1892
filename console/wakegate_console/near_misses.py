"""Near misses: which wrong way of signing, or which change on the way, gives the signature that was sent.

Two ways at once are tried, of key, signed text and body; each way has a machine word that docs/answers.md explains.
"""

import base64
import binascii
import hmac
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

from wakegate_schema import ids
from wakegate_schema.signing import MalformedHeaders, SigningSecret, parse_headers

BOTH_UP_TO: Final = 65_536
"""Bytes of a body for which two ways at once are tried."""
STALE_S: Final = 86_400
"""Seconds before the timestamp in which an earlier attempt's is looked for."""

Way = tuple[bytes, str | None]
"""Bytes that may have been used, and the word for how they are wrong; None for the right ones."""


@dataclass(frozen=True, slots=True)
class NearMiss:
    """One way of signing that gives the signature."""

    words: tuple[str, ...]
    """How it is wrong; the fewer words, the likelier."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The parts of a delivery as they were sent, well-formed or not."""

    message_id: bytes
    timestamp: bytes
    signature: bytes
    body: bytes


def near_misses(secret: SigningSecret, sent: Sent) -> list[NearMiss]:
    """Return every near miss, those with the fewest words first; none for a signature made otherwise.

    Args:
        secret: that should have signed.
        sent: what came.
    """
    presented = _presented(sent.signature)
    if not presented:
        return []
    most = 2 if len(sent.body) <= BOTH_UP_TO else 1
    ways = product(_keys(secret), _prefixes(sent), list(_bodies(sent.body)))
    found: set[tuple[str, ...]] = set()
    for (key, *how), (prefix, *where), (body, *what) in ways:
        words = tuple(word for word in (*how, *where, *what) if word is not None)
        if len(words) <= most and (digest := hmac.digest(key, prefix + body, "sha256")) in presented:
            written = presented[digest]
            found.add(words if written is None else (*words, written))
    found |= _other_digests(secret, sent, presented)
    found = found or _stale(secret, sent, presented)
    return [NearMiss(words) for words in sorted(found - {()}, key=lambda words: (len(words), words))]


WORDS: Final = {
    "key_text": "the key is the text of the secret with its whsec_, not what its base64 stands for",
    "key_text_without_prefix": "the key is the text after whsec_, not what its base64 stands for",
    "key_text_with_newline": "the key is the text of the secret with the line ending of its file",
    "key_encoded_twice": "the key is base64 of the secret's text: it was encoded once more",
    "key_hex": "the key is the secret's bytes written in hexadecimal",
    "key_decoded_with_prefix": "the key was decoded together with its whsec_",
    "key_urlsafe": "the key was decoded as URL-safe base64, which leaves out + and /",
    "key_unpadded": "the key was decoded without its padding, which loses its last two bytes",
    "key_empty": "the key is empty",
    "id_left_out": "the id was left out: timestamp.body was signed",
    "id_and_timestamp_swapped": "id and timestamp were swapped: timestamp.id.body was signed",
    "timestamp_left_out": "the timestamp was left out: id.body was signed",
    "only_body": "the body alone was signed",
    "no_dots": "id, timestamp and body were joined without dots",
    "colons": "colons were put for the dots",
    "body_id": "the body's id was signed, which is not the webhook-id header",
    "id_lower_case": "the id was signed in lower case, and sent otherwise",
    "id_upper_case": "the id was signed in upper case, and sent otherwise",
    "timestamp_ms": "the timestamp was signed in milliseconds, and sent in seconds",
    "timestamp_s": "the timestamp was signed in seconds, and sent in milliseconds",
    "timestamp_created_at": "created_at was signed in the timestamp's place",
    "timestamp_earlier": "the signature is that of an earlier timestamp: a retry needs one of its own",
    "body_newline_added": "a line ending was added at the end of the body after it was signed",
    "body_newline_removed": "the line ending at the end of the body was removed after it was signed",
    "body_lf_to_crlf": "line feeds of the body became CRLF after it was signed",
    "body_crlf_to_lf": "line endings CRLF of the body became line feeds after it was signed",
    "body_bom_added": "a byte order mark was added to the body after it was signed",
    "body_bom_removed": "the body's byte order mark was removed after it was signed",
    "body_rewritten": "the body was parsed and written anew after it was signed: spaces, escapes or the order of keys",
    "body_latin_1": "the body was signed in Latin-1, and sent in UTF-8",
    "body_utf_16": "the body was signed in UTF-16, and sent in UTF-8",
    "body_decoded_wrongly": "UTF-8 was read as Latin-1 and encoded again before it was signed",
    "body_base64": "base64 of the body was signed",
    "body_empty": "an empty body was signed: it was read before the signer looked at it",
    "signature_hex": "the signature is in hexadecimal, not base64",
    "signature_hex_in_base64": "the signature is base64 of its hexadecimal form",
    "signature_urlsafe": "the signature is in URL-safe base64",
    "signature_unpadded": "the signature is base64 without its padding",
    "signature_form": "the signature is right, but does not stand as `v1,` and base64, separated by blanks",
    "digest_sha1": "the HMAC is with SHA-1",
    "digest_sha512": "the HMAC is with SHA-512",
}
"""What each word says."""


def _keys(secret: SigningSecret) -> list[Way]:
    text = secret.reveal().encode()
    part = text.removeprefix(b"whsec_")
    return _distinct(
        [
            (secret.key, None),
            (text, "key_text"),
            (part, "key_text_without_prefix"),
            (text + b"\n", "key_text_with_newline"),
            (part + b"\n", "key_text_with_newline"),
            (base64.b64encode(text), "key_encoded_twice"),
            (base64.b64encode(part), "key_encoded_twice"),
            (secret.key.hex().encode(), "key_hex"),
            (_lenient(text), "key_decoded_with_prefix"),
            (_lenient(re.sub(b"[+/]", b"", part)), "key_urlsafe"),
            (secret.key[:30], "key_unpadded"),
            (b"", "key_empty"),
        ]
    )


def _prefixes(sent: Sent) -> list[Way]:
    name, at = sent.message_id, sent.timestamp
    value = _object(sent.body)
    ways: list[Way] = [
        (b"%b.%b." % (name, at), None),
        (b"%b." % at, "id_left_out"),
        (b"%b.%b." % (at, name), "id_and_timestamp_swapped"),
        (b"%b." % name, "timestamp_left_out"),
        (b"", "only_body"),
        (name + at, "no_dots"),
        (b"%b:%b:" % (name, at), "colons"),
        (b"%b.%b." % (name.lower(), at), "id_lower_case"),
        (b"%b.%b." % (name.upper(), at), "id_upper_case"),
        (b"%b.%b000." % (name, at), "timestamp_ms"),
        (b"%b.%b." % (name, at[:-3]), "timestamp_s"),
    ]
    for field, word, form in (("id", "body_id", (b"", at)), ("created_at", "timestamp_created_at", (name, b""))):
        text = value.get(field)
        if isinstance(text, str):
            encoded = text.encode("utf-8", "replace")
            ways.append((b"%b.%b." % (form[0] or encoded, form[1] or encoded), word))
    return _distinct(ways)


def _bodies(body: bytes) -> Iterator[Way]:
    bom = b"\xef\xbb\xbf"
    ways: list[Way] = [
        (body, None),
        (body.removesuffix(b"\n").removesuffix(b"\r"), "body_newline_added"),
        (body + b"\n", "body_newline_removed"),
        (body + b"\r\n", "body_newline_removed"),
        (body.replace(b"\r\n", b"\n"), "body_lf_to_crlf"),
        (body.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"), "body_crlf_to_lf"),
        (body.removeprefix(bom), "body_bom_added"),
        (bom + body, "body_bom_removed"),
        (base64.b64encode(body), "body_base64"),
        (b"", "body_empty"),
    ]
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = ""
    if text:
        ways += [(text.encode("latin-1", "replace"), "body_latin_1")]
        ways += [(text.encode(charset), "body_utf_16") for charset in ("utf-16", "utf-16-le", "utf-16-be")]
        ways += [(body.decode("latin-1").encode(), "body_decoded_wrongly")]
    ways += [(written, "body_rewritten") for written in _rewritten(body)]
    yield from _distinct(ways)


def _rewritten(body: bytes) -> Iterator[bytes]:
    """Yield the forms in which common libraries write the body's JSON."""
    value = _object(body)
    if not value:
        return
    orders = [value, dict(sorted(value.items())), {name: value[name] for name in _ORDER if name in value}]
    styles: list[dict[str, Any]] = [
        {"separators": (",", ":")}, {}, {"indent": 2}, {"indent": 4}, {"indent": "\t"}, {"indent": 3},
        {"separators": (", ", ":")}, {"separators": (",", ": ")}, {"separators": (" , ", " : ")},
    ]  # fmt: skip
    for order, style, ascii_only, end in product(orders, styles, (False, True), ("", "\n")):
        yield (json.dumps(order, ensure_ascii=ascii_only, **style) + end).encode("utf-8", "replace")


def _presented(header: bytes) -> dict[bytes, str | None]:
    """Return the digests that a signature header may hold, each with the word for how it is written wrongly."""
    raw = [(b"webhook-id", _ANY_ID), (b"webhook-timestamp", b"0"), (b"webhook-signature", header)]
    try:
        found: dict[bytes, str | None] = dict.fromkeys(map(_lenient, parse_headers(raw).signatures))
    except MalformedHeaders:
        found = {}
    for token in re.split(rb"[\s,;]+", header)[:200]:
        text = re.sub(rb"^(?:v[0-9]+[a-z]?[=:]|sha256=)", b"", token)
        for digest, word in _decoded(text):
            found.setdefault(digest, word)
    return found


def _decoded(text: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield what one token may stand for; of rightly written ones that is known already."""
    if re.fullmatch(rb"[A-Za-z0-9+/]{27,}=*", text):
        digest = _lenient(text)
        yield digest, "signature_form" if len(text) % 4 == 0 else "signature_unpadded"
        if re.fullmatch(rb"[0-9a-fA-F]{40,128}", digest):
            yield _unhexed(digest), "signature_hex_in_base64"
    elif re.fullmatch(rb"[A-Za-z0-9_-]{27,}=*", text):
        yield _lenient(text.translate(bytes.maketrans(b"-_", b"+/"))), "signature_urlsafe"
    if re.fullmatch(rb"[0-9a-fA-F]{40,128}", text):
        yield _unhexed(text), "signature_hex"


def _other_digests(secret: SigningSecret, sent: Sent, presented: dict[bytes, str | None]) -> set[tuple[str, ...]]:
    signed = b"%b.%b.%b" % (sent.message_id, sent.timestamp, sent.body)
    return {(f"digest_{name}",) for name in ("sha1", "sha512") if hmac.digest(secret.key, signed, name) in presented}


def _stale(secret: SigningSecret, sent: Sent, presented: dict[bytes, str | None]) -> set[tuple[str, ...]]:
    """Look for an earlier attempt's timestamp; only in short bodies, because it takes a digest a second."""
    if re.fullmatch(rb"[0-9]{1,12}", sent.timestamp) is None or len(sent.body) > 4096:
        return set()
    now = int(sent.timestamp)
    for earlier in range(max(0, now - STALE_S), now):
        signed = b"%b.%d.%b" % (sent.message_id, earlier, sent.body)
        if hmac.digest(secret.key, signed, "sha256") in presented:
            return {("timestamp_earlier",)}
    return set()


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _lenient(text: bytes) -> bytes:
    """Decode base64 as lenient decoders do: unknown characters are left out, padding is made up."""
    known = re.sub(rb"[^A-Za-z0-9+/]", b"", text)
    try:
        return base64.b64decode(known[: len(known) - (len(known) % 4 == 1)] + b"==")
    except binascii.Error:
        return b""


def _unhexed(text: bytes) -> bytes:
    return bytes.fromhex(text[: len(text) // 2 * 2].decode("ascii"))


def _distinct(ways: Sequence[Way]) -> list[Way]:
    """Leave out what an earlier way gives too."""
    found: dict[bytes, str | None] = {}
    for data, word in ways:
        found.setdefault(data, word)
    return list(found.items())


_ANY_ID: Final = ids.new().encode()
_ORDER: Final = ("id", "type", "registration_id", "instance_id", "request_id", "created_at", "challenge")
