"""A branch: one store on a network, with receivers, workers and a provider that all live on hosts of their own."""

import asyncio
import contextlib
import secrets
import socket
import ssl
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final, Self

from support import warm, worker_tools
from support.aap_peer import Peer
from support.certificates import certificate
from support.deliveries import Delivery
from support.desk import new_id
from support.hosts import Host
from support.network import Network
from support.processes import clean_environment
from support.receivers import Client, Registered, Running, settings_in
from support.workers import SETTLED, WorkerDesk
from wakegate_receiver.stopping import Stop
from wakegate_schema.keys import ensure_key
from wakegate_schema.records import Execution
from wakegate_schema.states import State
from wakegate_schema.store import Store, migrate_store, open_store

PATIENCE_S: Final = 90.0
REQUEST_S: Final = 3.0
"""The longest that a receiver may take for an answer here."""
LEASE_S: Final = 2
_RECEIVER_PORT: Final = 8080
_PROVIDER_PORT: Final = 8443


@dataclass(frozen=True, slots=True)
class Try:
    """One delivery to one receiver."""

    receiver: str
    at: float
    """When it was answered, by the monotonic clock."""
    took_s: float
    status: int
    """0 for no answer."""


@dataclass
class Branch:
    """Everything that works on one store, and what it has promised."""

    network: Network
    folder: Path
    database: str
    """Its name in PostgreSQL."""
    store: Store
    """Looked at through a Unix socket: also while hosts are cut off."""
    peer: Peer
    registered: Registered
    desk: WorkerDesk
    receivers: list[str] = field(default_factory=list)
    """The hosts to whose receivers the provider delivers, in turn."""
    running: dict[str, Process] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    tries: list[Try] = field(default_factory=list)

    async def receiver(self, name: str) -> None:
        """Run a receiver on a host, until `stop`."""
        host = self.network.hosts[name]
        home = self._home(name)
        own = {
            "WAKEGATE_LISTEN": f"{host.address}:{_RECEIVER_PORT}",
            "WAKEGATE_CONTROL": str(home / "c.sock"),
            "WAKEGATE_REFUSALS_FILE": str(home / "refusals.jsonl"),
            "WAKEGATE_REQUEST_TIMEOUT": str(REQUEST_S),
        }
        process = await self._start("receiver", host, own, stdout=PIPE)
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            assert (await process.stdout.readline()).startswith(b"http://"), self.log(name)
        if name not in self.receivers:
            self.receivers.append(name)

    async def worker(self, name: str, **changes: str) -> None:
        """Run a worker on a host, until `stop`."""
        own = {
            "PYTHONPATH": str(Path(__file__).parents[1]),
            "SSL_CERT_FILE": str(self.folder / "tls.crt"),
            "WAKEGATE_TOOLS": "support.worker_tools,support.patient_tools",
            "WAKEGATE_LEASE_SECONDS": str(LEASE_S),
            "WAKEGATE_SWEEP_SECONDS": "0.5",
            worker_tools.VARIABLE: str(self.desk.effects_path),
        }
        await self._start("worker", self.network.hosts[name], own | changes)

    async def stop(self, *names: str) -> None:
        """Kill what runs on some hosts, or on all."""
        for name in names or list(self.running):
            process = self.running.pop(name)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    def log(self, name: str) -> str:
        """What was logged on a host."""
        return (self.folder / name / "log").read_text()

    async def calls(self, count: int, **changes: Any) -> list[Execution]:
        """Save calls and wait until their requests are with the provider."""
        saved = [await self.desk.save(idempotency_key=new_id(), **changes) for _ in range(count)]
        for each in saved:
            await self.until(each, State.WAITING)
        return saved

    async def until(self, call: Execution, *states: State) -> Execution:
        """Wait until a call is in one of the states, and look at it seldom."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := await self.store.execution(call.execution_id)).state not in states:
                await asyncio.sleep(0.1)
        return found

    async def decide(self, execution: Execution) -> None:
        """Approve a call and deliver the notification of it until a receiver acknowledges."""
        request = self.peer.requests[self.peer.keys[execution.idempotency_key]]
        self.peer.approve(request)
        await self.deliver(self.notification(execution))

    def notification(self, execution: Execution) -> Delivery:
        """A new notification that a call's request is resolved."""
        return self.registered.sender.notification(self.peer.keys[execution.idempotency_key])

    async def deliver(self, delivery: Delivery) -> None:
        """Deliver to one receiver after the other, as a load balancer does, until one acknowledges."""
        async with asyncio.timeout(PATIENCE_S):
            for name in cycle(self.receivers if len(self.tries) % 2 else self.receivers[::-1]):
                if await self.attempt(name, delivery):
                    return
                await asyncio.sleep(0.2)

    async def attempt(self, name: str, delivery: Delivery) -> bool:
        """Deliver to one receiver, once; return whether it acknowledged."""
        begun, status = time.monotonic(), 0
        address = (self.network.hosts[name].address, _RECEIVER_PORT)
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(2 * REQUEST_S), _HostClient(self.network.hosts["client"], address) as client:
                status = (await client.post(delivery)).status
        ended = time.monotonic()
        self.tries.append(Try(name, ended, ended - begun, status))
        if status == 204:
            self.acknowledged.add(delivery.headers["webhook-id"])
        return status == 204

    async def ended(self, calls: list[Execution]) -> Counter[State]:
        """Wait until calls have ended or are in doubt, and count everything.

        What was acknowledged is on record, no call has more than one effect or start, and what has succeeded has one.
        """
        found = [await self.until(each, *SETTLED) for each in calls]
        assert self.acknowledged <= await self.on_record()
        effects = Counter(self.desk.effects)
        assert effects.keys() <= {each.execution_id for each in calls}
        assert set(effects.values()) <= {1}
        for each in found:
            assert (await self.desk.passed(each.execution_id)).count("started") <= 1
            assert each.state is not State.SUCCEEDED or effects[each.execution_id] == 1
            assert each.state is not State.LAPSED or effects[each.execution_id] == 0
        return Counter(each.state for each in found)

    async def on_record(self) -> set[str]:
        """The ids of the events on record."""
        return {notification.event_id for _, notification in await self.store.notifications(0, 500)}

    async def look(self, database: str | None = None) -> None:
        """Look at the store where the primary is now, or at another one there, and work on that from now on."""
        await self.store.close()
        self.database = database or self.database
        self.store = self.desk.store = self.desk.desk.store = await open_store(
            self.network.primary.url(self.database), mode="use"
        )

    @property
    def settings(self) -> dict[str, str]:
        """What every service and command has."""
        return {
            "WAKEGATE_DATABASE": self.network.url(self.database),
            "WAKEGATE_QUEUE": self.network.redis.tcp_url(),
            "WAKEGATE_RECEIVER_KEY_FILE": str(self.folder / "receiver.key"),
            "WAKEGATE_WORKER_KEY_FILE": str(self.folder / "worker.key"),
        }

    async def _start(self, program: str, host: Host, own: dict[str, str], *, stdout: int | None = None) -> Process:
        home = self._home(host.name)
        with (home / "log").open("ab") as log:
            process = self.running[host.name] = await warm.start(
                program, env=clean_environment() | self.settings | own, cwd=home, namespaces=host.namespaces,
                stdout=stdout or log.fileno(), stderr=log,
            )  # fmt: skip
        return process

    def _home(self, name: str) -> Path:
        home = self.folder / name
        home.mkdir(exist_ok=True)
        return home


