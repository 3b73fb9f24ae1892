"""One moment of a store in PostgreSQL, to be read as a whole."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import psycopg

from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.postgresql.connection import connect, translate
from wakegate_schema.store.postgresql.transaction import PostgresTransaction
from wakegate_schema.store.queries import load_store

_BEGIN: Final = (
    b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
    b"SET LOCAL statement_timeout = 0;"
    b"SET LOCAL row_security = off;"  # nothing is left out unseen
    b"SET LOCAL idle_in_transaction_session_timeout = 0"
)


@contextmanager
def postgresql_snapshot(location: StoreLocation) -> Iterator[PostgresTransaction]:
    """Read a database as it is now, however long it takes; whoever writes meanwhile is not held up.

    Raises `StoreUnavailable` when it cannot be read, `StoreOutdated` when there are no tables.
    """
    try:
        with closing(connect(location)) as connection:
            connection.execute(_BEGIN)
            transaction = PostgresTransaction(connection, load_store(POSTGRESQL))
            transaction.all("migrations_applied")  # a snapshot is taken by the first read
            yield transaction
    except psycopg.Error as error:
        raise translate(error, location) from error
