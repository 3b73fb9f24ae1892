"""Many of each: two receivers and three workers in two pools on one store, under load, killed and replaced."""

import asyncio
import contextlib
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support import warm
from support.aap_peer import Peer
from support.deliveries import Delivery
from support.desk import new_id
from support.processes import clean_environment
from support.receivers import Client, Registered, Running, settings_in
from support.workers import WorkerDesk, eventually
from wakegate_receiver.stopping import Stop
from wakegate_schema import clock
from wakegate_schema.keys import ensure_key
from wakegate_schema.sealing import seal_credential
from wakegate_schema.states import State
from wakegate_schema.store import Store, migrate_store, open_store

CALLS = 40
AT_ONCE = 6
"""How many calls one worker has in its hands at most."""
PATIENCE_S = 90.0
POOLS = {"payments": "support.worker_tools", "parcels": "support.parcel_tools"}
"""The pools, and the module of tools that each one's workers have."""
TOOLS = {"issue_refund": "payments", "send_parcel": "parcels"}


@dataclass
class Town:
    """One store with everything that works on it."""

    database: str
    folder: Path
    store: Store
    registered: Registered
    desk: WorkerDesk
    receivers: dict[str, tuple[str, int]] = field(default_factory=dict)
    """Where each receiver that lives takes webhooks."""
    acknowledged: set[str] = field(default_factory=set)

    @property
    def keys(self) -> dict[str, str]:
        """The settings that every service has."""
        return {
            "WAKEGATE_DATABASE": self.database,
            "WAKEGATE_RECEIVER_KEY_FILE": str(self.folder / "receiver.key"),
            "WAKEGATE_WORKER_KEY_FILE": str(self.folder / "worker.key"),
        }

    @asynccontextmanager
    async def receiver(self, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a receiver in a folder of its own, for its socket and its refusals."""
        home = self.folder / name
        home.mkdir(exist_ok=True)
        own = {"WAKEGATE_LISTEN": "127.0.0.1:0", "WAKEGATE_CONTROL": str(home / "c.sock")}
        own["WAKEGATE_REFUSALS_FILE"] = str(home / "refusals.jsonl")
        with (home / "log").open("ab") as log:
            process = await warm.start(
                "receiver", env=clean_environment() | self.keys | own, cwd=home, stdout=PIPE, stderr=log
            )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                url = urlsplit((await process.stdout.readline()).decode().strip())
            self.receivers[name] = (url.hostname or "", url.port or 0)
            yield process
        finally:
            self.receivers.pop(name, None)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    def worker(self, pool: str) -> contextlib.AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """Run a worker of a pool, with a lease that a busy machine's commits fit into."""
        return self.desk.process(
            **self.keys,
            WAKEGATE_POOL=pool,
            WAKEGATE_TOOLS=POOLS[pool],
            WAKEGATE_LEASE_SECONDS="6",
            WAKEGATE_WORKER_CONCURRENCY=str(AT_ONCE),
        )

    async def deliver(self, delivery: Delivery) -> None:
        """Deliver to one receiver after the other, as a load balancer does, until one acknowledges."""
        async with asyncio.timeout(PATIENCE_S):
            for turn in range(10_000):
                addresses = list(self.receivers.values())
                with contextlib.suppress(OSError, EOFError, TimeoutError):
                    async with Client(addresses[turn % len(addresses)]) as client:
                        if (await client.post(delivery)).status == 204:
                            self.acknowledged.add(delivery.headers["webhook-id"])
                            return
                await asyncio.sleep(0.05)

    async def decide(self, peer: Peer, execution_id: str) -> None:
        """Approve a call once it is submitted, and notify of it."""
        waiting = await self.desk.until(execution_id, State.WAITING, seconds=PATIENCE_S)
        peer.approve(peer.requests[waiting.request_id or ""])
        await self.deliver(self.registered.sender.notification(waiting.request_id))


@pytest.fixture(params=["sqlite", "postgresql"])
async def town(request: pytest.FixtureRequest, tmp_path: Path, peer: Peer) -> AsyncIterator[Town]:
    """A store of one of the databases, and an instance on it."""
    is_sqlite = request.param == "sqlite"
    database = f"sqlite:///{tmp_path}/wakegate.db" if is_sqlite else request.getfixturevalue("postgres_url")
    await migrate_store(database)
    settings = settings_in(tmp_path, database=database, receiver_key_file=tmp_path / "receiver.key")
    ensure_key(settings.receiver_key_path)
    sealer = ensure_key(tmp_path / "worker.key")
    async with await open_store(database, mode="use") as store:
        registered = await Running(None, settings, store, Stop()).register(provider=peer.url)  # type: ignore[arg-type]
        desk = _Desk(store, tmp_path, peer.url, registered.instance_id)
        desk.credential = seal_credential(
            sealer, provider=peer.url, instance_id=registered.instance_id, token=desk.token
        )
        await store.add_instance(desk.instance(), registered.registration_id)
        yield Town(database, tmp_path, store, registered, desk)


@dataclass
class _Desk(WorkerDesk):
    credential: bytes = b""

    def sealed(self, token: str) -> bytes:
        return self.credential


async def test_every_call_runs_once_on_a_worker_that_has_its_tool(town: Town, peer: Peer) -> None:
    async with AsyncExitStack() as services:

        async def begin(service: Any) -> asyncio.subprocess.Process:
            process: asyncio.subprocess.Process = await services.enter_async_context(service)
            return process

        first = await begin(town.receiver("east"))
        await begin(town.receiver("west"))
        killed = await begin(town.worker("payments"))
        await begin(town.worker("payments"))
        parcels = await begin(town.worker("parcels"))
        await eventually(lambda: _lives(town, Counter(payments=2, parcels=1)), PATIENCE_S)
        saved = [
            (await town.desk.save(tool=list(TOOLS)[number % 2], idempotency_key=new_id())).execution_id
            for number in range(CALLS)
        ]
        deciding = [asyncio.create_task(town.decide(peer, execution_id)) for execution_id in saved]
        await eventually(lambda: len(town.desk.effects) >= 4, PATIENCE_S)
        for process in (first, killed, parcels):
            process.kill()
            await process.wait()
        town.receivers.pop("east")
        await begin(town.receiver("east"))
        await begin(town.worker("parcels"))
        await asyncio.gather(*deciding)
        ended = [await town.desk.settled(execution_id, seconds=PATIENCE_S) for execution_id in saved]
    effects = Counter(town.desk.effects)
    assert set(effects.values()) == {1}
    states = Counter(found.state for found in ended)
    assert states[State.SUCCEEDED] + states[State.IN_DOUBT] == CALLS, states
    assert states[State.IN_DOUBT] <= 2 * AT_ONCE, "more than the two killed workers had in their hands"
    for found in ended:
        assert found.state is State.IN_DOUBT or effects[found.execution_id] == 1
        assert found.tool_version == ("1" if found.tool == "issue_refund" else "3")
    assert len(town.acknowledged) == CALLS
    on_record = {found.event_id for _, found in await town.store.notifications(0, 500)}
    assert town.acknowledged <= on_record
    assert {path.parent.name for path in town.folder.glob("*/refusals.jsonl.lock")} == {"east", "west"}


async def _lives(town: Town, wanted: Counter[str]) -> bool:
    now = clock.now()
    return Counter(worker.pool for worker in await town.store.workers() if worker.lives_at(now)) == wanted
