"""The screen: whether a person looks at the output, how wide their terminal is, and how ids and times fit on it."""

import re
import shutil
import sys
from dataclasses import dataclass
from typing import Any

import click

from wakegate_console.text import printable

SHORT_ID = 8
"""Characters of an id that a terminal shows; a command takes them for the whole, while they name only one."""

_FRACTION = re.compile(r"\.[0-9]+(?=Z\Z)")


@dataclass(frozen=True, slots=True)
class Screen:
    """Where tables go."""

    width: int | None
    """Characters a line; None for a pipe or a file, which get everything whole."""
    today: str
    """The day, in UTC: 2026-09-16."""

    def short_id(self, text: str) -> str:
        """Return an id as this screen shows it."""
        return text if self.width is None else text[:SHORT_ID]

    def short_time(self, text: str) -> str:
        """Return an RFC 3339 UTC time to the second; on a terminal the time of today, of other days the date."""
        if self.width is None or len(text) < 20:
            return _FRACTION.sub("", text)
        return text[11:19] if text.startswith(self.today) else text[:10]


def screen() -> Screen:
    """Return what standard output leads to."""
    from wakegate_schema import clock, timestamps

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    return Screen(width, timestamps.render(clock.now())[:10])


def shown(value: Any) -> str:
    """Return a value as people read it: `-` for none, and nothing that could steer a terminal."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(str(value))


def put(line: str, colour: str | None = None) -> None:
    """Write a line, on a terminal in a colour."""
    click.echo(line if colour is None else click.style(line, fg=colour))
