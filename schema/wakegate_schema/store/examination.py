"""Examination: whether a store is whole, and whether what can be derived twice from it agrees."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from wakegate_schema.records import Epoch
from wakegate_schema.store import migrations, wal
from wakegate_schema.store.queries import load
from wakegate_schema.store.sqlite import connect, translate
from wakegate_schema.store.transaction import Transaction
from wakegate_schema.store.verbs import epochs

MOST = 100
"""Faults of one kind that are told at most."""

_RULES = (
    "examine_last_states",
    "examine_histories",
    "examine_starts",
    "examine_wakes",
    "examine_groups",
    "examine_epochs",
)

Step = Callable[[str], None]
"""Told what is looked at next."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that must not be."""

    kind: str
    """`integrity`, `foreign_key`, `schema` or `invariant`."""
    subject: str
    """An execution id, or what the database calls it."""
    detail: str


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a store whose file is whole."""

    epoch: Epoch
    backup_made_at: int | None
    """When the file was made as a backup; None for a store."""
    migration: int
    """The number of the last one applied."""
    executions: int
    notifications: int
    in_doubt: int
    held: int
    """Executions that wait for a release."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found in a store."""

    size: int
    """Bytes of the file."""
    wal_size: int
    """Bytes of its WAL, 0 for none."""
    faults: list[Fault]
    content: Content | None
    """None when the file is damaged, so that nothing in it can be relied on."""


def examine(database: Path, *, step: Step) -> Examination:
    """Read all of a store, as it is at one moment, and say what is wrong with it.

    Args:
        database: a store's file, or a backup, which the caller has open as a `Store`.
        step: told what is looked at.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    try:
        with closing(connect(database, read_only=True)) as connection:
            connection.execute("BEGIN")
            faults, content = _examine(connection, step)
        return Examination(database.stat().st_size, wal.size(database), faults, content)
    except (sqlite3.Error, OSError) as error:
        raise translate(error, database) from error


def _examine(connection: sqlite3.Connection, step: Step) -> tuple[list[Fault], Content | None]:
    step("the file")
    faults = list(_integrity(connection))
    if any(fault.kind == "integrity" for fault in faults):
        return faults, None
    transaction = Transaction(connection, load("wakegate_schema", "sql/sqlite"))
    step("the schema")
    faults += _schema(transaction)
    step("the records")
    faults += _invariants(transaction)
    return faults, _content(transaction)


def _content(transaction: Transaction) -> Content:
    mark = transaction.first("backup_made_at")
    (counts,) = transaction.all("examine_counts")
    return Content(
        epochs.present(transaction),
        None if mark is None else mark["made_at"],
        max(row["number"] for row in transaction.all("migrations_applied")),
        counts["executions"],
        counts["notifications"],
        counts["in_doubt"],
        counts["held"],
    )


def _integrity(connection: sqlite3.Connection) -> Iterator[Fault]:
    try:
        lines = [row[0] for row in connection.execute(f"PRAGMA integrity_check({MOST})").fetchall()]
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        lines = [str(error)]  # so damaged that the check itself came to no end
    for line in lines:
        if line != "ok":
            yield Fault("integrity", "database", line)
        else:
            yield from _orphans(connection)


def _orphans(connection: sqlite3.Connection) -> Iterator[Fault]:
    for table, row, parent, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(MOST):
        yield Fault("foreign_key", table, f"row {row} names something that is not in {parent}")


def _schema(transaction: Transaction) -> Iterator[Fault]:
    """Compare what the database defines with what the migrations make: a missing trigger guards nothing."""
    wanted, found = _made(), _objects(transaction)
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            yield Fault("schema", name, "is missing")
        elif name not in wanted:
            yield Fault("schema", name, "is none of wakegate's")
        elif wanted[name] != found[name]:
            yield Fault("schema", name, "is not as the migrations make it")


def _made() -> dict[str, str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        transaction = Transaction(connection, load("wakegate_schema", "sql/sqlite"))
        transaction.run(migrations.LEDGER)
        for _, script in migrations.available().values():
            for statement in script:
                transaction.run(statement)
        return _objects(transaction)


def _objects(transaction: Transaction) -> dict[str, str]:
    """Return everything a database defines: name → its SQL, white space folded."""
    return {row["name"]: re.sub(r"\s+", " ", row["sql"].strip()) for row in transaction.all("examine_schema")}


def _invariants(transaction: Transaction) -> Iterator[Fault]:
    for rule in _RULES:
        named = {"limit": MOST} | ({"released": epochs.RELEASED} if rule == "examine_histories" else {})
        for row in transaction.all(rule, named):
            yield Fault("invariant", row["subject"], row["fault"])
