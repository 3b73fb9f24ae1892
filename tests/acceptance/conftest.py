"""Fixtures of several: a provider that does what its test says, a desk there, a way out, and the command."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from support.aap_peer import Peer
from support.console import Console
from support.workers import WorkerDesk
from wakegate_schema.store import Store
from wakegate_worker.outbound import open_session


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """A peer that answers, and decides nothing by itself."""
    made = Peer()
    async with made.serving():
        yield made


@pytest.fixture
async def desk(store: Store, tmp_path: Path, peer: Peer) -> WorkerDesk:
    """A desk at the peer."""
    return await WorkerDesk(store, tmp_path, peer.url).open()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """The worker's own HTTP session."""
    async with open_session() as opened:
        yield opened


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    """The command, in a directory of its own."""
    return Console(tmp_path, monkeypatch, capsys)
