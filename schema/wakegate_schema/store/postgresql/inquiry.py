"""An operator's own query in PostgreSQL: a cursor in a transaction that only reads.

A cursor is declared for a SELECT or VALUES and for nothing else; the server refuses two statements in one, and whatever
a function in it would change.
"""

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from wakegate_schema.store.errors import QueryRefused
from wakegate_schema.store.inquiry import Answer
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.postgresql.connection import connect, translate

_BEGIN: Final = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_TIMEOUT: Final = b"SELECT set_config('statement_timeout', %s, true)"
"""A first query too: after it, nothing makes the transaction one that writes."""
_PAGE: Final = 500


@contextmanager
def query_postgresql(location: StoreLocation, text: str, seconds: float) -> Iterator[Answer]:
    """Run one reading statement in a database. See `inquiry.query`."""
    try:
        with closing(connect(location)) as connection:
            connection.execute(_BEGIN)
            connection.execute(_TIMEOUT, (str(max(1, int(seconds * 1000))),))
            with connection.cursor("query", row_factory=tuple_row) as cursor:
                cursor.execute(text.encode())
                columns = tuple(each.name for each in cursor.description or ())
                yield Answer(columns, _rows(cursor, time.monotonic() + seconds, seconds))
            connection.execute(b"ROLLBACK")
    except (psycopg.Error, UnicodeError, OSError) as error:
        raise _refusal(error, seconds) or translate(error, location) from error


def _rows(cursor: psycopg.ServerCursor[Any], ends_at: float, seconds: float) -> Iterator[tuple[Any, ...]]:
    while page := cursor.fetchmany(_PAGE):
        if time.monotonic() > ends_at:
            raise _too_long(seconds)
        yield from page


def _refusal(error: Exception, seconds: float) -> QueryRefused | None:
    """Return what is wrong with the query; None when it is the store."""
    if isinstance(error, errors.QueryCanceled):
        return _too_long(seconds)
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return QueryRefused("the query does more than read; nothing was changed")
    if isinstance(error, psycopg.OperationalError) or not isinstance(error, psycopg.Error | UnicodeError):
        return None
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    only = "; SELECT, VALUES and WITH … SELECT can" if isinstance(error, errors.SyntaxError) else ""
    return QueryRefused(f"the query cannot be run: {said or error}{only}")


def _too_long(seconds: float) -> QueryRefused:
    return QueryRefused(f"the query took over {seconds:g} s; ask for less, or give it longer by --timeout")
