"""Fixtures that every folder of tests shares."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from wakegate_schema.store import Store, open_store


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of a database that does not exist yet."""
    return f"sqlite:///{tmp_path}/wakegate.db"


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    """A real store in a real file."""
    async with await open_store(database, mode="service") as opened:
        yield opened
