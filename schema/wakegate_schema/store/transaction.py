"""Named queries on one connection, as the verbs use them."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


class Row(Protocol):
    """A row of a result, by the names of its columns."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the value of a column."""

    def keys(self) -> Iterable[str]:
        """Return the names of the columns, in their order."""


Params = Mapping[str, Any]
Table = Sequence[Sequence[Any]]

PAGE_ROWS = 500
"""The most rows in a page: of the largest that there may be, they still fit into memory."""


class Transaction(Protocol):
    """What a verb may do: run named queries. Beginning and committing is the engine's affair."""

    def run(self, statement: str) -> None:
        """Run one statement of a migration."""

    def change(self, query: str, params: Params = ...) -> int:
        """Run a changing query; return how many rows it changed."""

    def change_rows(self, query: str, table: Table, *before: Any) -> int:
        """Run a changing query that takes a batch of rows; `before` fills what precedes them."""

    def all(self, query: str, params: Params = ...) -> Sequence[Row]:
        """Return every row of a query."""

    def all_rows(self, query: str, table: Table, *before: Any) -> Sequence[Row]:
        """Return every row of a query that takes a batch of rows."""

    def new_rows(self, query: str, table: Table) -> Sequence[Row] | None:
        """Run a query that adds a batch of rows but for those that are there; return which it added, None for all."""

    def first(self, query: str, params: Params = ...) -> Row | None:
        """Return the first row of a query, or None."""

    def pages(self, query: str) -> Iterator[Table]:
        """Yield all that a query finds, a bounded number of rows at a time; needs a transaction that was begun."""

    def add_rows(self, query: str, table: Table) -> None:
        """Run a query that adds whole rows to a table."""


_Batch = Callable[[Transaction, Sequence[_T]], list[_R]]


def each(verb: Callable[[Transaction, _T], _R]) -> _Batch[_T, _R]:
    """Make a verb over one item into a verb over a batch, one after the other."""

    @wraps(verb)
    def batch(tx: Transaction, items: Sequence[_T]) -> list[_R]:
        return [verb(tx, item) for item in items]

    return batch


def by(key: Callable[[Any], Hashable]) -> Callable[[_Batch[_T, _R]], _Batch[_T, _R]]:
    """Make a verb over a batch in which nothing comes twice into one over any batch, in the order of its items.

    Args:
        key: names what an item is about. The verb is given item after item, up to the first that is about the same as
            one before it; the rest follows when that is done.
    """

    def decorate(verb: _Batch[_T, _R]) -> _Batch[_T, _R]:
        @wraps(verb)
        def batch(tx: Transaction, items: Sequence[_T]) -> list[_R]:
            answers: list[_R] = []
            for part in _without_repeats(items, key):
                answers += verb(tx, part)
            return answers

        return batch

    return decorate


def _without_repeats(items: Sequence[_T], key: Callable[[Any], Hashable]) -> Iterator[Sequence[_T]]:
    seen, begin = set[Hashable](), 0
    for place, name in enumerate(map(key, items)):
        if name in seen:
            yield items[begin:place]
            seen, begin = set(), place
        seen.add(name)
    yield items[begin:] if begin else items
