"""A test that goes through a table tries every row and names those that fail; an order of tests loses none of them."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from support import ordering
from support.tables import each_row


def notes(group: pytest.ExceptionInfo[BaseExceptionGroup[BaseException]]) -> list[str]:
    return [note for error in group.value.exceptions for note in error.__notes__]


def test_every_row_is_tried_and_those_that_fail_are_named() -> None:
    tried = []

    @each_row("number", [1, 2, 3, 4])
    def is_odd(number: int) -> None:
        tried.append(number)
        with pytest.raises(ValueError, match="odd"):
            raise ValueError("odd" if number % 2 else "even")
        if number == 3:
            pytest.fail("three")

    with pytest.raises(BaseExceptionGroup, match="3 of 4 rows") as failed:
        is_odd()
    assert tried == [1, 2, 3, 4]
    assert notes(failed) == ["in the row (2,)", "in the row (3,)", "in the row (4,)"]


def test_tables_may_be_combined_named_and_gone_through_in_a_loop() -> None:
    tried = []

    @each_row("left", [1, 2])
    @each_row(("right", "more"), [pytest.param("a", 0, id="first"), ("b", 1)])
    async def is_first(left: int, right: str, more: int, *, other: str) -> None:
        tried.append((left, right, other))
        assert more == 0

    with pytest.raises(BaseExceptionGroup) as failed:
        asyncio.run(is_first(other="made once"))
    assert tried == [(left, right, "made once") for left in (1, 2) for right in ("a", "b")]
    assert notes(failed) == ["in the row (1,)", "in the row (2,)"]


@dataclass
class Item:
    nodeid: str


def test_each_part_has_long_tests_and_no_test_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "DURATIONS", tmp_path / "durations.json")
    names = [f"tests/{file}.py::test_{number}" for file in "abcdefgh" for number in range(9)]
    ordering.write((name, 9.0 - number if (number := int(name[-1])) < 4 else 0.1) for name in names)
    items = cast("list[pytest.Item]", [Item(name) for name in names])
    ordered = ordering.ordered(items, 4)
    assert sorted(item.nodeid for item in ordered) == sorted(names)
    parts = [[int(item.nodeid[-1]) for item in ordered[start : start + 18]] for start in range(0, 72, 18)]
    assert [sum(number < 4 for number in part) for part in parts] == [8, 8, 8, 8]
