"""Migrations: numbered scripts, each applied once, statement by statement, atomically with its row in the ledger."""

from collections.abc import Mapping
from importlib.resources import files

from wakegate_schema import fault_points
from wakegate_schema.store.engine import SqliteEngine
from wakegate_schema.store.errors import StoreOutdated
from wakegate_schema.store.queries import statements

LEDGER = """
CREATE TABLE IF NOT EXISTS migration (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT"""
"""The table of what was applied."""


def available(dialect: str = "sqlite") -> dict[int, tuple[str, list[str]]]:
    """Return every migration of a dialect: number → (name, statements)."""
    found: dict[int, tuple[str, list[str]]] = {}
    for file in files("wakegate_schema").joinpath("sql", dialect, "migrations").iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found[int(number)] = (name, statements(file.read_text(encoding="utf-8")))
    return dict(sorted(found.items()))


def migrate(engine: SqliteEngine, at: int) -> list[str]:
    """Apply what is missing, all under one immediate transaction; return the names applied.

    Raises:
        StoreOutdated: the store is newer than this program.
    """
    with engine.transaction() as transaction:
        fault_points.reach("store.begin", migrate)
        transaction.run(LEDGER)
        applied = {row["number"] for row in transaction.all("migrations_applied")}
        known = available()
        refuse_newer(applied, known)
        for number, (name, script) in known.items():
            if number in applied:
                continue
            for statement in script:
                transaction.run(statement)
            transaction.change("migration_done", {"number": number, "name": name, "at": at})
        fault_points.reach("store.commit", migrate)
    fault_points.reach("store.committed", migrate)
    return [name for number, (name, _) in known.items() if number not in applied]


def check(applied: set[int]) -> None:
    """Raise `StoreOutdated` unless exactly the migrations this program knows were applied."""
    known = available()
    refuse_newer(applied, known)
    if missing := sorted(set(known) - applied):
        raise StoreOutdated(f"the store lacks migration {missing[0]}; run `wakegate db migrate`")


def refuse_newer(applied: set[int], known: Mapping[int, object]) -> None:
    """Raise `StoreOutdated` when a migration was applied that this program does not know."""
    if unknown := sorted(applied - set(known)):
        raise StoreOutdated(f"the store has migration {unknown[0]}, made by a newer wakegate; upgrade this one")
