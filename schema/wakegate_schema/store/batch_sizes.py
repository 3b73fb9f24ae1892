"""The sizes in which batches of rows go to the database: few, so that SQLite finds their statements prepared.

A statement of 64 rows that is prepared anew costs more than half of what running it costs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

_T = TypeVar("_T")

SIZES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Rows of one statement."""
FILLED: Final = (1, 4, 16, 64, 256)
"""The same where rows of NULLs may stand among them. Fewer: to prepare a change of 64 executions, with its triggers,
takes over a millisecond, and a row of NULLs about a microsecond."""


def padded(rows: Sequence[_T]) -> Sequence[_T]:
    """Return these rows, the last of them repeated up to the next size: for look-ups, which find it more than once."""
    if not rows or len(rows) >= SIZES[-1]:
        return rows
    return [*rows, *[rows[-1]] * (SIZES[bisect_left(SIZES, len(rows))] - len(rows))]


def parts(rows: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """Yield these rows in their order, in as few parts as there are sizes for them."""
    begin = 0
    while begin < len(rows):
        size = SIZES[bisect_right(SIZES, len(rows) - begin) - 1]
        yield rows[begin : begin + size]
        begin += size


def filled(rows: Sequence[Sequence[object]]) -> Sequence[Sequence[object]]:
    """Return these rows and rows of NULLs up to the next of `FILLED`: for what joins them and finds none for NULL."""
    if not rows or len(rows) >= FILLED[-1]:
        return rows
    return [*rows, *[(None,) * len(rows[0])] * (FILLED[bisect_left(FILLED, len(rows))] - len(rows))]
