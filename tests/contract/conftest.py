"""Fixtures of the store's contract."""

from collections.abc import AsyncIterator

import pytest

from support.desk import Desk
from support.ways import NAMES, Way
from wakegate_schema.store import Store


@pytest.fixture
async def desk(store: Store) -> Desk:
    """A refund desk with a stored credential."""
    return await Desk(store).open()


@pytest.fixture(params=NAMES)
async def way(
    request: pytest.FixtureRequest, desk: Desk, database: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Way]:
    """How a harness comes to its calls: each of the ways there are."""
    async with Way(request.param, database, monkeypatch) as found:
        yield found
