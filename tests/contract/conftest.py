"""Fixtures of the store's contract."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.desk import Desk
from support.ways import NAMES, Way
from wakegate_schema.store import Store

DATABASES = ("sqlite", "postgresql")
ON_SQLITE = ("file", "by_receiver")
"""The marks of what runs on SQLite alone."""
WAYS = (*(("sqlite", name) for name in NAMES), ("postgresql", "store"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test of the contract on each database, unless its mark says why one is enough (pyproject.toml)."""
    if "way" in metafunc.fixturenames:
        above = metafunc.definition.get_closest_marker("by_adapter")
        ways = [each for each in WAYS if not above or each[0] == "sqlite"]
        metafunc.parametrize(("database", "way"), ways, indirect=True)
    elif "database" in metafunc.fixturenames and not any(map(metafunc.definition.get_closest_marker, ON_SQLITE)):
        own = metafunc.definition.path.name.startswith("test_postgresql_")
        metafunc.parametrize("database", DATABASES[1:] if own else DATABASES, indirect=True)


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that does not exist yet (SQLite), or of an empty one (PostgreSQL)."""
    if getattr(request, "param", "sqlite") == "postgresql":
        is_counted = request.node.get_closest_marker("costs") is not None
        url: str = request.getfixturevalue("new_store_url" if is_counted else "empty_store_url")
        return url
    return f"sqlite:///{tmp_path}/wakegate.db"


@pytest.fixture
async def desk(store: Store) -> Desk:
    """A refund desk with a stored credential."""
    return await Desk(store).open()


@pytest.fixture
async def way(
    request: pytest.FixtureRequest, desk: Desk, database: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Way]:
    """How a harness comes to its calls: each of the ways there are."""
    async with Way(request.param, database, monkeypatch) as found:
        yield found
