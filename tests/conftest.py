"""Fixtures that every folder of tests shares."""

import gc
import logging
import os
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import structlog

from wakegate_schema.store import Store, open_store

# No test goes by the machine's certificate authorities or by plugins of pydantic, and a process that aiohttp need not
# read the first for, nor pydantic look through every installed package for the second, starts a fifth sooner.
os.environ |= {"SSL_CERT_FILE": "", "SSL_CERT_DIR": "", "PYDANTIC_DISABLE_PLUGINS": "__all__"}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without looking for garbage: that takes a third of the time, and what is collected stays."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


LONGEST = "test_every_point.py"
APART = 90
"""How many other tests lie between two of the longest, at least."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin the longest tests early and apart from each other, so that the others run beside them."""
    long = [item for item in items if item.path.name == LONGEST]
    rest = [item for item in items if item.path.name != LONGEST]
    items[:] = []
    due = 0
    for index, item in enumerate(rest):
        begins = index == 0 or item.path != rest[index - 1].path  # what a module shares is not made twice for this
        if long and begins and index >= due:
            items.append(long.pop(0))
            due = index + APART
        items.append(item)
    items += long


@pytest.fixture(autouse=True)
def logging_restored() -> Iterator[None]:
    """Put logging back as it was: `logs.configure` sets it up for the whole process."""
    root, access = logging.getLogger(), logging.getLogger("aiohttp.access")
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)
    access.disabled = False
    access.propagate = True


@pytest.fixture
def database(tmp_path: Path) -> str:
    """The URL of a database that does not exist yet."""
    return f"sqlite:///{tmp_path}/wakegate.db"


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    """A real store in a real file."""
    async with await open_store(database, mode="service") as opened:
        yield opened
