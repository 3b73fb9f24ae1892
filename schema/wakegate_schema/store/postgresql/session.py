"""A connection to PostgreSQL that only reads."""

from collections.abc import Mapping
from contextlib import suppress

import psycopg

from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.postgresql.connection import PgConnection, connect, translate
from wakegate_schema.store.postgresql.transaction import PostgresTransaction


class PostgresSession:
    """See `ReadSession`: each statement is a transaction of its own."""

    def __init__(self, location: StoreLocation, queries: Mapping[str, str]) -> None:
        """Take where the store is and the dialect's named queries."""
        self._location = location
        self._queries = queries
        self._connection: PgConnection | None = None

    def transaction(self) -> PostgresTransaction:
        """Return what reading verbs run on."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._location)
        return PostgresTransaction(self._connection, self._queries)

    def translate(self, error: Exception) -> Exception:
        """Turn a driver's error into ours; leave anything else as it is."""
        return translate(error, self._location)

    def is_cut_off(self, error: Exception) -> bool:
        """Return whether the connection was lost: reading again does no harm."""
        return isinstance(error, psycopg.OperationalError)

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection = None
