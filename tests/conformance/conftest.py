"""Fixtures of the conformance tests: a house, with or without a webhook, an adapter there, and the forms of a hold."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from conformance.forms import FORMS, Hold
from support.house import House, house
from wakegate_adapter import Adapter


@pytest.fixture
async def polled(tmp_path: Path) -> AsyncIterator[House]:
    """A house whose instance has no webhook: synchronous mode's."""
    async with house(tmp_path) as found:
        yield found


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[House]:
    """A house with a receiver that the provider notifies: asynchronous mode's."""
    async with house(tmp_path, webhook=True) as found:
        yield found


@pytest.fixture
async def adapter(polled: House) -> AsyncIterator[Adapter]:
    """An adapter in the house without a webhook."""
    async with await Adapter.open(polled.database) as opened:
        yield opened


@pytest.fixture(params=sorted(FORMS))
def hold(request: pytest.FixtureRequest) -> Hold:
    """Each way to hold a call."""
    found: Hold = FORMS[request.param]
    return found


@pytest.fixture
def holds() -> list[Hold]:
    """All of them, to be used at once."""
    return list(FORMS.values())
