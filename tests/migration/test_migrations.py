"""Migrations are atomic, and together they are the schema."""

import re
import sqlite3
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest

from wakegate_schema.setting_types import sqlite_path
from wakegate_schema.store import migrations, open_store
from wakegate_schema.store.dialects import SQLITE
from wakegate_schema.store.migrations import Migration
from wakegate_schema.store.queries import load_store
from wakegate_schema.store.sqlite.connection import create
from wakegate_schema.store.sqlite.engine import SqliteEngine


def objects(path: Path) -> dict[str, str]:
    """Everything a database file defines: name → its SQL, white space folded."""
    with closing(sqlite3.connect(path)) as raw:
        found = raw.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name <> 'sqlite_sequence'")
        return {name: re.sub(r"\s+", " ", sql.strip()) for name, sql in found}


async def test_the_migrations_add_up_to_the_schema(database: str, tmp_path: Path) -> None:
    await (await open_store(database, mode="service")).close()
    whole = tmp_path / "whole.db"
    with closing(sqlite3.connect(whole)) as raw:
        raw.executescript(files("wakegate_schema").joinpath("sql/sqlite/schema.sql").read_text(encoding="utf-8"))
    assert objects(sqlite_path(database)) == objects(whole)


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "broken.db"
    create(path)
    script = ["CREATE TABLE one (a) STRICT", "CREATE TABLE one (a INTEGER) STRICT"]
    monkeypatch.setattr(migrations, "available", lambda _: {1: Migration(1, "broken", tuple(script), 1)})
    engine = SqliteEngine(path, load_store(SQLITE))
    with pytest.raises(Exception, match=r"unknown datatype|missing datatype|already exists"):
        migrations.migrate(engine, 1)
    engine.close()
    assert objects(path) == {}


async def test_migrating_again_changes_nothing(database: str) -> None:
    await (await open_store(database, mode="service")).close()
    engine = SqliteEngine(sqlite_path(database), load_store(SQLITE))
    assert migrations.migrate(engine, 1) == []
    engine.close()
