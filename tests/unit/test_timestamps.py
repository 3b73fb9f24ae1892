"""Timestamps and durations in AAP's forms only, never rounded later."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.tables import each_row
from wakegate_schema import timestamps
from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND
from wakegate_schema.timestamps import MalformedTime

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
LAST = (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


@each_row(
    ("text", "at"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-09-16T12:02:00Z", 1_789_560_120 * SECOND),
        ("2026-09-16T12:02:00.5Z", 1_789_560_120 * SECOND + 500_000),
        ("2026-09-16T12:02:00.000001Z", 1_789_560_120 * SECOND + 1),
        ("2026-09-16T12:02:00.0000019999Z", 1_789_560_120 * SECOND + 1),
        ("2026-09-16T12:02:00." + "9" * 64 + "Z", 1_789_560_121 * SECOND - 1),
        ("1969-12-31T23:59:59.9999999Z", -1),
        ("2024-02-29T00:00:00Z", 1_709_164_800 * SECOND),
        ("0001-01-01T00:00:00Z", FIRST),
        ("9999-12-31T23:59:59.999999Z", LAST),
    ],
)
def test_a_timestamp_is_read_to_the_microsecond_and_floored(text: str, at: int) -> None:
    assert timestamps.parse(text) == at


@each_row(
    "text",
    [
        "",
        "2026-09-16T12:02:00z",
        "2026-09-16t12:02:00Z",
        "2026-09-16 12:02:00Z",
        "2026-09-16T12:02:00",
        "2026-09-16T12:02:00+00:00",
        "2026-09-16T12:02:00-00:00",
        "2026-09-16T12:02:00.Z",
        "2026-09-16T12:02:00,5Z",
        "2026-09-16T12:02Z",
        "2026-09-16T12:02:00Z\n",
        " 2026-09-16T12:02:00Z",
        "20260916T120200Z",
        "2026-W38-3T12:02:00Z",
        "2026-259T12:02:00Z",
        "+2026-09-16T12:02:00Z",
        "12026-09-16T12:02:00Z",
        "0000-01-01T00:00:00Z",
        "2026-00-16T12:02:00Z",
        "2026-13-16T12:02:00Z",
        "2026-02-29T12:02:00Z",
        "2026-09-31T12:02:00Z",
        "2026-09-00T12:02:00Z",
        "2026-09-16T24:00:00Z",
        "2026-09-16T12:60:00Z",
        "2026-09-16T23:59:60Z",
        "2026-09-16T12:02:61Z",
        "\u0662026-09-16T12:02:00Z",
        "2026-09-16T12:02:00." + "1" * 65 + "Z",
        "1789560120",
    ],
)
def test_any_other_form_of_a_timestamp_is_refused(text: str) -> None:
    with pytest.raises(MalformedTime) as refused:
        timestamps.parse(text)
    assert refused.value.reason == "bad_timestamp"


def test_a_fraction_is_written_only_where_there_is_one() -> None:
    assert timestamps.render(1_789_560_120 * SECOND) == "2026-09-16T12:02:00Z"
    assert timestamps.render(1_789_560_120 * SECOND + 1) == "2026-09-16T12:02:00.000001Z"
    assert timestamps.render(-1) == "1969-12-31T23:59:59.999999Z"
    assert timestamps.render(FIRST) == "0001-01-01T00:00:00Z"


@each_row("at", [FIRST - 1, LAST + 1, 10**30, -(10**30)])
def test_a_moment_outside_the_calendar_is_not_written(at: int) -> None:
    with pytest.raises(MalformedTime):
        timestamps.render(at)


@given(st.integers(FIRST, LAST))
@settings(max_examples=200, deadline=None)
def test_a_moment_reads_back_as_it_was_written(at: int) -> None:
    assert timestamps.parse(timestamps.render(at)) == at


@each_row(
    ("text", "length"),
    [("1s", SECOND), ("30m", 30 * MINUTE), ("24h", DAY), ("100h", 100 * HOUR), ("876000h", 36_500 * DAY)],
)
def test_a_duration_is_read(text: str, length: int) -> None:
    assert timestamps.duration(text) == length


@each_row(
    "text",
    [
        "",
        "0s",
        "01s",
        "-1s",
        "+1s",
        "1",
        "s",
        "1 s",
        "1S",
        "1d",
        "1ms",
        "1.5h",
        "1h30m",
        "1s\n",
        "\u0661s",
        "876001h",
        "9" * 30 + "s",
        "9" * 5000 + "h",
    ],
)
def test_any_other_form_of_a_duration_is_refused(text: str) -> None:
    with pytest.raises(MalformedTime) as refused:
        timestamps.duration(text)
    assert refused.value.reason == "bad_duration"
