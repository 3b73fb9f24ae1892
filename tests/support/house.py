"""A house: the embedded provider behind a front, a store with an instance there, and a ledger outside the program."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from support.deliveries import Delivery, Sender
from support.front import Front, in_front_of
from support.ports import free_port
from support.provider import Caller, provider, provider_settings
from support.receivers import Registered, Reply, Running, receiver_in, settings_in
from support.services import Site
from support.workers import WorkerDesk, eventually
from wakegate_provider import decide, list_requests
from wakegate_receiver.stopping import Stop
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store, open_store

PATIENCE_S = 90.0
"""How long something may take on a machine that has other things to do."""
POLICY = """
[[rule]]
tool = "approve_*"
decision = "approve"
note = "by policy"

[[rule]]
tool = "deny_*"
decision = "deny"
note = "not this one"

[[rule]]
tool = "brief_*"
decision = "approve"
approval_ttl = "1s"
"""


@dataclass
class Ledger:
    """Effects in the world: a line of JSON each, in a file that wakegate knows nothing of."""

    path: Path

    @property
    def lines(self) -> list[Any]:
        """The effects there were, in order."""
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def enter(self, **what: Any) -> None:
        """Have an effect."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")

    async def refund(self, **arguments: Any) -> dict[str, Any]:
        """The call that is held: an effect, and a result."""
        self.enter(**arguments)
        return {"refunded": arguments}


@dataclass
class House:
    """The parts as they run."""

    folder: Path
    provider: Settings
    """The provider's settings, by which a reviewer decides."""
    caller: Caller
    """The provisioner, past the front."""
    front: Front
    desk: WorkerDesk
    ledger: Ledger
    receiver: Running | None = None
    """The receiver, if it runs in this process."""
    registered: Registered | None = None
    """Its registration, if there is one."""

    @property
    def database(self) -> str:
        """The store's URL."""
        return self.desk.settings().database

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What the provider has on record, the latest first."""
        return [dict(found) for found in list_requests(self.provider, payload=True)]

    async def request(self, seconds: float = PATIENCE_S) -> dict[str, Any]:
        """Return the one request there is, once it is."""
        await eventually(lambda: bool(self.requests), seconds)
        (found,) = self.requests
        return found

    async def review(self, decision: Literal["approve", "deny"], **options: Any) -> str:
        """Decide the one request that is there, or comes; return its id."""
        request_id: str = (await self.request())["request_id"]
        await asyncio.to_thread(lambda: decide(self.provider, request_id, decision, **options))
        return request_id

    async def status(self, request_id: str, status: str, seconds: float = PATIENCE_S) -> None:
        """Wait until the provider has this status of a request on record."""
        await eventually(
            lambda: any(each["request_id"] == request_id and each["status"] == status for each in self.requests),
            seconds,
        )

    @property
    def sender(self) -> Sender:
        """Signs as the provider does."""
        assert self.registered is not None
        return self.registered.sender

    async def post(self, delivery: Delivery) -> Reply:
        """Post a delivery to the receiver in this process."""
        assert self.receiver is not None
        return await self.receiver.post(delivery)

    async def notified(self, seconds: float = PATIENCE_S) -> None:
        """Wait until the provider's notifications are all acknowledged, and there is one."""
        await eventually(lambda: bool(self.requests) and all(each["delivered_at"] for each in self.requests), seconds)

    @property
    def effects(self) -> int:
        """How many effects there were, by the worker's tools and in the ledger."""
        return len(self.desk.effects) + len(self.ledger.lines)

    async def quiet(self, seconds: float = 0.5) -> list[Any]:
        """Wait for a while in which what must not happen could; return the effects."""
        await asyncio.sleep(seconds)
        return self.ledger.lines


@asynccontextmanager
async def house(folder: Path, *, webhook: bool = False, policy: str = POLICY) -> AsyncIterator[House]:
    """Run a provider, with a receiver where a webhook is wanted, and put an instance of it on record."""
    settings = provider_settings(folder, policy)
    async with provider(settings) as caller, in_front_of(caller.url) as front:
        if webhook:
            async with receiver_in(folder, request_timeout=2.0) as receiver:
                desk, registered = await _told(folder, caller, front, receiver, receiver.receiver.url)
                yield House(folder, settings, caller, front, desk, Ledger(folder / "ledger"), receiver, registered)
            return
        async with await open_store(f"sqlite:///{folder}/wakegate.db", mode="service") as store:
            created = (await caller.provision()).body
            desk = WorkerDesk(
                store, folder, front.url, created["instance"]["id"], created["credential"]["token"], delivery="none"
            )
            yield House(folder, settings, caller, front, await desk.open(), Ledger(folder / "ledger"))


@asynccontextmanager
async def house_with_site(folder: Path) -> AsyncIterator[tuple[House, Site]]:
    """The same with a receiver that is a process of its own, started and killed by its site, on one port always."""
    settings = provider_settings(folder, POLICY)
    async with provider(settings) as caller, in_front_of(caller.url) as front:
        own = settings_in(folder, listen=f"127.0.0.1:{free_port()}")
        async with await open_store(own.database, mode="service") as store:
            beside = Running(None, own, store, Stop())  # type: ignore[arg-type]
            registered = await beside.expect(provider=front.url)
            site = Site(folder, own, registered, WorkerDesk(store, folder, front.url), store)
            async with site.receiving(WAKEGATE_LISTEN=str(own.listen)):
                desk = await _provisioned(
                    folder, caller, front, registered, f"http://{own.listen}{own.events_path}", store
                )
            site.worker = desk
            yield House(folder, settings, caller, front, desk, Ledger(folder / "ledger"), None, registered), site


async def _told(
    folder: Path, caller: Caller, front: Front, receiver: Running, url: str
) -> tuple[WorkerDesk, Registered]:
    registered = await receiver.expect(provider=front.url)
    return await _provisioned(folder, caller, front, registered, url, receiver.store), registered


async def _provisioned(
    folder: Path, caller: Caller, front: Front, registered: Registered, url: str, store: Store
) -> WorkerDesk:
    """Create an instance with the provider, which challenges the receiver meanwhile, and put it on record."""
    secret = registered.secret.reveal()
    delivery = {
        "type": "webhook", "url": url, "registration_id": registered.registration_id, "signing_secret": secret,
    }  # fmt: skip
    answered = await caller.call(
        "POST", "/v1/instances", key=registered.registration_id, body={"instance_name": "desk", "delivery": delivery}
    )
    if answered.status != 201:
        raise LookupError(answered)
    instance, token = answered.body["instance"]["id"], answered.body["credential"]["token"]
    registered.instance_id, registered.sender = instance, Sender(secret, instance)
    desk = WorkerDesk(store, folder, front.url, instance, token)
    await store.add_instance(desk.instance(), registered.registration_id)
    return desk
