"""What is decided by a request's line and headers alone."""

from contextlib import suppress

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from support.cpu import cpu_bound
from support.tables import each_row
from wakegate_receiver.answers import Refused
from wakegate_receiver.screening import (
    MAX_HEAD,
    check_length,
    check_media,
    check_size,
    check_target,
    check_version,
    security_headers,
    wants_continue,
)

ID = b"f4b96ac4-404d-4f6a-9a03-a0565edc4922"


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


@each_row(
    "target",
    ["/aap/events", "/aap/events?tenant=1", "http://receiver.test/aap/events", "HTTPS://a:1/aap/events?x"],
)
def test_the_events_path_is_found_however_the_target_is_written(target: str) -> None:
    check_target("POST", target, "/aap/events")


@each_row(
    "target",
    [
        "/aap/events/",
        "//aap/events",
        "/aap/%65vents",
        "/x/../aap/events",
        "/aap/events#x",
        "/AAP/events",
        "/",
        "*",
        "",
        "a:443",
        "ftp://a/aap/events",
        "/aap/events;x",
    ],
)
@each_row("method", ["POST", "GET"])
def test_any_other_spelling_of_the_path_is_another_path(target: str, method: str) -> None:
    with pytest.raises(Refused) as refused:
        check_target(method, target, "/aap/events")
    assert refused.value.reason == "wrong_path"


@each_row("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "post"])
def test_only_post_is_taken(method: str) -> None:
    with pytest.raises(Refused) as refused:
        check_target(method, "/aap/events", "/aap/events")
    assert refused.value.reason == "wrong_method"


@pytest.mark.parametrize("version", [(0, 9), (1, 2), (2, 0)])
def test_other_versions_of_http_are_refused(version: tuple[int, int]) -> None:
    with pytest.raises(Refused) as refused:
        check_version(version)
    assert refused.value.reason == "malformed_http"


@pytest.mark.parametrize("length", ["0", "100", "0100"])
def test_a_length_within_the_limit_passes(length: str) -> None:
    check_length(headers(("content-length", length)), 100)


def test_no_length_passes_because_chunks_are_counted_as_they_come() -> None:
    check_length(headers(), 100)


@each_row(
    ("length", "reason"),
    [
        ("101", "body_too_large"),
        ("9" * 19, "body_too_large"),
        ("9" * 5000, "malformed_http"),
        ("-1", "malformed_http"),
        ("1e3", "malformed_http"),
        ("٣", "malformed_http"),
        ("", "malformed_http"),
    ],
)
def test_a_length_over_the_limit_or_no_length_is_refused(length: str, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        check_length(headers(("content-length", length)), 100)
    assert refused.value.reason == reason


@each_row(
    "kind",
    [
        "application/json",
        "Application/JSON",
        "application/json;charset=utf-8",
        'application/json; charset="UTF-8"',
        "application/json ; charset=utf-8 ; profile=x",
        "application/json;",
    ],
)
def test_json_in_utf_8_passes(kind: str) -> None:
    check_media(headers(("content-type", kind), ("content-encoding", "Identity")))


@each_row(
    ("kind", "reason"),
    [
        ("text/plain", "wrong_content_type"),
        ("application/x-www-form-urlencoded", "wrong_content_type"),
        ("application/json+x", "wrong_content_type"),
        ("application/jsonx", "wrong_content_type"),
        ("application/json, text/plain", "wrong_content_type"),
        ("", "wrong_content_type"),
        ("application/json; charset", "wrong_content_type"),
        ("application/json; charset=utf-16", "wrong_charset"),
        ("application/json; CHARSET=latin-1", "wrong_charset"),
        ("application/json; charset=utf-8; charset=utf-16", "wrong_charset"),
    ],
)
def test_other_types_and_charsets_are_refused(kind: str, reason: str) -> None:
    with pytest.raises(Refused) as refused:
        check_media(headers(("content-type", kind)))
    assert refused.value.reason == reason


def test_a_missing_or_repeated_type_is_refused() -> None:
    for pairs in ((), (("content-type", "application/json"),) * 2):
        with pytest.raises(Refused) as refused:
            check_media(headers(*pairs))
        assert refused.value.reason == "wrong_content_type"


@each_row(
    "header",
    [
        ("content-encoding", "gzip"),
        ("content-encoding", ""),
        ("content-encoding", "identity, gzip"),
        ("transfer-encoding", "gzip, chunked"),
        ("transfer-encoding", "identity"),
    ],
)
def test_an_encoded_body_is_refused_before_its_type_is_looked_at(header: tuple[str, str]) -> None:
    with pytest.raises(Refused) as refused:
        check_media(headers(header, ("content-type", "text/plain")))
    assert refused.value.reason == "wrong_content_encoding"


@each_row(
    "filling",
    ["; a=b", "; ", " ;", ";", " ; ; ", "\t;\t", '; a=" ', '; a=""', "a", " ", "; a", "=", "/", '"'],
)
@each_row("before", ["application/json", "application/json;", "", "a/"])
@each_row("end", ["", ";=", "@", '"'])
def test_a_media_type_of_any_length_is_looked_at_in_no_time(before: str, filling: str, end: str) -> None:
    value = before + filling * (8_000 // len(filling)) + end
    with suppress(Refused), cpu_bound(1.0):
        check_media(headers(("content-type", value)))


def test_a_sender_that_waits_for_100_is_recognised() -> None:
    assert wants_continue(headers(("expect", "100-Continue")), (1, 1))
    assert not wants_continue(headers(), (1, 1))
    assert not wants_continue(headers(("expect", "100-continue")), (1, 0))


def test_another_expectation_is_refused() -> None:
    with pytest.raises(Refused) as refused:
        wants_continue(headers(("expect", "coffee")), (1, 1))
    assert refused.value.reason == "unsupported_expectation"


@each_row("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
@each_row("problem", ["missing", "repeated", "malformed"])
def test_each_security_header_must_be_there_once_and_well_formed(name: str, problem: str) -> None:
    values = {"webhook-id": ID, "webhook-timestamp": b"1789560121", "webhook-signature": b"v1,AAAA"}
    pairs = [(header.encode(), value) for header, value in values.items() if header != name]
    if problem == "repeated":
        pairs += [(name.encode(), values[name])] * 2
    if problem == "malformed":
        pairs.append((name.encode(), b""))
    with pytest.raises(Refused) as refused:
        security_headers(pairs)
    assert refused.value.reason == f"{problem}_{name.replace('-', '_')}"


def test_a_head_is_bounded_as_a_whole() -> None:
    half = (b"x", b"y" * (MAX_HEAD // 2))
    check_size("/", [half])
    with pytest.raises(Refused) as refused:
        check_size("/", [half, half])
    assert refused.value.reason == "malformed_http"
