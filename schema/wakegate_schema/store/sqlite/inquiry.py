"""An operator's own query in SQLite, which refuses whatever does more than read."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from wakegate_schema.store.errors import QueryRefused
from wakegate_schema.store.inquiry import Answer
from wakegate_schema.store.sqlite.connection import connect, translate

_READING: Final = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)
_STEPS: Final = 10_000
"""Instructions of SQLite between two looks at the clock: some milliseconds."""


@contextmanager
def query_sqlite(database: Path, text: str, seconds: float) -> Iterator[Answer]:
    """Run one reading statement in a file. See `inquiry.query`."""
    ends_at = time.monotonic() + seconds
    try:
        with closing(connect(database, read_only=True)) as connection:
            connection.row_factory = None
            connection.set_authorizer(_authorize)
            connection.set_progress_handler(lambda: time.monotonic() > ends_at, _STEPS)
            cursor = connection.execute(text)
            if cursor.description is None:
                raise QueryRefused("there is no SELECT or VALUES in it")
            yield Answer(tuple(each[0] for each in cursor.description), cursor)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _refusal(error, seconds) or translate(error, database) from error


def _authorize(action: int, _first: str | None, second: str | None, *_: Any) -> int:
    extends = action == sqlite3.SQLITE_FUNCTION and second == "load_extension"
    return sqlite3.SQLITE_OK if action in _READING and not extends else sqlite3.SQLITE_DENY


def _refusal(error: Exception, seconds: float) -> QueryRefused | None:
    """Return what is wrong with the query; None when it is the store."""
    code = getattr(error, "sqlite_errorcode", None)
    if code == sqlite3.SQLITE_INTERRUPT:
        return QueryRefused(f"the query took over {seconds:g} s; ask for less, or give it longer by --timeout")
    if code == sqlite3.SQLITE_AUTH or str(error) == "not authorized":
        return QueryRefused("the query does more than read; nothing was changed")
    if code in (None, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_RANGE, sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_TOOBIG):
        return QueryRefused(f"the query cannot be run: {error}")
    return None
