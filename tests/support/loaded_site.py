"""Provider, receiver and worker as processes of their own, under a load of deliveries and calls."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from support import worker_tools
from support.console import command, environment
from support.deliveries import Sender
from support.killed_commands import killed_at
from support.ports import free_ports
from support.receivers import Client
from wakegate_adapter import Adapter, Call
from wakegate_schema.keys import load_key
from wakegate_schema.records import Registration
from wakegate_schema.sealing import unseal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.states import State
from wakegate_schema.store import Store, open_store

POLICY = '[[rule]]\ntool = "*"\ndecision = "approve"\n'
PACE_S = 0.03
"""Between two deliveries."""


@dataclass
class Loaded:
    """The site, and what was acknowledged and saved on it."""

    folder: Path
    listen: int
    provider: int
    extra: dict[str, str] = field(default_factory=dict)
    """More settings."""
    acknowledged: list[str] = field(default_factory=list)
    """The ids of the events that were answered with 2xx."""
    refused: list[tuple[int, bytes]] = field(default_factory=list)
    """Every other answer."""
    calls: list[str] = field(default_factory=list)
    """The executions that were saved."""
    _came: set[str | None] = field(default_factory=set)
    """The requests that notifications have come about."""
    _last: int = 0
    _ended: bool = False
    """Nothing more is delivered or saved; what is under way is not cut off, so that its answer is counted."""

    @property
    def url(self) -> str:
        """Where the receiver takes deliveries."""
        return f"http://127.0.0.1:{self.listen}/aap/events"

    @property
    def database(self) -> str:
        """The store's URL."""
        return f"sqlite:///{self.folder}/wakegate.db"

    @property
    def settings(self) -> dict[str, str]:
        """Every process's settings."""
        return {
            "WAKEGATE_DATABASE": self.database,
            "WAKEGATE_LISTEN": f"127.0.0.1:{self.listen}",
            "WAKEGATE_PROVIDER_LISTEN": f"127.0.0.1:{self.provider}",
            "WAKEGATE_PROVIDER_DATABASE": f"sqlite:///{self.folder}/provider.db",
            "WAKEGATE_PROVIDER_POLICY_FILE": str(self.folder / "policy.toml"),
            "WAKEGATE_TOOLS": "support.worker_tools",
            "WAKEGATE_SWEEP_SECONDS": "0.1",
            "WAKEGATE_LOG_FORMAT": "json",
            worker_tools.VARIABLE: str(self.folder / "effects"),
            **self.extra,
        }

    @property
    def token(self) -> tuple[str, str]:
        """The option that names the provisioner's token."""
        return "--provisioner-token-file", str(self.folder / "provisioner.token")

    async def run(self, *arguments: str, step: int = 0) -> int:
        """Run a command, killed at this step; return how it ended."""
        return await asyncio.to_thread(killed_at, step, arguments, self.settings, self.folder / "commands.log")

    async def provision(self, name: str) -> int:
        """Provision an instance; return how that ended."""
        return await self.run(
            "instance", "provision", "--provider-url", f"http://127.0.0.1:{self.provider}", *self.token,
            "--url", self.url, "--name", name, "--wait", "20",
        )  # fmt: skip

    def secret(self, registration: Registration) -> SigningSecret:
        """The secret that a registration's provider signs with."""
        return unseal_signing_secret(
            load_key(self.folder / "receiver.key"),
            registration.sealed_secret,
            provider=registration.provider,
            registration_id=registration.registration_id,
        )

    def sender(self, registration: Registration) -> Sender:
        """The provider's side of a registration."""
        return Sender(self.secret(registration).reveal(), registration.instance_id or "")

    async def deliver(self, sender: Sender) -> None:
        """Deliver one notification after the other until the end, and keep what came of each."""
        async with Client(("127.0.0.1", self.listen)) as client:
            while not self._ended:
                delivery = sender.notification()
                reply = await client.post(delivery)
                if reply.status == 204:
                    self.acknowledged.append(delivery.headers["webhook-id"])
                else:
                    self.refused.append((reply.status, reply.body))
                await asyncio.sleep(PACE_S)

    async def call(self) -> None:
        """Save one call after the other until the end."""
        async with await Adapter.open(self.database) as adapter:
            while not self._ended:
                ticket = await adapter.suspend(Call("issue_refund", {"amount": 4900}, instance="desk"))
                self.calls.append(ticket.execution_id)
                await asyncio.sleep(3 * PACE_S)

    def end(self) -> None:
        """Deliver and save nothing more."""
        self._ended = True

    async def check(self, store: Store) -> None:
        """Assert that nothing genuine was refused, everything acknowledged is saved, and every call ran once."""
        assert self.refused == []
        assert self.acknowledged
        saved = {event_id for event_id in self.acknowledged if await store.notification(event_id)}
        assert saved == set(self.acknowledged)
        for execution_id in self.calls:
            assert await self.resolved(store, execution_id) is State.SUCCEEDED
            await self.notified(store, execution_id)
        assert sorted(worker_tools.effects(self.folder / "effects")) == sorted(self.calls)
        refusals = self.folder / "refusals.jsonl"
        assert not refusals.exists() or refusals.read_text() == ""

    async def notified(self, store: Store, execution_id: str) -> None:
        """Return once the provider's own notification of a call has come in."""
        request_id = (await store.execution(execution_id)).request_id
        until = time.monotonic() + 30
        while request_id not in self._came:
            if time.monotonic() > until:
                raise AssertionError(f"no notification of {execution_id} has come")
            for number, notification in await store.notifications(self._last):
                self._came.add(notification.request_id)
                self._last = number
            await asyncio.sleep(0.01)

    async def resolved(self, store: Store, execution_id: str) -> State:
        """The state of a call once it is resolved."""
        until = time.monotonic() + 30
        while not (execution := await store.execution(execution_id)).resolved:
            if time.monotonic() > until:
                raise AssertionError(f"still {execution}")
            await asyncio.sleep(0.02)
        return execution.state


@asynccontextmanager
async def loaded(folder: Path) -> AsyncIterator[tuple[Loaded, Store]]:
    """Run the three services with an instance `desk`, under load for as long as the block lasts."""
    receiver, provider = free_ports(2)
    site = Loaded(folder, receiver, provider)
    (folder / "policy.toml").write_text(POLICY)
    async with AsyncExitStack() as running:
        for name in ("provider", "receiver", "worker"):
            await running.enter_async_context(service(site, name))
        assert await site.provision("desk") == 0, (folder / "commands.log").read_text()
        store = await running.enter_async_context(await open_store(site.database, mode="use"))
        (registration,) = await store.registrations()
        load = [asyncio.create_task(work) for work in (site.deliver(site.sender(registration)), site.call())]
        try:
            yield site, store
        finally:
            site.end()
            ended = await asyncio.gather(*load, return_exceptions=True)
        assert ended == [None] * len(load)
        await site.check(store)


@asynccontextmanager
async def service(site: Loaded, name: str, **settings: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run one service for as long as the block lasts; its output goes to a file."""
    with (site.folder / f"{name}.log").open("ab") as log:
        process = await _start(name, site, settings, log)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _start(name: str, site: Loaded, settings: dict[str, str], log: IO[bytes]) -> asyncio.subprocess.Process:
    path = str(Path(__file__).parents[1])
    return await asyncio.create_subprocess_exec(
        *command(name),
        cwd=site.folder,
        env=environment(site.folder, **(site.settings | {"PYTHONPATH": path} | settings)),
        stdout=log,
        stderr=log,
    )
