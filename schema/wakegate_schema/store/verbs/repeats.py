"""Repeats: what was asked for is on record already, and the answer promises it once more."""

from wakegate_schema.store.transaction import Transaction


def confirm(tx: Transaction) -> None:
    """Write something, so that this commit is waited for like any other.

    What a repeat finds may come from a commit whose wait for the synchronous standby was broken off, or is not over: it
    can be read and may yet be lost. A commit that writes nothing waits for no standby; one that does waits for
    everything before it.
    """
    tx.change("probe")
