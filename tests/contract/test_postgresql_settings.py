"""What is in force in the transactions of a store in PostgreSQL: durability and guards, whatever the defaults are."""

from collections.abc import Sequence

from wakegate_schema.store import Store
from wakegate_schema.store.transaction import Transaction

WRITING = {
    "array_nulls": "on",
    "client_encoding": "UTF8",
    "client_min_messages": "warning",
    "idle_in_transaction_session_timeout": "5s",
    "lock_timeout": "8s",
    "row_security": "off",
    "statement_timeout": "0",
    "synchronous_commit": "on",
    "transaction_isolation": "read committed",
    "transaction_read_only": "off",
}
"""All of it is set by each transaction for itself, so that it holds behind a pooler too."""
READING = {"client_encoding": "UTF8", "application_name": "wakegate", "transaction_isolation": "read committed"}


def in_force(tx: Transaction, names: Sequence[str]) -> dict[str, str]:
    """Ask the session that a verb runs in."""
    shown = (tx._connection.execute(f"SHOW {name}").fetchone() for name in names)  # type: ignore[attr-defined]
    return {name: row[name] for name, row in zip(names, shown, strict=True)}


async def test_every_commit_is_confirmed_and_nobody_is_waited_for_without_end(store: Store) -> None:
    found = await store._writer.do(lambda tx, items: [in_force(tx, list(WRITING)) for _ in items], None)
    assert found == WRITING
    assert await store._reader.read(in_force, list(READING)) == READING
