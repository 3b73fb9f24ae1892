"""Examination: whether a store is whole, and whether what can be derived twice from it agrees.

Each database's own module looks at what is its own: the schema, and of a file whether it is whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from wakegate_schema.records import Epoch
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.progress import Step
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
    moved_to: str | None
    """Where the store was copied to; None for one that is in use."""
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
    """Bytes of the file, or of the database."""
    wal_size: int
    """Bytes of SQLite's WAL, 0 for none."""
    faults: list[Fault]
    content: Content | None
    """None when the file is damaged, so that nothing in it can be relied on."""


def examine(where: StoreLocation, *, step: Step) -> Examination:
    """Read all of a store, as it is at one moment, and say what is wrong with it.

    Args:
        where: a store, or an SQLite backup, which the caller has open as a `Store`.
        step: told what is looked at.

    Raises:
        StoreUnavailable: it cannot be read.
        StoreDenied: in PostgreSQL, the role may not make the schema that it is compared with.
    """
    if where.is_postgresql:
        from wakegate_schema.store.postgresql.examination import examine_postgresql

        return examine_postgresql(where, step)
    from wakegate_schema.setting_types import sqlite_path
    from wakegate_schema.store.sqlite.examination import examine_sqlite

    return examine_sqlite(sqlite_path(where.url), step)


def records(transaction: Transaction) -> Iterator[Fault]:
    """Derive again what can be derived twice, in whichever database."""
    for rule in _RULES:
        named = {"limit": MOST} | ({"released": epochs.RELEASED} if rule == "examine_histories" else {})
        for row in transaction.all(rule, named):
            yield Fault("invariant", row["subject"], row["fault"])
    given = {row["table"]: row["last"] for row in transaction.all("counters")}
    for row in transaction.all("ends"):
        if (last := given.get(row["table"], row["last"])) < row["last"]:
            yield Fault("invariant", row["table"], f"the next number would be {last + 1}, which is taken")


def compare(wanted: dict[str, str], found: dict[str, str]) -> Iterator[Fault]:
    """Compare what a database defines with what the migrations make: a missing trigger guards nothing."""
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            yield Fault("schema", name, "is missing")
        elif name not in wanted:
            yield Fault("schema", name, "is none of wakegate's")
        elif wanted[name] != found[name]:
            yield Fault("schema", name, "is not as the migrations make it")


def content(transaction: Transaction) -> Content:
    """Return what is in a store."""
    mark = transaction.first("backup_made_at")
    moved = transaction.first("moved_to")
    (counts,) = transaction.all("examine_counts")
    return Content(
        epochs.present(transaction),
        None if mark is None else mark["made_at"],
        None if moved is None else moved["to"],
        max(row["number"] for row in transaction.all("migrations_applied")),
        counts["executions"],
        counts["notifications"],
        counts["in_doubt"],
        counts["held"],
    )
