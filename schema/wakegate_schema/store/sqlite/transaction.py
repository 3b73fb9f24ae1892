"""Named queries on one connection to SQLite."""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from typing import Any

from wakegate_schema.store.batch_sizes import filled, parts
from wakegate_schema.store.queries import row, rows, takes_more
from wakegate_schema.store.texts import check_exact
from wakegate_schema.store.transaction import PAGE_ROWS, Params, Table

_NONE: Params = {}


class SqliteTransaction:
    """See `Transaction`. A batch of rows repeats a query's row placeholder."""

    def __init__(self, connection: sqlite3.Connection, queries: Mapping[str, str]) -> None:
        """Take a connection and the queries of its dialect."""
        self._connection = connection
        self._queries = queries

    def run(self, statement: str) -> None:
        """Run one statement of a migration."""
        self._connection.execute(statement)

    def change(self, query: str, params: Params = _NONE) -> int:
        """Run a changing query; return how many rows it changed."""
        check_exact(*params.values())
        return self._connection.execute(self._queries[query], params).rowcount

    def change_rows(self, query: str, table: Table, *before: Any) -> int:
        """Run a changing query that takes a batch of rows; `before` fills what precedes them."""
        text = self._queries[query]
        return sum(
            self._connection.execute(rows(text, len(part)), _flat(part, before)).rowcount
            for part in _statements(text, table)
        )

    def all(self, query: str, params: Params = _NONE) -> list[sqlite3.Row]:
        """Return every row of a query."""
        check_exact(*params.values())
        found: list[sqlite3.Row] = self._connection.execute(self._queries[query], params).fetchall()
        return found

    def all_rows(self, query: str, table: Table, *before: Any) -> list[sqlite3.Row]:
        """Return every row of a query that takes a batch of rows."""
        text = self._queries[query]
        found: list[sqlite3.Row] = []
        for part in _statements(text, table):
            found += self._connection.execute(rows(text, len(part)), _flat(part, before)).fetchall()
        return found

    def new_rows(self, query: str, table: Table) -> list[sqlite3.Row] | None:
        """Run a query that adds a batch of rows but for those that are there; return which it added, None for all.

        Asked afterwards, and only if not all were new: with RETURNING, Python's lock changes hands for every row, and
        the event loop has it meanwhile.
        """
        count = self.change_rows(query, table)
        return None if count == len(table) else self.all(f"{query}_latest", {"count": count})

    def first(self, query: str, params: Params = _NONE) -> sqlite3.Row | None:
        """Return the first row of a query, or None."""
        check_exact(*params.values())
        found: sqlite3.Row | None = self._connection.execute(self._queries[query], params).fetchone()
        return found

    def pages(self, query: str) -> Iterator[Table]:
        """Yield all that a query finds, page by page."""
        with closing(self._connection.cursor()) as cursor:
            cursor.row_factory = None
            cursor.execute(self._queries[query])
            while page := cursor.fetchmany(PAGE_ROWS):
                yield page

    def add_rows(self, query: str, table: Table) -> None:
        """Run a query that adds whole rows to a table."""
        self._connection.executemany(row(self._queries[query], len(table[0])), table)


def _statements(text: str, table: Table) -> Iterable[Table]:
    """Return the rows of a batch as a query takes them, in sizes in which it is prepared."""
    return [filled(table)] if takes_more(text) else parts(table)


def _flat(table: Table, before: Sequence[Any]) -> list[Any]:
    flat = [*before, *chain.from_iterable(table)]
    check_exact(*flat)
    return flat
