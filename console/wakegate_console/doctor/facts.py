"""Facts: what is in the store, read as it is at one moment; of SQLite's file by a connection that changes none."""

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wakegate_console.doctor.finding import Said, problem, warning
from wakegate_console.doctor.server_look import ServerLook
from wakegate_console.text import describe
from wakegate_schema.clock import DAY
from wakegate_schema.errors import WakegateError
from wakegate_schema.records import (
    Anomaly,
    Census,
    ClockMark,
    Epoch,
    Instance,
    MissingTool,
    RegisteredWorker,
    Registration,
)
from wakegate_schema.store.dialects import SQLITE, Dialect
from wakegate_schema.store.location import StoreLocation
from wakegate_schema.store.migrations import available
from wakegate_schema.store.opening import require_extra
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite import interruption, placement
from wakegate_schema.store.sqlite.backup_mark import is_marked
from wakegate_schema.store.sqlite.connection import translate
from wakegate_schema.store.sqlite.file import wal_path
from wakegate_schema.store.sqlite.presence import Presence
from wakegate_schema.store.sqlite.transaction import SqliteTransaction
from wakegate_schema.store.sqlite.wal import size
from wakegate_schema.store.transaction import Transaction
from wakegate_schema.store.verbs import (
    adoptions,
    anomalies,
    census,
    clocks,
    epochs,
    groups,
    instances,
    registrations,
    workers,
)

LIMIT_S: Final = 8.0
"""How long one reading of the store may take, in seconds."""
BUSY_S: Final = 2.0
HELD_MOST: Final = 1000
_STEPS: Final = 10_000
"""Instructions of SQLite's machine between two looks at the time."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is on record. Times are µs since the Unix epoch."""

    epoch: Epoch
    held: int
    """Executions that wait for a release, up to `HELD_MOST`."""
    marks: Sequence[ClockMark]
    registrations: Sequence[Registration]
    instances: Sequence[Instance]
    census: Census
    problems: Mapping[str, int]
    """Unresolved executions by what keeps them from going on."""
    tools: Mapping[str, int]
    """Unresolved executions that a worker is to run, by tool."""
    workers: Sequence[RegisteredWorker]
    """Those that live, and those that fell silent lately."""
    missing: Sequence[MissingTool]
    """Tools that undecided calls name and no living worker has."""
    resumers: Mapping[str, int]
    """Adopted requests whose framework no living worker can resume, by framework."""
    consuming: frozenset[str]
    """Providers that have shown that they know consumption."""
    unreported_since: int | None
    """Since when the provider of a consumed call is owed the word of its outcome, the oldest first."""
    targets: Mapping[str, int]
    """Wakes that are owed and calls that will owe one, by the target's name."""
    stuck_groups: int
    """Groups whose calls are all resolved, and that their harness has not sealed."""
    anomalies: Sequence[Anomaly]
    """Those of the last day."""
    moved: str | None = None
    """The store that this one was copied to and closed for; None where it is in use."""


@dataclass(frozen=True, slots=True)
class StoreLook:
    """What came of looking at the store."""

    path: Path | None
    """SQLite's file; None for a store in PostgreSQL."""
    trouble: Said | None = None
    """Why nothing could be read; None where something was."""
    opened: bool = True
    """Whether it was worth an attempt: a store lies there, and nothing forbids to open it."""
    in_use: bool = False
    """Whether a WAL with its index lies beside it: somebody has it open, or died with it open."""
    journal_mode: str | None = None
    """What is in force; None where nobody has the store open."""
    applied: frozenset[int] = frozenset()
    """The migrations it has."""
    needing: int | None = None
    """The first of them that a newer program is needed for, if there is one."""
    facts: Facts | None = None
    server: ServerLook | None = None
    """PostgreSQL, if the store is there and it let us in."""


def look(location: StoreLocation, now: int) -> StoreLook:
    """Look at the store, whatever state it is in.

    Args:
        location: where it is.
        now: µs.
    """
    if location.file is not None:
        return look_at_file(location.file.absolute(), now)
    try:
        require_extra()
    except WakegateError as error:
        return StoreLook(None, problem(str(error), "install it where this and the services run"), opened=False)
    from wakegate_console.doctor.server import look_at_server

    return look_at_server(location, now)


def look_at_file(path: Path, now: int) -> StoreLook:
    """Look at a store in SQLite; see `look`."""
    try:
        trouble = _obstacle(path)
        return _read(path, now) if trouble is None else StoreLook(path, trouble, opened=False)
    except (WakegateError, OSError, sqlite3.Error, UnicodeDecodeError) as error:
        if "interrupted" in str(error):
            return StoreLook(path, warning(f"the store cannot be read within {LIMIT_S:g} s", "find out what is slow"))
        advice = "see to it that this user may read the store, and look at it with `wakegate db check`"
        return StoreLook(path, problem(describe(translate(error, path)), advice))
    except Exception as error:  # noqa: BLE001 - whatever it is, the other checks are made all the same
        failed = f"the look at the store itself failed: {type(error).__name__}"
        return StoreLook(path, problem(failed, "look at it with `wakegate db check`"), opened=False)


