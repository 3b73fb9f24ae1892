"""docs/answers.md and the code name the same answers, and no answer tells more than it should."""

import re
from pathlib import Path

import pytest

import wakegate_receiver
from wakegate_receiver.answers import ANSWERS, Refused, raw_refusal, refusal
from wakegate_schema import strict_json, wire

PAGE = Path(__file__).parents[2] / "docs" / "answers.md"
SOURCE = "".join(path.read_text() for path in Path(wakegate_receiver.__path__[0]).glob("*.py"))


def documented(module: object) -> set[str]:
    """Return the reasons that a module's documentation names in backquotes."""
    return set(re.findall(r"`([a-z_]+)`", str(module)))


def test_the_page_has_exactly_the_rows_of_the_code() -> None:
    rows = re.findall(r"^\| (.+) \| (\d+|–) \| `(\w+)` \|$", PAGE.read_text(), flags=re.MULTILINE)
    expected = [(answer.situation, str(answer.status or "–"), reason) for reason, answer in ANSWERS.items()]
    assert sorted(rows) == sorted(expected)


def test_every_reason_that_the_receiver_gives_is_in_the_table() -> None:
    given = set(re.findall(r'(?:Refused|note|_cut)\([^"\n]*"(\w+)"', SOURCE))
    assert given
    assert given <= ANSWERS.keys()


def test_every_reason_of_the_json_reader_is_in_the_table() -> None:
    reasons = documented(strict_json.parse.__doc__) - {"parse"}
    assert "duplicate_key" in reasons
    assert reasons <= ANSWERS.keys()


def test_every_reason_that_an_event_can_be_refused_for_is_in_the_table() -> None:
    possible = {"unknown_field", "missing_field", "wrong_type", "bad_uuid", "bad_timestamp"}
    assert possible <= documented(wire.object_from.__doc__)
    assert possible <= ANSWERS.keys()


def test_a_reason_that_is_not_in_the_table_becomes_its_fallback() -> None:
    assert Refused("made_up", fallback="not_json").reason == "not_json"
    assert Refused("made_up").reason == "unforeseen"


@pytest.mark.parametrize("reason", [reason for reason, answer in ANSWERS.items() if answer.status == 401])
async def test_every_401_looks_the_same(reason: str) -> None:
    assert refusal(reason).body == b'{"reason":"unauthenticated"}'


@pytest.mark.parametrize("reason", [r for r, answer in ANSWERS.items() if answer.status in (429, 503)])
async def test_a_sender_is_told_to_come_back_within_five_seconds(reason: str) -> None:
    assert 1 <= int(refusal(reason).headers["Retry-After"]) <= 5


def test_a_raw_refusal_is_one_whole_answer() -> None:
    head, _, body = raw_refusal("too_many_connections").partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"HTTP/1.1 503 Service Unavailable"
    assert b"Content-Length: %d" % len(body) in lines
    assert b"Retry-After: 1" in lines
    assert body == b'{"reason":"too_many_connections"}'
