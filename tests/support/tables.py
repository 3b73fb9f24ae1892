"""Tables: a test that is cheap for each row, and the same for all, goes through its rows by itself.

A test of its own for each row, which `pytest.mark.parametrize` makes, is collected, announced and reported by every
process of a run, and that takes longer than most rows do. Here too every row is tried, and those that fail are named.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pytest
from _pytest._io.saferepr import saferepr  # of numbers too long to be written, too

_Param = type(pytest.param())
_FAILURES: Final = (Exception, pytest.fail.Exception)
_Test = Callable[..., Any]


def each_row(
    names: str | Sequence[str], rows: Iterable[Any], *, ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[_Test], _Test]:
    """Let a test go through the rows of a table, as with `pytest.mark.parametrize`; what else it asks for is made once.

    Args:
        names: of the arguments, or of the one.
        rows: their values.
        ids: what to call the rows; a function of their values says no more of a row than its values do.
    """
    arguments = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [_Row.of(row, len(arguments)) for row in rows]
    assert table, "a table without rows"
    if ids is not None and not callable(ids):
        for row, name in zip(table, ids, strict=True):
            row.name = str(name)

    def through(test: _Test) -> _Test:
        @functools.wraps(test)
        def all_rows(**others: Any) -> None:
            failed = []
            for row in table:
                try:
                    test(**dict(zip(arguments, row.values, strict=True)), **others)
                except _FAILURES as error:
                    failed.append(row.told(error))
            _tell(failed, len(table))

        @functools.wraps(test)
        async def all_rows_in_a_loop(**others: Any) -> None:
            failed = []
            for row in table:
                try:
                    await test(**dict(zip(arguments, row.values, strict=True)), **others)
                except _FAILURES as error:
                    failed.append(row.told(error))
            _tell(failed, len(table))

        made = cast("Any", all_rows_in_a_loop if inspect.iscoroutinefunction(test) else all_rows)
        asked = inspect.signature(test)
        left = [one for one in asked.parameters.values() if one.name not in arguments]
        made.__signature__ = asked.replace(parameters=left)
        return cast("_Test", made)

    return through


@dataclass
class _Row:
    """The values of one row."""

    values: tuple[Any, ...]
    name: str = ""

    @classmethod
    def of(cls, row: Any, width: int) -> "_Row":
        """Take a row as it stands in a table: a value, some, or `pytest.param` of some without a mark."""
        if isinstance(row, _Param):
            assert not row.marks, "a mark is for a whole test"
            return cls(tuple(row.values), str(row.id or ""))
        return cls((row,) if width == 1 else tuple(row))

    def told(self, error: BaseException) -> BaseException:
        """Say in the error which row it was."""
        error.add_note(f"in the row {self.name or saferepr(self.values, maxsize=400)}")
        return error


def _tell(failed: list[BaseException], rows: int) -> None:
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} of {rows} rows", failed)
