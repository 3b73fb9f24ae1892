"""The clocks right before a start: every one must be before the end, and none may be missing or go back."""

from pathlib import Path

import pytest

from wakegate_schema.clock import DAY, SECOND, ClockMalformed, set_apart
from wakegate_schema.clock_mark import TOLERANCE
from wakegate_worker.clocks import ClockVerdict, check_clocks, server_time

END = 1_789_560_420 * SECOND


def verdict(now: int, highest: int = 0, server_now: int | None = END - 60 * SECOND) -> ClockVerdict:
    return check_clocks(END, now=now, highest=highest, server_now=server_now)


def test_before_the_end_on_every_clock_is_in_time() -> None:
    assert check_clocks(END, now=END - 1, highest=END - 1, server_now=END - 1) is ClockVerdict.IN_TIME


@pytest.mark.parametrize("late", [0, 1, DAY])
def test_either_clock_at_the_end_lapses(late: int) -> None:
    assert verdict(END + late) is ClockVerdict.LAPSED
    assert verdict(END - 60 * SECOND, server_now=END + late) is ClockVerdict.LAPSED


def test_a_clock_that_went_back_fails_closed_without_being_final() -> None:
    now = END - 60 * SECOND
    assert verdict(now, highest=now + TOLERANCE + 1) is ClockVerdict.CLOCK_BEHIND


def test_a_clock_behind_a_mark_past_the_end_is_not_believed_and_not_final() -> None:
    assert verdict(END - 60 * SECOND, highest=END + DAY) is ClockVerdict.CLOCK_BEHIND


def test_the_providers_clock_is_final_even_when_this_one_went_back() -> None:
    assert verdict(END - DAY, highest=END, server_now=END) is ClockVerdict.LAPSED


def test_readings_stored_out_of_order_stop_nothing() -> None:
    now = END - 60 * SECOND
    assert verdict(now, highest=now + TOLERANCE) is ClockVerdict.IN_TIME


def test_within_the_tolerance_the_highest_reading_is_the_time() -> None:
    assert verdict(END - 1, highest=END) is ClockVerdict.LAPSED


def test_without_the_providers_clock_nothing_starts() -> None:
    assert verdict(END - 60 * SECOND, server_now=None) is ClockVerdict.NO_SERVER_DATE
    assert verdict(END, server_now=None) is ClockVerdict.LAPSED


def test_the_providers_clock_runs_on_with_the_monotonic_one() -> None:
    assert server_time(1_789_560_121.0, 50.0, 52.5) == 1_789_560_123_500_000


def test_the_providers_clock_never_runs_back() -> None:
    assert server_time(1_789_560_121.0, 50.0, 49.0) == 1_789_560_121_000_000


def test_a_provider_that_says_no_time_has_none() -> None:
    assert server_time(None, 50.0, 52.5) is None


@pytest.mark.parametrize(
    ("text", "shown"), [("", 1000), ("+0\n", 1000), ("+7", 1007), ("-7", 993), ("7", 1007), ("=7", 7)]
)
def test_a_clock_that_is_set_apart_shows_what_its_file_says(tmp_path: Path, text: str, shown: int) -> None:
    assert set_apart(1000, tmp_path / "none") == 1000
    (tmp_path / "clock").write_text(text)
    assert set_apart(1000, tmp_path / "clock") == shown


@pytest.mark.parametrize("text", [b"=", b"+", b"=-1", b"1_0", b"+1.5", b"noon", b"\xff", b"+" + b"9" * 17])
def test_a_clock_that_cannot_be_read_shows_no_time_at_all(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "clock").write_bytes(text)
    for file in (tmp_path / "clock", tmp_path):
        with pytest.raises(ClockMalformed) as caught:
            set_apart(1000, file)
        assert str(file) in str(caught.value)
