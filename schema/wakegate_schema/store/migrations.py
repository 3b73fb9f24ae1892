"""Migrations: numbered scripts, each applied once, statement by statement, atomically with its row in the ledger.

A script's first line may say `-- oldest: N`: programs that know migration N can still work on a store that has this
one, so that old and new ones run side by side while they are replaced (docs/upgrading.md).
"""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from wakegate_schema import fault_points
from wakegate_schema.records.workers import LIVES_FOR
from wakegate_schema.store.dialects import POSTGRESQL, SQLITE, Dialect
from wakegate_schema.store.engine import Engine
from wakegate_schema.store.errors import StoreOutdated, WorkersTooOld
from wakegate_schema.store.queries import statements
from wakegate_schema.store.transaction import Transaction

_OLDEST = re.compile(r"^-- oldest: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Migration:
    """One script."""

    number: int
    name: str
    statements: tuple[str, ...]
    oldest: int
    """The last migration that a program must know to work on a store that has this one."""


@cache
def available(dialect: Dialect = SQLITE) -> dict[int, Migration]:
    """Return every migration of a dialect, by number. PostgreSQL's first holds all that came before it."""
    found: dict[int, Migration] = {}
    for file in files("wakegate_schema").joinpath("sql", dialect.name, "migrations").iterdir():
        if file.name.endswith(".sql"):
            text, (number, _, name) = file.read_text(encoding="utf-8"), file.name.removesuffix(".sql").partition("_")
            said = _OLDEST.search(text)
            oldest = int(said.group(1)) if said else int(number)
            found[int(number)] = Migration(int(number), name, tuple(statements(text)), oldest)
    return dict(sorted(found.items()))


def migrate(engine: Engine, at: int, dialect: Dialect = SQLITE, *, force: bool = False) -> list[str]:
    """Apply what is missing, all in one transaction; return the names applied.

    Args:
        engine: of the database.
        at: wall clock, µs.
        dialect: the database's.
        force: apply also what shuts out workers that live.

    Raises:
        StoreOutdated: the store is newer than this program.
        WorkersTooOld: workers live that could not work on it any more.
    """
    with engine.transaction() as transaction:
        fault_points.reach("store.begin", migrate)
        done = apply(transaction, at, dialect, force=force)
        fault_points.reach("store.commit", migrate)
    fault_points.reach("store.committed", migrate)
    return done


def apply(transaction: Transaction, at: int, dialect: Dialect, *, force: bool = False) -> list[str]:
    """Apply what is missing; return the names applied. Raises `StoreOutdated` or `WorkersTooOld`, see `migrate`."""
    transaction.change("migration_ledger")
    applied = numbers(transaction)
    _refuse_newer(transaction, applied, dialect)
    missing = [each for number, each in available(dialect).items() if number not in applied]
    if WITH_WORKERS in applied and not force:
        _refuse_while_old_ones_live(transaction, missing, at)
    for migration in missing:
        for statement in migration.statements:
            transaction.run(statement)
        transaction.change("migration_done", {"number": migration.number, "name": migration.name, "at": at})
        if migration.number >= FIRST_WITH_OLDEST:
            transaction.change("migration_oldest", {"number": migration.number, "oldest": migration.oldest})
    return [migration.name for migration in missing]


FIRST_WITH_OLDEST = 4
"""The migration since which the ledger says what a program must know."""
WITH_WORKERS = 5
"""The migration since which workers are on record."""


def latest() -> int:
    """Return the last migration that this program knows, in whatever dialect."""
    return max(max(available(dialect)) for dialect in (SQLITE, POSTGRESQL))


def numbers(transaction: Transaction) -> set[int]:
    """Return which migrations were applied."""
    return {row["number"] for row in transaction.all("migrations_applied")}


def check(transaction: Transaction, dialect: Dialect = SQLITE) -> None:
    """Raise `StoreOutdated` unless this program can work on the store."""
    applied = numbers(transaction)
    _refuse_newer(transaction, applied, dialect)
    if missing := sorted(set(available(dialect)) - applied):
        raise StoreOutdated(f"the store lacks migration {missing[0]}; run `wakegate db migrate`")


def refuse_newer(transaction: Transaction, dialect: Dialect = SQLITE) -> None:
    """Raise `StoreOutdated` when a migration was applied that this program cannot work with."""
    _refuse_newer(transaction, numbers(transaction), dialect)


def _refuse_newer(transaction: Transaction, applied: set[int], dialect: Dialect) -> None:
    known = max(available(dialect))
    if max(applied, default=0) <= known:
        return
    if needing := [row["number"] for row in transaction.all("migrations_needing", {"known": known})]:
        raise StoreOutdated(f"the store has migration {needing[0]}, made by a newer wakegate; upgrade this one")


def _refuse_while_old_ones_live(transaction: Transaction, missing: list[Migration], at: int) -> None:
    oldest = max((migration.oldest for migration in missing), default=0)
    row = transaction.first("workers_before", {"since": at - LIVES_FOR, "number": oldest})
    if row is not None:
        raise WorkersTooOld(
            f"a worker on {row['host']} runs wakegate {row['version']}, which cannot work on a store with what is to be"
            " migrated; stop it and every receiver of that version, or run `wakegate db migrate --force`"
        )
