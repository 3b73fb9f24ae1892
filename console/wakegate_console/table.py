"""Tables: columns as wide as what is in them, and on a terminal no wider than it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from wakegate_console.screen import Screen, shown

GAP = 2
"""Characters between two columns."""

Row = Mapping[str, Any]
"""What is listed, by the names that `--json` uses; values are as JSON has them, times RFC 3339 text."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table."""

    key: str
    title: str
    kind: Literal["text", "id", "time"] = "text"
    """On a terminal ids and times are shortened; text is cut when the line would be too long."""
    instead: str | None = None
    """What is shown where there is no value: the value of this other key."""
    least: int = 8
    """Characters that text keeps when it is cut."""
    spare: bool = False
    """Left out on a terminal that is too narrow for it."""
    keeps_end: bool = False
    """Cut at its beginning, because its end tells it from others."""

    def cell(self, row: Row, screen: Screen) -> str:
        """Return what the column shows of a row, whole."""
        value = row.get(self.key)
        text = shown(row.get(self.instead) if value is None and self.instead is not None else value)
        if text == "-" or self.kind == "text":
            return text
        return screen.short_id(text) if self.kind == "id" else screen.short_time(text)


class Layout:
    """Which columns a table has, and how wide each is."""

    def __init__(self, rows: Sequence[Row], columns: Sequence[Column], screen: Screen, indent: int = 0) -> None:
        """Measure the rows that are there; later ones fit or, on a terminal, are cut.

        Args:
            rows: the first rows of the table, or all of them.
            columns: what it may have.
            screen: where it goes.
            indent: blanks before each line.
        """
        self._screen = screen
        self._indent = indent
        self.widths = {
            column: max([len(column.title), *(len(column.cell(row, screen)) for row in rows)]) for column in columns
        }
        if screen.width is not None:
            self._fit(screen.width)

    def head(self) -> str:
        """Return the line of titles."""
        return self._join([column.title for column in self.widths])

    def line(self, row: Row) -> str:
        """Return the line of a row."""
        return self._join([column.cell(row, self._screen) for column in self.widths])

    def _fit(self, width: int) -> None:
        """Leave spare columns out, the last first, until the rest can fit; then cut the widest text columns."""
        spare = [column for column in self.widths if column.spare]
        while spare and self._length(least=True) > width:
            del self.widths[spare.pop()]
        while (excess := self._length() - width) > 0:
            widest = max(self.widths, key=lambda column: self.widths[column] - _least(column, self.widths[column]))
            room = self.widths[widest] - _least(widest, self.widths[widest])
            if room <= 0:
                return
            self.widths[widest] -= min(room, max(1, excess // len(self.widths)))

    def _length(self, *, least: bool = False) -> int:
        widths = [_least(column, width) if least else width for column, width in self.widths.items()]
        return self._indent + sum(widths) + GAP * (len(widths) - 1)

    def _join(self, cells: Sequence[str]) -> str:
        cut = self._screen.width is not None
        fitted = [
            (_cut(cell, width, column) if cut else cell).ljust(width)
            for cell, (column, width) in zip(cells, self.widths.items(), strict=True)
        ]
        return (" " * self._indent + (" " * GAP).join(fitted)).rstrip()


def _least(column: Column, width: int) -> int:
    """Return how narrow a column may become: its title stays whole, and so do ids and times."""
    return min(width, max(len(column.title), column.least)) if column.kind == "text" else width


def _cut(text: str, width: int, column: Column) -> str:
    if len(text) <= width:
        return text
    return f"…{text[1 - width :]}" if column.keeps_end else f"{text[: width - 1]}…"