@asynccontextmanager
async def branch_on(network: Network, folder: Path) -> AsyncIterator[Branch]:
    """Make a store on a network, an instance in it and its provider; nothing else runs yet."""
    network.ready()
    database = network.primary.create_database(f"branch_{secrets.token_hex(4)}")
    await migrate_store(network.primary.url(database))
    host, peer = network.hosts["provider"], Peer()
    chain, key = certificate(folder, host=host.address)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(chain, key)
    with host.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host.address, _PROVIDER_PORT))
        async with peer.serving(bound=bound, tls=tls):
            branch = await _open(network, folder, database, peer)
            try:
                yield branch
            finally:
                await branch.stop()
                await branch.store.close()


async def _open(network: Network, folder: Path, database: str, peer: Peer) -> Branch:
    store = await open_store(network.primary.url(database), mode="use")
    registered = await _register(store, folder, peer.url)
    desk = WorkerDesk(store, folder, peer.url, registered.instance_id)
    await store.add_instance(desk.instance(), registered.registration_id)
    return Branch(network, folder, database, store, peer, registered, desk)


async def _register(store: Store, folder: Path, provider: str) -> Registered:
    settings = settings_in(folder, receiver_key_file=folder / "receiver.key")
    ensure_key(settings.receiver_key_path)
    return await Running(None, settings, store, Stop()).register(provider=provider)  # type: ignore[arg-type]


class _HostClient(Client):
    """A connection from a certain host."""

    def __init__(self, host: Host, address: tuple[str, int]) -> None:
        super().__init__(address)
        self._host = host

    async def __aenter__(self) -> Self:
        made = self._host.socket()
        try:
            made.setblocking(False)
            await asyncio.get_running_loop().sock_connect(made, self._address)
        except BaseException:
            made.close()
            raise
        self.reader, self.writer = await asyncio.open_connection(sock=made)
        return self
