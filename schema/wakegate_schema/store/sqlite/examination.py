"""Examining a store in SQLite: its file and its schema, and then the records, as in any database."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from wakegate_schema.store import examination, migrations
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.examination import MOST, Content, Examination, Fault
from wakegate_schema.store.progress import Step
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite import wal
from wakegate_schema.store.sqlite.connection import connect, translate
from wakegate_schema.store.sqlite.transaction import SqliteTransaction
from wakegate_schema.store.transaction import Transaction


def examine_sqlite(database: Path, step: Step) -> Examination:
    """Examine a file. See `examination.examine`."""
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
    transaction = SqliteTransaction(connection, load_store(SQLITE))
    step("the schema")
    faults += examination.compare(_made(), _objects(transaction))
    step("the records")
    faults += examination.records(transaction)
    return faults, examination.content(transaction)


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


def _made() -> dict[str, str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        transaction = SqliteTransaction(connection, load_store(SQLITE))
        migrations.apply(transaction, 0, SQLITE)
        return _objects(transaction)


def _objects(transaction: Transaction) -> dict[str, str]:
    """Return everything a database defines: name → its SQL, white space folded."""
    return {row["name"]: re.sub(r"\s+", " ", row["sql"].strip()) for row in transaction.all("examine_schema")}
