"""Screening: what a request's line and headers alone decide, before a byte of its body is read. Pure."""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final

from aiohttp import hdrs
from multidict import CIMultiDictProxy

from wakegate_receiver.answers import Refused
from wakegate_schema.signing import MalformedHeaders, SecurityHeaders, parse_headers

RawHeaders = Sequence[tuple[bytes, bytes]]

MAX_HEAD: Final = 32_768
"""The largest head of a request: its line and all its headers, in bytes."""
_PUNCTUATION: Final = len(": \r\n")


def check_target(method: str, target: str, events_path: str) -> None:
    """Let POST on the events path pass, and nothing else: no redirect, no other spelling of the path.

    Args:
        method: as received.
        target: the request target as received: a path, perhaps with a query, or an absolute URL.
        events_path: the one path there is.

    Raises:
        Refused: `wrong_path`, `wrong_method`.
    """
    if target != events_path and _path(target) != events_path:
        raise Refused("wrong_path")
    if method != "POST":
        raise Refused("wrong_method")


def check_version(version: tuple[int, int]) -> None:
    """Let HTTP/1.1 and HTTP/1.0 pass, which the two parsers of aiohttp do not agree on. Raises `malformed_http`."""
    if version not in _VERSIONS:
        raise Refused("malformed_http")


def check_size(target: str, raw: RawHeaders) -> None:
    """Let heads of at most `MAX_HEAD` bytes pass. Raises `Refused`: `malformed_http`."""
    if len(target) + head_size(raw) > MAX_HEAD:
        raise Refused("malformed_http")


def head_size(raw: RawHeaders) -> int:
    """Return the bytes of a request's headers."""
    return sum(map(len, chain.from_iterable(raw))) + _PUNCTUATION * len(raw)


def declared_length(headers: CIMultiDictProxy[str]) -> int | None:
    """Return how long the body says it is; None where it says nothing that is a number of at most 19 digits."""
    digits = headers.get(hdrs.CONTENT_LENGTH, "").strip()
    return int(digits) if _LENGTH.fullmatch(digits) else None


def check_length(headers: CIMultiDictProxy[str], max_bytes: int) -> None:
    """Refuse a body that says it is over the limit. Raises `Refused`: `body_too_large`, `malformed_http`."""
    if hdrs.CONTENT_LENGTH not in headers:
        return
    length = declared_length(headers)
    if length is None:
        raise Refused("malformed_http")
    if length > max_bytes:
        raise Refused("body_too_large")


def check_media(headers: CIMultiDictProxy[str]) -> None:
    """Let plain JSON in UTF-8 pass.

    Raises:
        Refused: `wrong_content_encoding`, `wrong_content_type`, `wrong_charset`.
    """
    _check_codings(headers.getall(hdrs.CONTENT_ENCODING, ()), "identity")
    _check_codings(headers.getall(hdrs.TRANSFER_ENCODING, ()), "chunked")
    types = headers.getall(hdrs.CONTENT_TYPE, ())
    if len(types) == 1 and types[0] == "application/json":
        return
    found = _MEDIA_TYPE.fullmatch(types[0]) if len(types) == 1 else None
    if found is None or found[1].lower() != "application/json":
        raise Refused("wrong_content_type")
    for name, value in _PARAMETER.findall(found[2]):
        if name.lower() == "charset" and value.strip('"').lower() != "utf-8":
            raise Refused("wrong_charset")


def _check_codings(codings: Sequence[str], only: str) -> None:
    if codings and any(coding.strip().lower() != only for coding in codings):
        raise Refused("wrong_content_encoding")


def security_headers(raw: RawHeaders) -> SecurityHeaders:
    """Return the three security headers. Raises `Refused`: `missing_…`, `repeated_…`, `malformed_…`."""
    try:
        return parse_headers(raw)
    except MalformedHeaders as error:
        raise Refused(error.reason) from None


def wants_continue(headers: CIMultiDictProxy[str], version: tuple[int, int]) -> bool:
    """Say whether the sender waits for `100 Continue`. Raises `Refused`: `unsupported_expectation`.

    An HTTP/1.0 sender cannot wait for it (RFC 9110, 10.1.1).
    """
    expectations = headers.getall(hdrs.EXPECT, ())
    if not expectations or version < (1, 1):
        return False
    if any(expectation.strip().lower() != "100-continue" for expectation in expectations):
        raise Refused("unsupported_expectation")
    return True


_VERSIONS: Final = ((1, 1), (1, 0))
_LENGTH: Final = re.compile(r"[0-9]{1,19}")
_WORD: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]++"
_ONE_PARAMETER: Final = rf'[ \t]*+;[ \t]*+(?:{_WORD}=(?:{_WORD}|"[^"\\\x00-\x1f\x7f]*+"))?+'
_MEDIA_TYPE: Final = re.compile(rf"[ \t]*+({_WORD}/{_WORD})((?:{_ONE_PARAMETER})*+)[ \t]*+")
"""Nothing that was taken is given back: with blanks between semicolons there would be two ways for each of them."""
_PARAMETER: Final = re.compile(rf'({_WORD})=({_WORD}|"[^"]*")')
_ABSOLUTE: Final = re.compile(r"https?://[^/?#]*(/[^?#]*)?", re.IGNORECASE)


def _path(target: str) -> str:
    """Return the path in a request target, exactly as written."""
    if target.startswith("/"):
        return target.partition("?")[0]
    absolute = _ABSOLUTE.match(target)
    return (absolute[1] or "/") if absolute else ""
