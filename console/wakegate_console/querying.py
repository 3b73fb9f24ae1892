"""`wakegate db query`: ask the store what nothing else tells."""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from typing import Any

import click

from wakegate_console import listing
from wakegate_console.context import Context, pass_context
from wakegate_console.table import Column, Row
from wakegate_schema.store import open_store
from wakegate_schema.store.inquiry import query


@click.command("query")
@click.argument("sql", metavar="SQL")
@click.option("--timeout", type=click.FloatRange(0.1, 3600), default=30.0, metavar="SECONDS", help="How long; else 30.")
@listing.listing_options
@pass_context
def query_command(context: Context, sql: str, timeout: float, as_json: bool, limit: int | None) -> None:
    """Run one statement that only reads, and write what it finds.

    A SELECT, VALUES or WITH … SELECT, in the words of the store's database. Nothing else runs, whatever it says. The
    tables are not documented and may change with every version.
    """
    settings = context.settings()

    async def work() -> None:
        async with await open_store(settings.store, mode="read"):
            with query(settings.store, sql, seconds=timeout) as answer:
                names = _distinct(answer.columns)
                columns = [Column(name, name.upper()) for name in names]
                rows = _rows(names, answer.rows, limit)
                await listing.write(rows, columns, as_json=as_json, nothing="No rows.")

    asyncio.run(work())


async def _rows(names: list[str], rows: Iterable[tuple[Any, ...]], limit: int | None) -> AsyncIterator[Row]:
    for number, row in enumerate(rows):
        if number == limit:
            return
        yield dict(zip(names, map(_shown, row), strict=True))


def _distinct(columns: tuple[str, ...]) -> list[str]:
    """Return the columns' names, each once: a, a_2."""
    names: list[str] = []
    for column in columns:
        number, name = 1, column
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def _shown(value: Any) -> Any:
    """Return a value as JSON has it: bytes as the text they are, or as hexadecimal digits."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return f"\\x{value.hex()}"
    if value is None or isinstance(value, bool | int | str):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)
