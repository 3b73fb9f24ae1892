"""Fixtures of the store's contract."""

import pytest

from support.desk import Desk
from wakegate_schema.store import Store


@pytest.fixture
async def desk(store: Store) -> Desk:
    """A refund desk with a stored credential."""
    return await Desk(store).open()
