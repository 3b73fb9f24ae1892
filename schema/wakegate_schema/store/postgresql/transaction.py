"""Named queries on one connection to PostgreSQL."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from psycopg.rows import DictRow, tuple_row

from wakegate_schema.store.postgresql.connection import PgConnection
from wakegate_schema.store.transaction import PAGE_ROWS, Params, Table

_NONE: Params = {}


class PostgresTransaction:
    """See `Transaction`. A batch of rows goes as one array for each column."""

    def __init__(self, connection: PgConnection, queries: Mapping[str, str]) -> None:
        """Take a connection and the queries of its dialect."""
        self._connection = connection
        self._queries = queries

    def run(self, statement: str) -> None:
        """Run one statement of a migration."""
        self._connection.execute(_trusted(statement))

    def change(self, query: str, params: Params = _NONE) -> int:
        """Run a changing query; return how many rows it changed."""
        return self._connection.execute(_trusted(self._queries[query]), params).rowcount

    def change_rows(self, query: str, table: Table, *before: Any) -> int:
        """Run a changing query that takes a batch of rows; `before` fills what precedes them."""
        return self._connection.execute(_trusted(self._queries[query]), _columns(table, before)).rowcount

    def all(self, query: str, params: Params = _NONE) -> list[DictRow]:
        """Return every row of a query."""
        return self._connection.execute(_trusted(self._queries[query]), params, binary=True).fetchall()

    def all_rows(self, query: str, table: Table, *before: Any) -> list[DictRow]:
        """Return every row of a query that takes a batch of rows."""
        return self._connection.execute(_trusted(self._queries[query]), _columns(table, before), binary=True).fetchall()

    def new_rows(self, query: str, table: Table) -> list[DictRow] | None:
        """Run a query that adds a batch of rows but for those that are there; return which it added."""
        return self.all_rows(query, table)

    def first(self, query: str, params: Params = _NONE) -> DictRow | None:
        """Return the first row of a query, or None."""
        return self._connection.execute(_trusted(self._queries[query]), params, binary=True).fetchone()

    def pages(self, query: str) -> Iterator[Table]:
        """Yield all that a query finds, page by page, from a cursor of the server's."""
        with self._connection.cursor("pages", row_factory=tuple_row) as cursor:
            cursor.execute(_trusted(self._queries[query]), binary=True)
            while page := cursor.fetchmany(PAGE_ROWS):
                yield page

    def add_rows(self, query: str, table: Table) -> None:
        """Run a query that adds whole rows to a table: a COPY from what is sent."""
        with self._connection.cursor() as cursor, cursor.copy(_trusted(self._queries[query])) as copy:
            for row in table:
                copy.write_row(row)


def _trusted(text: str) -> bytes:
    """Return SQL of our own files, which nothing was formatted into, as psycopg takes it."""
    return text.encode()


def _columns(table: Table, before: Sequence[Any]) -> list[Any]:
    return [*before, *(list(column) for column in zip(*table, strict=True))]
