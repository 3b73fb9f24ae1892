"""PostgreSQL as the store's engine: every commit synced, here and on the synchronous standbys; writers take turns.

Everything holds for one transaction: locks, timeouts, durability. So a pooler may give each transaction another
session, and a cut connection leaves nothing behind.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

import psycopg
from psycopg import pq
from psycopg.rows import DictRow

from wakegate_schema.store import shut
from wakegate_schema.store.errors import StoreUnavailable
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.postgresql.connection import PgConnection, connect, translate
from wakegate_schema.store.postgresql.fitness import unfit
from wakegate_schema.store.postgresql.transaction import PostgresTransaction
from wakegate_schema.store.transaction import Transaction

TURN_S: Final = 8
"""Seconds to wait for the turn: less than a caller waits, so that it is told why."""
IDLE_S: Final = 5
"""Seconds after which the server ends a transaction whose client was stopped or cut off, and takes its turn back.

Less than others wait for the turn, so that they only wait. Who was stopped finds its connection ended: nothing of what
it was about to commit is there, and nothing was promised.
"""
TURN: Final = "2003135333, COALESCE(CAST(CAST(to_regclass('migration') AS oid) AS integer), hashtext(current_schema()))"
"""The two numbers of the lock: that it is wakegate's ("wake" in ASCII), and which store's: that of the tables that this
role finds, or of the schema in which it is to make them.

The first schema of its search path is not enough: a role may have one of its own name there, and must not have a turn
of its own for it.
"""
_BEGIN: Final = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
    f"SET LOCAL lock_timeout = '{TURN_S}s';"
    f"SET LOCAL idle_in_transaction_session_timeout = '{IDLE_S}s';"
    "SET LOCAL statement_timeout = 0;"  # else it may end the wait for a standby, and the commit looks like one
    "SET LOCAL synchronous_commit = on;"
    "SET LOCAL array_nulls = on;"  # else a NULL of a batch may be the text "NULL"
    "SET LOCAL client_min_messages = warning;"  # else the warning that a standby was not waited for may be kept back
    "SET LOCAL row_security = off;"  # else rows that a policy hides, as the one that shuts the store, are not there
    "SELECT pg_advisory_xact_lock{shared}({turn})"
)
"""One message."""
_FIRST: Final = ";SAVEPOINT verb"
"""Of the first verb; most transactions have no other. COMMIT lets go of it."""
_LONG: Final = ";SET LOCAL idle_in_transaction_session_timeout = 0"
_ALONE: Final = (_BEGIN.format(shared="", turn=TURN) + _FIRST).encode()
_BESIDE: Final = (_BEGIN.format(shared="_shared", turn=TURN) + _FIRST).encode()
_MAINTAINING: Final = (_BEGIN.format(shared="", turn=TURN) + _LONG + _FIRST).encode()


class PostgresSavepoint:
    """See `Savepoint`."""

    def __init__(self, transaction: Transaction) -> None:
        """Take the transaction that the savepoint was set in."""
        self._transaction = transaction

    def undo(self) -> None:
        """Take back everything since the savepoint."""
        self._transaction.run("ROLLBACK TO SAVEPOINT verb")


class PostgresEngine:
    """See `Engine`."""

    def __init__(self, location: StoreLocation, queries: Mapping[str, str], *, maintaining: bool = False) -> None:
        """Take where the store is and the dialect's named queries.

        Args:
            location: of the store.
            queries: the dialect's.
            maintaining: work on a store that is shut, or not there yet, too, and as long as it takes.
        """
        self._location = location
        self._queries = queries
        self._maintaining = maintaining
        self._connection: PgConnection | None = None
        self._untouched = False
        """Whether nothing has been done since the savepoint that the transaction began with."""
        self._warnings: list[str] = []

    @contextmanager
    def transaction(self, *, alone: bool = True) -> Iterator[Transaction]:
        """Begin, wait for the turn, commit; roll back on any error. See `Engine.transaction`."""
        try:
            connection = self._begin(alone)
            self._untouched = True
            yield PostgresTransaction(connection, self._queries)
            self._commit(connection)
        except BaseException as error:
            self._recover()
            if not isinstance(error, Exception):
                raise
            translated = self.translate(error)
            if translated is error:
                raise
            raise translated from error

    @contextmanager
    def savepoint(self, transaction: Transaction) -> Iterator[PostgresSavepoint]:
        """Set a savepoint inside the running transaction."""
        if not self._untouched:
            transaction.run("RELEASE SAVEPOINT verb; SAVEPOINT verb")
        self._untouched = False
        yield PostgresSavepoint(transaction)

    def translate(self, error: Exception) -> Exception:
        """Turn a driver's error into ours; leave anything else as it is."""
        return translate(error, self._location)

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection = None

    def _begin(self, alone: bool) -> PgConnection:
        """Begin. A connection that was cut while it lay idle is made anew: nothing has happened yet.

        What shuts the store is looked at once it is this transaction's turn: who has it open is shut out as well.
        """
        begin, look = _ALONE if alone else _BESIDE, "store_shut"
        if self._maintaining:
            begin, look = _MAINTAINING, "store_unfit"
        message = b";".join((begin, self._queries[look].encode()))
        if self._connection is not None:
            try:
                begun = self._connection.execute(message)
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
                self.close()
            else:
                self._refuse_shut(begun)
                return self._connection
        self._connection = connect(self._location)
        self._connection.add_notice_handler(self._noticed)
        self._refuse_shut(self._connection.execute(message))
        return self._connection

    def _refuse_shut(self, begun: psycopg.Cursor[DictRow]) -> None:
        while begun.nextset():
            pass
        if not begun.rowcount or (row := begun.fetchone()) is None:
            return
        if self._maintaining:
            raise unfit(self._location, row["what"], row["name"])
        raise shut.refusal(row["what"], self._location.url, row["name"])

    def _commit(self, connection: PgConnection) -> None:
        """Commit. Only COMMIT without a warning is a promise.

        A wait for a synchronous standby that somebody ended comes back as a commit with a warning.
        """
        self._warnings.clear()
        answer = connection.execute(b"COMMIT").statusmessage
        if answer != "COMMIT" or self._warnings:
            self.close()
            raise StoreUnavailable(
                f"the store at {self._location.url} did not confirm a commit:"
                f" {'; '.join(self._warnings) or answer}; whether it holds is not known",
                reason="commit_unconfirmed",
            )

    def _noticed(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self._warnings.append(notice.message_primary or "a warning")

    def _recover(self) -> None:
        """Roll back; where that does not work, the server does so when the connection ends."""
        connection = self._connection
        if connection is None:
            return
        if not connection.closed and connection.info.transaction_status != pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                connection.execute(b"ROLLBACK")
        if connection.closed or connection.info.transaction_status != pq.TransactionStatus.IDLE:
            self.close()
