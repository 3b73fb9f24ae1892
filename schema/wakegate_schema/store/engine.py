"""The engine: the database under a store, whichever it is."""

from contextlib import AbstractContextManager
from typing import Protocol

from wakegate_schema.store.transaction import Transaction


class Savepoint(Protocol):
    """A place in a transaction to go back to."""

    def undo(self) -> None:
        """Take back everything since the savepoint."""


class Engine(Protocol):
    """One connection for writing, opened by the first transaction and again after the database was unreachable."""

    def transaction(self, *, alone: bool = True) -> AbstractContextManager[Transaction]:
        """Wait for the store's turn, begin, commit; roll back on any error.

        Args:
            alone: nobody else's transaction runs meanwhile. Else those run beside it that are not alone either, where
                the database can do that.

        Raises:
            Collided: it was not alone and came in another's way; nothing was committed. Do it again, alone.
            StoreUnavailable: nothing was committed, or the commit's answer was lost.
        """

    def savepoint(self, transaction: Transaction) -> AbstractContextManager[Savepoint]:
        """Set a savepoint inside the running transaction."""

    def translate(self, error: Exception) -> Exception:
        """Turn a driver's error into ours; leave anything else as it is."""

    def close(self) -> None:
        """Let go of the database."""


class ReadSession(Protocol):
    """One connection that only reads, for one thread, opened by the first read and again after trouble.

    No read outlives its statement: each sees all that was committed before it.
    """

    def transaction(self) -> Transaction:
        """Return what reading verbs run on: the connection to the database that is there now."""

    def translate(self, error: Exception) -> Exception:
        """Turn a driver's error into ours; leave anything else as it is."""

    def is_cut_off(self, error: Exception) -> bool:
        """Return whether the connection was lost, which it may have been for long: a new one may serve."""

    def close(self) -> None:
        """Let go of the database."""
