"""Listings: pages, arrays, tables, and text that cannot steer a terminal."""

import json
from collections.abc import AsyncIterator

import pytest

from wakegate_console.listing import PAGE, paged, several, write
from wakegate_console.table import Column, Row
from wakegate_console.text import describe, printable

COLUMNS = (Column("name", "NAME"), Column("at", "AT", "time"), Column("why", "WHY"))


class Pages:
    """A paging verb over numbers that remembers what it was asked for."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[tuple[int | None, int]] = []

    async def __call__(self, last: int | None, limit: int) -> list[tuple[int, str]]:
        self.asked.append((last, limit))
        first = (last or 0) + 1
        return [(number, f"row {number}") for number in range(first, min(first + limit, self.count + 1))]


async def collected(rows: AsyncIterator[str]) -> list[str]:
    return [row async for row in rows]


async def test_every_page_is_read_once() -> None:
    pages = Pages(1234)
    assert await collected(paged(pages)) == [f"row {number}" for number in range(1, 1235)]
    assert pages.asked == [(None, 500), (500, 500), (1000, 500)]


async def test_a_limit_asks_for_no_more_than_it_wants() -> None:
    pages = Pages(1234)
    assert len(await collected(paged(pages, 502))) == 502
    assert pages.asked == [(None, 500), (500, 2)]


async def test_a_full_last_page_is_followed_by_an_empty_one() -> None:
    pages = Pages(500)
    assert len(await collected(paged(pages))) == 500
    assert pages.asked == [(None, 500), (500, 500)]


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_an_array_is_one_json_value(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[Row] = [{"name": f"ü {number}", "at": None, "why": "x"} for number in range(count)]
    await write(several(rows), COLUMNS, as_json=True, nothing="Nothing.")
    assert json.loads(capsys.readouterr().out) == rows


async def test_an_array_is_written_as_its_rows_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    seen = []

    async def rows() -> AsyncIterator[Row]:
        for number in range(3):
            yield {"name": str(number), "at": None, "why": None}
            seen.append(capsys.readouterr().out)

    await write(rows(), COLUMNS, as_json=True, nothing="Nothing.")
    assert all(seen)


async def test_a_table_in_a_pipe_has_everything_whole(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "far too long for any column", "at": "2026-11-30T08:45:21.696399Z", "why": "because of that"}
    await write(several([row]), COLUMNS, as_json=False, nothing="Nothing.")
    heading, line = capsys.readouterr().out.splitlines()
    assert heading == "NAME                         AT                    WHY"
    assert line == "far too long for any column  2026-11-30T08:45:21Z  because of that"


async def test_a_table_is_written_before_all_its_rows_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    written = []

    async def rows() -> AsyncIterator[Row]:
        for number in range(PAGE + 2):
            written.append(capsys.readouterr().out)
            yield {"name": str(number), "at": None, "why": None}

    await write(rows(), COLUMNS, as_json=False, nothing="Nothing.")
    assert len("".join(written).splitlines()) == PAGE + 2


async def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    await write(several([]), COLUMNS, as_json=False, nothing="Nothing.")
    assert capsys.readouterr().out == "Nothing.\n"


async def test_a_table_writes_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"name": "\x1b[2J", "at": None, "why": "a\nb\x9b\u202e"}
    await write(several([row]), COLUMNS, as_json=False, nothing="Nothing.")
    assert capsys.readouterr().out.splitlines()[1] == r"\x1b[2J  -   a\nb\x9b\u202e"


def test_printable_text_stays_as_it_is() -> None:
    assert printable("Größe 1 – ok") == "Größe 1 – ok"


def test_an_error_of_the_system_names_its_file() -> None:
    assert describe(FileNotFoundError(2, "No such file or directory", "/a/b")) == "/a/b: No such file or directory"


def test_an_error_of_the_system_without_a_file_says_what_is_wrong() -> None:
    assert describe(OSError("odd")) == "odd"
