"""A sheet: one thing shown, a line for each thing that is known of it, and small tables below."""

import json
from collections.abc import Sequence

import click

from wakegate_console.screen import put, screen, shown
from wakegate_console.table import Column, Layout, Row

FIELD_WIDTH = 22
"""Where values begin at the latest; a longer name pushes its own value only."""


def write_object(view: Row) -> None:
    """Write one JSON object to standard output."""
    click.echo(json.dumps(view, indent=2))


def write_fields(view: Row, first: Sequence[str] = (), colour: str | None = None) -> None:
    """Write what is known, one `name: value` a line; what is unknown or zero is left out.

    Args:
        view: the values by name.
        first: the names that come before the others, where they are known.
        colour: of these first lines after the very first, for a terminal.
    """
    names = [*(name for name in first if name in view), *(name for name in view if name not in first)]
    known = [name for name in names if view[name] not in (None, "", 0) or view[name] is False]
    width = min(FIELD_WIDTH, max((len(name) for name in known), default=0) + 2)
    for number, name in enumerate(known):
        label = f"{name}:".ljust(width)
        gap = "" if label.endswith(" ") else " "
        put(f"{label}{gap}{shown(view[name])}", colour if number and name in first else None)


def write_section(title: str, rows: Sequence[Row], columns: Sequence[Column]) -> None:
    """Write a small table under its title; nothing when it is empty."""
    if not rows:
        return
    layout = Layout(rows, columns, screen(), indent=2)
    click.echo(f"\n{title}")
    for line in (layout.head(), *map(layout.line, rows)):
        click.echo(line)
