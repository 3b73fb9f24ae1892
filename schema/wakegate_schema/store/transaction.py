"""Named queries on one connection, as the verbs use them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


class Row(Protocol):
    """A row of a result, by the names of its columns."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the value of a column."""


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

    def first(self, query: str, params: Params = ...) -> Row | None:
        """Return the first row of a query, or None."""

    def pages(self, query: str) -> Iterator[Table]:
        """Yield all that a query finds, a bounded number of rows at a time; needs a transaction that was begun."""

    def add_rows(self, query: str, table: Table) -> None:
        """Run a query that adds whole rows to a table."""


def each(verb: Callable[[Transaction, _T], _R]) -> Callable[[Transaction, Sequence[_T]], list[_R]]:
    """Make a verb over one item into a verb over a batch, one after the other."""

    @wraps(verb)
    def batch(tx: Transaction, items: Sequence[_T]) -> list[_R]:
        return [verb(tx, item) for item in items]

    return batch
