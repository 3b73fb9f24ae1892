"""Listings: one JSON array or one table, both written as their rows are read; the latest first."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from wakegate_console.screen import put, screen
from wakegate_console.table import Column, Layout, Row

T = TypeVar("T")

PAGE = 500
"""How many rows are read at once, and how many a table is measured by."""


def listing_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that every listing takes."""
    as_json = click.option("--json", "as_json", is_flag=True, help="One JSON array of objects.")
    limit = click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N rows; else all.")
    return as_json(limit(command))


async def paged(
    fetch: Callable[[int | None, int], Awaitable[Sequence[tuple[int, T]]]], limit: int | None = None
) -> AsyncIterator[T]:
    """Yield everything that a paging verb of the store has, a page in memory at a time.

    Args:
        fetch: takes the number of the last row that was read (None at first) and the most rows wanted; gives rows
            with their numbers.
        limit: yield at most so many.
    """
    last, left = None, limit
    while left is None or left > 0:
        wanted = PAGE if left is None else min(PAGE, left)
        page = await fetch(last, wanted)
        for number, record in page:
            last = number
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


async def several(rows: Iterable[Row]) -> AsyncIterator[Row]:
    """Yield rows that are in memory."""
    for row in rows:
        yield row


async def _write_array(rows: AsyncIterator[Row]) -> None:
    opening = "["
    async for row in rows:
        click.echo(f"{opening}\n{json.dumps(row)}", nl=False)
        opening = ","
    click.echo("[]" if opening == "[" else "\n]")


async def _write_table(
    rows: AsyncIterator[Row], columns: Sequence[Column], nothing: str, colour: Callable[[Row], str | None]
) -> None:
    first: list[Row] = []
    async for row in rows:
        first.append(row)
        if len(first) == PAGE:
            break
    if not first:
        click.echo(nothing)
        return
    layout = Layout(first, columns, screen())
    click.secho(layout.head(), bold=True)
    for row in first:
        put(layout.line(row), colour(row))
    async for row in rows:
        put(layout.line(row), colour(row))
