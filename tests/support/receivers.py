"""A real receiver in this process or another, the secrets it expects, and clients that speak to it in raw bytes."""

import asyncio
import fcntl
import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.deliveries import Delivery, Sender, new_id
from wakegate_receiver.service import Receiver, receiving
from wakegate_receiver.stopping import Stop
from wakegate_schema import clock, keys
from wakegate_schema.records import Challenge, Registration
from wakegate_schema.sealing import seal_signing_secret
from wakegate_schema.settings import Settings
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import Store, open_store

PROVIDER = "http://127.0.0.1:9"


def settings_in(directory: Path, **changes: Any) -> Settings:
    """Settings of a receiver that keeps everything in one directory and listens on a free port."""
    values: dict[str, Any] = {
        "database": f"sqlite:///{directory}/wakegate.db",
        "listen": "127.0.0.1:0",
        "control": f"{directory}/control.sock",
    }
    return Settings(**(values | changes))


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer as it came."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def reason(self) -> str:
        """The machine reason in the body."""
        reason: str = json.loads(self.body)["reason"]
        return reason


@dataclass
class Registered:
    """A registration in the store, and the provider's side of it."""

    registration_id: str
    provider: str
    instance_id: str
    secret: SigningSecret
    sender: Sender


@dataclass
class Running:
    """A running receiver, with its store opened a second time, as the worker or the console would."""

    receiver: Receiver
    settings: Settings
    store: Store
    stop: Stop
    registered: list[Registered] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        parts = urlsplit(self.receiver.url)
        return parts.hostname or "", parts.port or 0

    def reasons(self) -> list[str]:
        """The reasons it kept, the newest last."""
        return [entry["reason"] for entry in self.receiver.refusals.entries()]

    async def expect(
        self,
        *,
        provider: str = PROVIDER,
        instance_id: str | None = None,
        promised: bool = False,
        **changes: Any,
    ) -> Registered:
        """Add a registration that nobody has challenged yet, as the console does; `promised` to this instance only."""
        secret = changes.pop("secret", None) or SigningSecret.generate()
        instance_id = instance_id or new_id()
        registration_id = new_id()
        sealed = seal_signing_secret(
            keys.ensure_key(self.settings.receiver_key_path),
            provider=provider,
            registration_id=registration_id,
            secret=secret,
        )
        now = clock.now()
        values: dict[str, Any] = {
            "registration_id": registration_id,
            "provider": provider,
            "name": f"desk-{registration_id}",
            "state": "expected",
            "sealed_secret": sealed,
            "url": None,
            "idempotency_key": new_id(),
            "instance_id": instance_id if promised else None,
            "created_at": now,
            "expected_until": now + clock.HOUR,
        }
        await self.store.add_registration(Registration(**(values | changes)))
        found = Registered(registration_id, provider, instance_id, secret, Sender(secret.reveal(), instance_id))
        self.registered.append(found)
        return found

    async def register(self, **changes: Any) -> Registered:
        """Add a registration and bind its instance."""
        found = await self.expect(**changes)
        binding = await self.store.bind(Challenge(found.registration_id, found.instance_id, clock.now()))
        if binding.refusal is not None:
            raise LookupError(binding.refusal)
        return found

    async def post(self, delivery: Delivery, path: str | None = None) -> Reply:
        """Post a delivery on a connection of its own."""
        async with Client(self.address) as client:
            return await client.post(delivery, path or self.settings.events_path)


@asynccontextmanager
async def receiver_in(directory: Path, **changes: Any) -> AsyncIterator[Running]:
    """Run a receiver in this loop."""
    settings = settings_in(directory, **changes)
    stop = Stop()
    async with (
        receiving(settings, stop) as receiver,
        await open_store(settings.database, mode="use") as store,
    ):
        yield Running(receiver, settings, store, stop)


@contextmanager
def stalled(settings: Settings) -> Iterator[None]:
    """Hold the store's turn, so that no write in it comes to an end while the block runs."""
    turn = settings.database_path.with_name(f"{settings.database_path.name}-turn")
    with turn.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def until(condition: Callable[[], bool], timeout: float = 5) -> None:
    """Return once the condition holds. Raises TimeoutError when it does not within `timeout` seconds."""
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.01)


class Client:
    """One connection, written to and read from byte by byte."""

    def __init__(self, address: tuple[str, int], tls: ssl.SSLContext | None = None) -> None:
        """Take where to connect."""
        self._address = address
        self._tls = tls

    async def __aenter__(self) -> "Client":
        """Connect."""
        self.reader, self.writer = await asyncio.open_connection(*self._address, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            return

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, timeout: float = 10) -> Reply:
        """Read one answer. Raises EOFError when the connection ends instead."""
        async with asyncio.timeout(timeout):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            headers = {}
            for line in lines[1:-2]:
                name, _, value = line.partition(":")
                headers[name.lower()] = value.strip()
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
            return Reply(int(lines[0].split()[1]), headers, body)

    async def ends(self, timeout: float = 10) -> bytes:
        """Return whatever comes until the connection ends."""
        try:
            async with asyncio.timeout(timeout):
                return await self.reader.read()
        except ConnectionResetError:
            return b""

    async def post(self, delivery: Delivery, path: str = "/aap/events") -> Reply:
        """Send a delivery and read its answer."""
        await self.send(request_bytes(delivery, path))
        return await self.reply()

    def reset(self) -> None:
        """Leave with a RST."""
        found = self.writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.writer.transport.abort()


def request_bytes(delivery: Delivery, path: str = "/aap/events", method: str = "POST") -> bytes:
    """Return a delivery as the bytes of one request."""
    lines = [f"{method} {path} HTTP/1.1", "host: receiver.test"]
    lines += [f"{name}: {value}" for name, value in delivery.headers.items()]
    if not {"content-length", "transfer-encoding"} & delivery.headers.keys():
        lines.append(f"content-length: {len(delivery.body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + delivery.body
