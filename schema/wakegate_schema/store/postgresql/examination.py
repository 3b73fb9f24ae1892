"""Examining a store in PostgreSQL: its schema, and then the records, as in any database.

What the migrations make is made beside the store, in a schema of its own, and taken back: nobody ever sees it. Whether
the server's files are whole, its own tools say (pg_amcheck, data checksums).
"""

import secrets
from contextlib import closing
from typing import Final

import psycopg
from psycopg import errors, sql

from wakegate_schema.store import examination, migrations
from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.errors import StoreDenied
from wakegate_schema.store.examination import Content, Examination, Fault
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.postgresql.connection import PgConnection, connect, translate
from wakegate_schema.store.postgresql.transaction import PostgresTransaction
from wakegate_schema.store.progress import Step
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.transaction import Transaction

_BEGIN: Final = (
    b"BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE;"
    b"SET LOCAL statement_timeout = 0;"
    b"SET LOCAL row_security = off;"
    b"SET LOCAL idle_in_transaction_session_timeout = 0"
)


def examine_postgresql(location: StoreLocation, step: Step) -> Examination:
    """Examine a database. See `examination.examine`."""
    try:
        with closing(connect(location)) as connection:
            connection.execute(_BEGIN)
            transaction = PostgresTransaction(connection, load_store(POSTGRESQL))
            size, faults, content = _examine(connection, transaction, step)
            connection.execute(b"ROLLBACK")
        return Examination(size, 0, faults, content)
    except errors.InsufficientPrivilege as error:
        raise StoreDenied(
            f"the role at {location.url} may not make a schema beside the store to compare it with (nothing of it would"
            " stay): run this as the database's owner, or grant it CREATE on the database"
        ) from error
    except (psycopg.Error, OSError) as error:
        raise translate(error, location) from error


def _examine(connection: PgConnection, transaction: Transaction, step: Step) -> tuple[int, list[Fault], Content]:
    step("the records")
    (size,) = transaction.all("database_size")
    faults, content = list(examination.records(transaction)), examination.content(transaction)
    step("the schema")
    found = _objects(transaction)
    _enter(connection)
    migrations.apply(transaction, 0, POSTGRESQL)
    return size["bytes"], [*examination.compare(_objects(transaction), found), *faults], content


def _enter(connection: PgConnection) -> None:
    """Make an empty schema and work in it until this transaction ends."""
    name = sql.Identifier(f"wakegate_check_{secrets.token_hex(8)}")
    connection.execute(sql.SQL("CREATE SCHEMA {}").format(name))
    connection.execute(sql.SQL("SET LOCAL search_path = {}, pg_temp").format(name))


def _objects(transaction: Transaction) -> dict[str, str]:
    """Return everything the current schema defines: name → what it is."""
    return {row["name"]: row["sql"] for row in transaction.all("examine_schema")}
