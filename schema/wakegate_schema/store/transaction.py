"""Named queries on one connection, as the verbs use them."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypeVar

from wakegate_schema.store.queries import rows

_T = TypeVar("_T")
_R = TypeVar("_R")

Row = sqlite3.Row
Params = Mapping[str, Any] | Sequence[Any]
Table = Sequence[Sequence[Any]]


class Transaction:
    """What a verb may do: run named queries. Beginning and committing is the engine's affair."""

    def __init__(self, connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
        """Take a connection and the queries of its dialect."""
        self._connection = connection
        self._queries = queries

    def run(self, statement: str) -> None:
        """Run one statement of a migration."""
        self._connection.execute(statement)

    def change(self, query: str, params: Params = ()) -> int:
        """Run a changing query; return how many rows it changed."""
        return self._connection.execute(self._queries[query], params).rowcount

    def change_rows(self, query: str, table: Table, *before: Any) -> int:
        """Run a changing query whose row placeholder stands for a batch; `before` fills what precedes it."""
        return self._connection.execute(rows(self._queries[query], len(table)), _flat(table, before)).rowcount

    def all(self, query: str, params: Params = ()) -> list[Row]:
        """Return every row of a query."""
        found: list[Row] = self._connection.execute(self._queries[query], params).fetchall()
        return found

    def all_rows(self, query: str, table: Table, *before: Any) -> list[Row]:
        """Return every row of a query whose row placeholder stands for a batch."""
        found: list[Row] = self._connection.execute(
            rows(self._queries[query], len(table)), _flat(table, before)
        ).fetchall()
        return found

    def first(self, query: str, params: Params = ()) -> Row | None:
        """Return the first row of a query, or None."""
        found: Row | None = self._connection.execute(self._queries[query], params).fetchone()
        return found


def _flat(table: Table, before: Sequence[Any]) -> list[Any]:
    return [*before, *(value for row in table for value in row)]


def each(verb: Callable[[Transaction, _T], _R]) -> Callable[[Transaction, Sequence[_T]], list[_R]]:
    """Make a verb over one item into a verb over a batch, one after the other."""

    @wraps(verb)
    def batch(tx: Transaction, items: Sequence[_T]) -> list[_R]:
        return [verb(tx, item) for item in items]

    return batch
