"""The provider, killed inside the transaction of one of its statements, or between its commit and its answer.

`dying_provider.py written:QUERY` kills it when the statement has run and is not committed, `committed:QUERY` when its
transaction is on disk and nobody has been told.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from wakegate_provider.__main__ import main
from wakegate_provider.store import ProviderStore, Value

WHEN, _, QUERY = sys.argv[1].partition(":")
ran = False
plain_run, plain_transaction = ProviderStore.run, ProviderStore.transaction


def die() -> None:
    """Be gone at once, as after kill -9."""
    os.kill(os.getpid(), signal.SIGKILL)


def run(store: ProviderStore, query: str, /, **values: Value) -> int:
    """Run a statement; die if it is the one."""
    global ran
    changed = plain_run(store, query, **values)
    ran = ran or (query == QUERY and changed > 0)
    if ran and WHEN == "written":
        die()
    return changed


@contextmanager
def transaction(store: ProviderStore) -> Iterator[None]:
    """Make a transaction; die once that of the statement is committed."""
    with plain_transaction(store):
        yield
    if ran:
        die()


if __name__ == "__main__":
    setattr(ProviderStore, "run", run)  # noqa: B010
    setattr(ProviderStore, "transaction", transaction)  # noqa: B010
    sys.exit(main())
