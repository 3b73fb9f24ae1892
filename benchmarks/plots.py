"""A figure as an SVG: a bar to each side's median, a line from the least to the most, a dot for every round.

Plain text made by a pure function: the same results give the same file, and whoever looks at it fetches nothing.
"""

import statistics
from collections.abc import Iterator
from html import escape
from typing import Final

from benchmarks.figures import Figure
from benchmarks.tables import number

_WIDTH: Final = 760
_LEFT: Final = 290
_RIGHT: Final = 80
_ROW: Final = 34
_TOP: Final = 40
_COLOURS: Final = ("#2f6f9f", "#b5651d", "#6b7f3a", "#7a4f8c", "#8a8a8a")


def svg(figure: Figure) -> str:
    """The drawing of one figure."""
    height = _TOP + _ROW * len(figure.sides) + 12
    most = max(max(values) for values in figure.sides.values()) or 1.0
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="12" y="22" font-weight="bold">{escape(figure.name)}, {escape(figure.unit)}</text>',
    ]
    for row, (side, values) in enumerate(figure.sides.items()):
        lines += _side(side, values, most, _TOP + _ROW * row, _COLOURS[row % len(_COLOURS)])
    return "\n".join([*lines, "</svg>"]) + "\n"


def _side(side: str, values: tuple[float, ...], most: float, top: int, colour: str) -> Iterator[str]:
    def at(value: float) -> str:
        return f"{_LEFT + (_WIDTH - _LEFT - _RIGHT) * value / most:.1f}"

    middle, median = top + _ROW / 2, statistics.median(values)
    width = float(at(median)) - _LEFT
    yield f'<text x="{_LEFT - 10}" y="{middle + 4:.1f}" text-anchor="end">{escape(side)}</text>'
    yield f'<rect x="{_LEFT}" y="{top + 5}" width="{width:.1f}" height="{_ROW - 10}" fill="{colour}"/>'
    ends = f'x1="{at(min(values))}" x2="{at(max(values))}"'
    yield f'<line {ends} y1="{middle:.1f}" y2="{middle:.1f}" stroke="#222222" stroke-width="1.5"/>'
    yield from (
        f'<circle cx="{at(each)}" cy="{middle:.1f}" r="2.5" fill="#ffffff" stroke="#222222"/>' for each in values
    )
    right = max(float(at(max(values))), float(at(median))) + 8
    yield f'<text x="{right:.1f}" y="{middle + 4:.1f}">{number(median)}</text>'
