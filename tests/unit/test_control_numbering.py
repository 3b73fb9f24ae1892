"""Numbers are shown to harnesses under a permutation: each once, none in order, and few that were never shown."""

import itertools

import pytest

from wakegate_receiver.control.answers import ControlRefused
from wakegate_receiver.control.numbering import LIMIT, Numbering

NUMBERING, ANOTHER = Numbering(bytes(range(32))), Numbering(bytes(32))
NUMBERS = [*range(2000), 2**20, 2**26 - 1, 2**26, 2**39, 2**40 - 1]


def test_every_number_comes_back() -> None:
    assert [NUMBERING.meant(NUMBERING.shown(number)) for number in NUMBERS] == NUMBERS


def test_no_two_numbers_are_shown_alike_and_each_is_exact_as_a_double() -> None:
    shown = {NUMBERING.shown(number) for number in NUMBERS}
    assert len(shown) == len(NUMBERS)
    assert max(shown) < LIMIT <= 2**53


def test_what_is_shown_says_neither_how_many_nor_which_came_first() -> None:
    shown = [NUMBERING.shown(number) for number in range(2000)]
    rising = sum(after > before for before, after in itertools.pairwise(shown))
    assert 800 < rising < 1200
    assert 0.4 < sum(number > LIMIT // 2 for number in shown) / 2000 < 0.6


def test_another_store_shows_other_numbers() -> None:
    assert not {NUMBERING.shown(number) for number in range(2000)} & {ANOTHER.shown(number) for number in range(2000)}


def test_hardly_any_other_number_is_taken() -> None:
    assert sum(NUMBERING.meant(shown) is not None for shown in range(20_000)) < 20
    assert NUMBERING.meant(LIMIT) is None


def test_a_cursor_names_epoch_and_number() -> None:
    assert NUMBERING.place(NUMBERING.cursor((3, 17))) == (3, 17)
    for cursor in ("3-1", f"3-{LIMIT}", "x"):
        with pytest.raises(Exception, match=r"cursor") as refused:
            NUMBERING.place(cursor)
        assert refused.value.reason == "bad_cursor"  # type: ignore[attr-defined]
    assert ControlRefused("bad_cursor").reason == "bad_cursor"