@contextmanager
def reading(path: Path, limit_s: float = LIMIT_S) -> Iterator[sqlite3.Connection]:
    """Give a connection that can only read and leaves no file behind; what takes longer than the limit is interrupted.

    Beside a WAL with its index it reads as everybody does. Without an index nobody has the store open: then nothing is
    locked, because SQLite would make both only to read.
    """
    quiet = not _index(path).exists()
    address = f"{path.resolve().as_uri()}?mode=ro{'&immutable=1' if quiet else ''}"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=BUSY_S)) as connection:
        until = time.monotonic() + limit_s
        connection.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
        connection.row_factory = sqlite3.Row
        yield connection


def _obstacle(path: Path) -> Said | None:
    """Return why the store cannot be looked into at all."""
    try:
        if not path.exists():
            interruption.refuse(path)
            return problem(f"there is no store at {path}", "start a service, or run `wakegate db migrate`, to make one")
        interruption.refuse(path)
        placement.check(path)
        if is_marked(path):
            return problem(f"{path} is a backup; nothing works on it", f"run `wakegate db restore {path}`")
        if size(path) and not _index(path).exists():
            return problem(
                f"{wal_path(path)} lies there without its index, as after a copy: to look into it would make that",
                "start a service, which takes it in, and run this again",
            )
    except WakegateError as error:
        return problem(str(error), "do as it says; docs/errors.md explains the rest")
    except (OSError, ValueError) as error:
        return problem(f"the store cannot be looked at: {describe(error)}", "run this as a user that may read it")
    return None


def _read(path: Path, now: int) -> StoreLook:
    in_use = _index(path).exists()
    presence = _presence(path)
    try:
        with reading(path) as connection:
            transaction = SqliteTransaction(connection, load_store(SQLITE))
            connection.execute("BEGIN")
            applied = _applied(transaction)
            mode = connection.execute("PRAGMA journal_mode").fetchone()[0] if in_use else None
            needing = first_needing(transaction, applied, SQLITE)
            return StoreLook(
                path,
                in_use=in_use,
                journal_mode=mode,
                applied=applied,
                needing=needing,
                facts=facts(transaction, now) if is_readable(applied, needing, SQLITE) else None,
            )
    finally:
        if presence is not None:
            presence.close()


def _index(path: Path) -> Path:
    """Return where SQLite keeps the index of a WAL, which is there while somebody has the store open."""
    real = path.resolve()
    return real.with_name(f"{real.name}-shm")


def _presence(path: Path) -> Presence | None:
    """Keep a restore from beginning meanwhile, by the file that is there for it; none is made."""
    real = path.resolve()
    return Presence.shared(path, reading=True) if real.with_name(f"{real.name}-open").exists() else None


def _applied(transaction: Transaction) -> frozenset[int]:
    try:
        return frozenset(row["number"] for row in transaction.all("migrations_applied"))
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return frozenset()
        raise


def first_needing(tx: Transaction, applied: frozenset[int], dialect: Dialect) -> int | None:
    """Return the first migration on record that this program is too old for; None where there is none."""
    known = max(available(dialect))
    if max(applied, default=0) <= known:
        return None
    return next((int(row["number"]) for row in tx.all("migrations_needing", {"known": known})), None)


def is_readable(applied: frozenset[int], needing: int | None, dialect: Dialect) -> bool:
    """Say whether this program can read what is in a store with these migrations."""
    return needing is None and frozenset(available(dialect)) <= applied


def facts(tx: Transaction, now: int) -> Facts:
    """Read the facts. Reading transaction; µs."""
    return Facts(
        epoch=epochs.present(tx),
        held=len(epochs.held(tx, 0, HELD_MOST)),
        marks=clocks.marks(tx),
        registrations=registrations.every(tx),
        instances=instances.every(tx),
        census=census.take(tx),
        problems=_counts(tx, "doctor_problems"),
        tools=_counts(tx, "doctor_tools"),
        workers=workers.every(tx),
        missing=workers.missing(tx, now),
        resumers=adoptions.resumers_wanted(tx, now),
        consuming=frozenset(row["provider"] for row in tx.all("doctor_consuming")),
        unreported_since=None if (owed := tx.first("doctor_unreported")) is None else owed["since"],
        targets=Counter(_counts(tx, "doctor_call_targets")) + Counter(_counts(tx, "doctor_wake_targets")),
        stuck_groups=groups.stuck(tx, HELD_MOST),
        moved=None if (moved := tx.first("moved_to")) is None else str(moved["to"]),
        anomalies=[each for each in anomalies.every(tx) if each.last_at > now - DAY],
    )


def _counts(tx: Transaction, query: str) -> dict[str, int]:
    return {row["word"]: row["count"] for row in tx.all(query)}
