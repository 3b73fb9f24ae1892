"""An empty store and its keys, made once for all histories."""

from typing import TYPE_CHECKING

import pytest
from model.machine import Machine
from model.shelf import PostgresShelf, SqliteShelf

if TYPE_CHECKING:
    from support.servers.emptied import EmptyStores


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> SqliteShelf:
    """Where every history on SQLite begins."""
    return SqliteShelf(tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="session")
def databases(empty_stores: "EmptyStores", tmp_path_factory: pytest.TempPathFactory) -> PostgresShelf:
    """Where every history on PostgreSQL begins."""
    return PostgresShelf(empty_stores, tmp_path_factory.mktemp("keys"))


@pytest.fixture
def on_sqlite(files: SqliteShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let histories happen on SQLite."""
    monkeypatch.setattr(Machine, "shelf", files, raising=False)


@pytest.fixture
def on_postgresql(databases: PostgresShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let histories happen on PostgreSQL."""
    monkeypatch.setattr(Machine, "shelf", databases, raising=False)
