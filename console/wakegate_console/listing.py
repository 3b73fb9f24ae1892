"""Listings: one JSON array or one table, both written as their rows are read."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from wakegate_console.text import printable

T = TypeVar("T")
Row = Mapping[str, Any]
"""What is listed, by the names that `--json` uses; values are as JSON has them, times RFC 3339 text."""

PAGE = 500
"""How many rows are read at once."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    key: str
    title: str
    width: int
    """Characters; longer values are cut, except in the last column. Ids have 36, times 20."""
    is_time: bool = False
    """Shown to the second."""


def listing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that every listing takes."""
    as_json = click.option("--json", "as_json", is_flag=True, help="One JSON array of objects.")
    limit = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N rows; else all.")
    return as_json(limit(command))


async def paged(
    fetch: Callable[[int, int], Awaitable[Sequence[tuple[int, T]]]], limit: int | None = None
) -> AsyncIterator[T]:
    """Yield everything that a paging verb of the store has, a page in memory at a time.

    Args:
        fetch: takes the row number to go on after and the most rows wanted; gives rows with their numbers.
        limit: yield at most so many.
    """
    after, left = 0, limit
    while left is None or left > 0:
        wanted = PAGE if left is None else min(PAGE, left)
        page = await fetch(after, wanted)
        for number, record in page:
            after = number
            yield record
        if len(page) < wanted:
            return
        left = None if left is None else left - len(page)


async def write(
    rows: AsyncIterator[Row],
    columns: Sequence[Column],
    *,
    as_json: bool,
    nothing: str,
    colour: Callable[[Row], str | None] = lambda _: None,
) -> None:
    """Write a listing to standard output.

    Args:
        rows: what is listed.
        columns: of the table.
        as_json: write one array of whole objects instead.
        nothing: what to say instead of an empty table.
        colour: of a row of the table, for a terminal.
    """
    if as_json:
        await _write_array(rows)
    else:
        await _write_table(rows, columns, nothing, colour)


def write_object(view: Row) -> None:
    """Write one JSON object to standard output."""
    click.echo(json.dumps(view, indent=2))


def write_fields(view: Row) -> None:
    """Write what a row says, one `name: value` a line; tables inside it have no place here."""
    width = max(len(name) for name in view)
    for name, value in view.items():
        click.echo(f"{name + ':':<{width + 1}} {shown(value)}")


def write_section(title: str, rows: Sequence[Row], columns: Sequence[Column]) -> None:
    """Write a small table under its title; nothing when it is empty."""
    if rows:
        click.echo(f"\n{title}")
        for row in ({column.key: column.title for column in columns}, *rows):
            click.echo("  " + _line(row, columns))


async def several(rows: Iterable[Row]) -> AsyncIterator[Row]:
    """Yield rows that are in memory."""
    for row in rows:
        yield row


def shown(value: Any) -> str:
    """Return a value as a table shows it: `-` for none, and nothing that could steer a terminal."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))


async def _write_array(rows: AsyncIterator[Row]) -> None:
    opening = "["
    async for row in rows:
        click.echo(f"{opening}\n{json.dumps(row)}", nl=False)
        opening = ","
    click.echo("[]" if opening == "[" else "\n]")


async def _write_table(
    rows: AsyncIterator[Row], columns: Sequence[Column], nothing: str, colour: Callable[[Row], str | None]
) -> None:
    headed = False
    async for row in rows:
        if not headed:
            click.secho(_line({column.key: column.title for column in columns}, columns), bold=True)
            headed = True
        click.secho(_line(row, columns), fg=colour(row))
    if not headed:
        click.echo(nothing)


def _line(row: Row, columns: Sequence[Column]) -> str:
    *most, last = columns
    cells = [_cut(_cell(row, column), column.width).ljust(column.width) for column in most]
    return "  ".join([*cells, _cell(row, last)]).rstrip()


def _cell(row: Row, column: Column) -> str:
    text = shown(row[column.key])
    return _FRACTION.sub("", text) if column.is_time else text


_FRACTION = re.compile(r"\.[0-9]+(?=Z\Z)")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
