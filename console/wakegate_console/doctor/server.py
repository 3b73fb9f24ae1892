"""The server: PostgreSQL under the store, looked at as the services would use it; nothing in a table is changed."""

import re
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Any, Final

import psycopg

from wakegate_console.doctor.facts import LIMIT_S, StoreLook, facts, first_needing, is_readable
from wakegate_console.doctor.finding import Said, problem, warning
from wakegate_console.doctor.server_look import COMMIT_S, ServerLook, Standby
from wakegate_console.doctor.ways import way
from wakegate_console.text import describe
from wakegate_schema import clock
from wakegate_schema.errors import WakegateError
from wakegate_schema.store.dialects import POSTGRESQL
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.postgresql.connection import PgConnection, connect, translate
from wakegate_schema.store.postgresql.transaction import PostgresTransaction
from wakegate_schema.store.queries import load, load_store

_QUICK_S: Final = "2"
_BEGIN: Final = (
    f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = '{LIMIT_S:g}s'".encode()
)
_BEGIN_COMMIT: Final = b"BEGIN READ WRITE; SET LOCAL synchronous_commit = on"

_OWNERS: Final = frozenset({"backup", "migration", "moved"})
"""Tables that only commands of whoever owns the store write to."""


def look_at_server(location: StoreLocation, now: int) -> StoreLook:
    """Look at a store in PostgreSQL, and at the server; see `facts.look`."""
    try:
        connection = _connected(location)
    except (WakegateError, psycopg.Error, OSError) as error:
        return StoreLook(None, _trouble(error, location), opened=False)
    try:
        with connection:
            return _look(connection, now)
    except (WakegateError, psycopg.Error, OSError) as error:
        return StoreLook(None, _trouble(error, location))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are made all the same
        failed = f"the look at the store itself failed: {type(error).__name__}"
        return StoreLook(None, problem(failed, "look at it with `wakegate db check`"), opened=False)


def _connected(location: StoreLocation) -> PgConnection:
    """Connect as the services do; where that finds no server that takes writes, to any."""
    try:
        return connect(location)
    except psycopg.OperationalError as error:
        try:
            return connect(location, target_session_attrs="any", connect_timeout=_QUICK_S)
        except psycopg.OperationalError:
            raise error from None


def _trouble(error: Exception, location: StoreLocation) -> Said:
    if isinstance(error, psycopg.errors.QueryCanceled):
        return warning(f"the store cannot be read within {LIMIT_S:g} s", "find out what is slow")
    if isinstance(error, WakegateError):
        return problem(describe(error), "put it right, or run this as a user that may read it")
    said = describe(translate(error, location))
    what, _, advice = said.rpartition("; see ")
    if what:
        return problem(what, f"see {advice}")
    return problem(said, "see that the server runs where WAKEGATE_DATABASE says, and that this host may connect to it")


def _look(connection: PgConnection, now: int) -> StoreLook:
    own = PostgresTransaction(connection, load("wakegate_schema", "sql/postgresql/doctor"))
    store = PostgresTransaction(connection, load_store(POSTGRESQL))
    skew, blur = _skew(own)
    connection.execute(_BEGIN)
    row = own.all("server")[0]
    applied, needing, known = frozenset[int](), None, None
    if row["has_store"]:
        applied = frozenset(each["number"] for each in store.all("migrations_applied"))
        needing = first_needing(store, applied, POSTGRESQL)
        known = facts(store, now) if is_readable(applied, needing, POSTGRESQL) else None
    lacking = _lacking({each["name"]: each for each in own.all("rights")}) if known else []
    standbys = [Standby(each["name"], each["role"]) for each in own.all("standbys")]
    connection.execute(b"ROLLBACK")
    commit_s, confirmed = (None, True) if row["standby"] else _commit(connection, own)
    info = connection.info
    server = ServerLook(
        row, way(info.host), bool(connection.pgconn.ssl_in_use), info.backend_pid != row["pid"], skew, blur,
        standbys, lacking, commit_s, confirmed,
    )  # fmt: skip
    return StoreLook(None, applied=applied, needing=needing, facts=known, server=server)


def _skew(own: PostgresTransaction) -> tuple[int, int]:
    """Return how far the server's clock is ahead, and how exactly that is known, µs."""
    before = clock.now()
    theirs = own.all("server_time")[0]["now"]
    blur = clock.now() - before
    return theirs - before - blur // 2, blur


def _commit(connection: PgConnection, own: PostgresTransaction) -> tuple[float, bool]:
    """Return how long a commit took, in seconds, and whether it was confirmed."""
    warned: list[str] = []
    connection.add_notice_handler(
        lambda notice: warned.append("") if notice.severity_nonlocalized == "WARNING" else None
    )
    connection.execute(_BEGIN_COMMIT)
    own.all("empty_commit")
    began = time.monotonic()
    cancel = threading.Timer(COMMIT_S, _cancel, [connection])  # no timeout of the server ends the wait for a standby
    cancel.daemon = True
    cancel.start()
    try:
        connection.execute(b"COMMIT")
    finally:
        cancel.cancel()
    return time.monotonic() - began, not warned


def _cancel(connection: PgConnection) -> None:
    with suppress(psycopg.Error):
        connection.cancel_safe(timeout=COMMIT_S)


@cache
def needed_rights() -> frozenset[tuple[str, str]]:
    """Return the right and the table of everything that services do, as their SQL and the schema's triggers say."""
    schema = files("wakegate_schema").joinpath("sql/postgresql/schema.sql").read_text(encoding="utf-8")
    tables = frozenset(re.findall(r"^CREATE TABLE (\w+)", schema, re.MULTILINE))
    blocks = [block for name, block in load_store(POSTGRESQL).items() if not name.startswith("migration")]
    found = {("SELECT", table) for table in tables}
    for text in (*blocks, *re.findall(r"\$\$(.*?)\$\$", schema, re.DOTALL)):
        changes = re.findall(r"\b(INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)", text)
        found |= {(verb.partition(" ")[0], table) for verb, table in changes}
        if "DO UPDATE" in text:
            found |= {("UPDATE", table) for verb, table in changes if verb.startswith("INSERT")}
    return frozenset(each for each in found if each[1] in tables - _OWNERS)


def _lacking(rights: Mapping[str, Any]) -> list[str]:
    return sorted(
        f"{right} on {table}" for right, table in needed_rights() if table in rights and not rights[table][right]
    )
