"""A provider, a receiver and an instance between them, in this process, and the command that changes them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import aiohttp
from aiohttp import web

from support.console import Console, Ran
from support.deliveries import Delivery, Sender
from support.http_servers import Served, http_server
from support.receivers import Client, Reply
from wakegate_provider.service import running
from wakegate_receiver.service import Receiver, receiving
from wakegate_receiver.stopping import Stop
from wakegate_schema.keys import load_key
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import unseal_signing_secret
from wakegate_schema.settings import load_settings
from wakegate_schema.store import Store, open_store

T = TypeVar("T")
PassOn = Callable[[], Awaitable[web.StreamResponse]]
Interference = Callable[[web.Request, PassOn], Awaitable[web.StreamResponse]]
TOKEN = "planted-provisioner-token"


def prepare(console: Console) -> Console:
    """Make the console's directory one for a provider and a receiver on free ports."""
    console.secret_file("token", TOKEN + "\n")
    console.set("WAKEGATE_LISTEN", "127.0.0.1:0")
    console.set("WAKEGATE_PROVIDER_LISTEN", "127.0.0.1:0")
    console.set("WAKEGATE_PROVIDER_DATABASE", f"sqlite:///{console.directory}/provider.db")
    console.set("WAKEGATE_PROVIDER_PROVISIONER_TOKEN_FILE", str(console.directory / "token"))
    return console


@dataclass
class Stage:
    """The provider and the receiver as they run, and the console beside them."""

    console: Console
    provider: str
    """The provider's base URL: of a server in front of it, in which a test can interfere."""
    receiver: Receiver
    front: Served
    interference: Interference | None = None
    """Answers in the provider's place, or after it; takes the call and what passes it on."""

    @property
    def updates(self) -> list[tuple[str, bytes]]:
        """The key and body of every update that was submitted."""
        return [(each.headers["Idempotency-Key"], each.body) for each in self.front.seen if each.method == "PATCH"]

    async def run(self, *arguments: str) -> Ran:
        """Run a command beside this event loop."""
        return await asyncio.to_thread(self.console, *arguments)

    async def provision(self, name: str = "desk") -> Ran:
        """Provision an instance."""
        return await self.run(
            "instance", "provision", "--provider-url", self.provider, *self.token, "--url", self.receiver.url,
            "--name", name, "--wait", "0",
        )  # fmt: skip

    async def rotate(self, *arguments: str, name: str = "desk") -> Ran:
        """Rotate it."""
        return await self.run("instance", "rotate", name, *self.token, "--wait", "0", *arguments)

    @property
    def token(self) -> tuple[str, str]:
        """The option that names the provisioner's token."""
        return "--provisioner-token-file", str(self.console.directory / "token")

    async def look(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """Do something in the store."""
        async with await open_store(self.console.database, mode="use") as store:
            return await work(store)

    async def registrations(self) -> list[Registration]:
        """The registrations on record, the oldest first."""
        return await self.look(lambda store: store.registrations())

    async def instance(self) -> Instance:
        """The one instance."""
        (found,) = await self.look(lambda store: store.instances())
        return found

    async def sender(self, registration: Registration) -> Sender:
        """The provider's side of a registration."""
        secret = unseal_signing_secret(
            load_key(Path(self.console.directory / "receiver.key")),
            registration.sealed_secret,
            provider=registration.provider,
            registration_id=registration.registration_id,
        )
        return Sender(secret.reveal(), (await self.instance()).instance_id)

    async def status(self, method: str, path: str, token: str) -> int:
        """Call the provider and return the status of its answer."""
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
            session.request(method, self.provider + path) as answer,
        ):
            return answer.status

    async def post(self, delivery: Delivery) -> Reply:
        """Post a delivery to the receiver."""
        host, _, port = self.receiver.url.split("/")[2].partition(":")
        async with Client((host, int(port))) as client:
            return await client.post(delivery)


@asynccontextmanager
async def staged(console: Console) -> AsyncIterator[Stage]:
    """Run provider and receiver, with an instance `desk` between them."""
    settings = load_settings()
    async with (
        running(settings) as provider,
        receiving(settings, Stop()) as receiver,
        aiohttp.ClientSession() as session,
    ):

        async def in_front(request: web.Request) -> web.StreamResponse:
            async def pass_on() -> web.StreamResponse:
                kept = ("Authorization", "Idempotency-Key", "Content-Type")
                headers = {name: request.headers[name] for name in kept if name in request.headers}
                async with session.request(
                    request.method, provider + request.path, data=await request.read() or None, headers=headers
                ) as answer:
                    kind = {"Content-Type": answer.headers.get("Content-Type", "application/json")}
                    return web.Response(status=answer.status, body=await answer.read(), headers=kind)

            return await (stage.interference(request, pass_on) if stage.interference else pass_on())

        async with http_server(in_front) as front:
            stage = Stage(console, front.url, receiver, front)
            ran = await stage.provision()
            if ran.code != 0:
                raise LookupError(ran.err)
            yield stage
