"""Receiver and worker as real processes on one store, a peer that decides, and a sender that notifies."""

import asyncio
import contextlib
import json
import signal
import ssl
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from support import warm
from support.aap_peer import Peer
from support.deliveries import Delivery, Sender
from support.processes import clean_environment
from support.receivers import Client, Registered, Reply, Running, request_bytes, settings_in
from support.workers import WorkerDesk, eventually
from wakegate_receiver.stopping import Stop
from wakegate_schema.records import Execution
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store, open_store

PATIENCE_S = 60.0
"""How long something may take on a machine that has other things to do."""
RECEIVER = (
    "import gc; gc.disable(); from wakegate_receiver import run; from wakegate_schema import logs;"
    "from wakegate_schema.settings import load_settings; gc.freeze(); gc.enable();"
    "logs.configure('json'); run(load_settings(None), ready=lambda url: print(url, flush=True))"
)


@dataclass
class Site:
    """One folder with a store, and what is started in it."""

    folder: Path
    settings: Settings
    registered: Registered
    worker: WorkerDesk
    store: Store
    """The test's own way into the store, to look."""
    address: tuple[str, int] = ("", 0)
    tls: ssl.SSLContext | None = None
    """How its clients speak TLS, if it does."""

    @property
    def sender(self) -> Sender:
        """Who notifies."""
        return self.registered.sender

    async def post(self, delivery: Delivery, timeout: float = PATIENCE_S) -> Reply:
        """Post a delivery on a connection of its own."""
        async with Client(self.address, self.tls) as client:
            await client.send(request_bytes(delivery))
            return await client.reply(timeout)

    @asynccontextmanager
    async def receiving(
        self, *, prefix: Sequence[str] = (), **changes: str
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a receiver in a process of its own, behind another command's words; killed at the end, if it runs."""
        process = await self.start_receiver(prefix=prefix, **changes)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(PATIENCE_S):
                url = urlsplit((await process.stdout.readline()).decode().strip())
            assert url.hostname, self.receiver_log
            self.address = url.hostname, url.port or 0
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()

    async def start_receiver(self, *, prefix: Sequence[str] = (), **changes: str) -> asyncio.subprocess.Process:
        """Start a receiver; its URL is the first line it writes."""
        kept = clean_environment()
        environment = {
            "WAKEGATE_DATABASE": self.settings.database,
            "WAKEGATE_LISTEN": "127.0.0.1:0",
            "WAKEGATE_CONTROL": str(self.settings.control_address),
        }
        with self._receiver_log.open("ab") as log:
            if not prefix:
                return await warm.start(
                    "receiver", env=kept | environment | changes, cwd=self.worker.directory, stdout=PIPE, stderr=log
                )
            return await asyncio.create_subprocess_exec(
                *prefix, sys.executable, "-c", RECEIVER, env=kept | environment | changes, cwd=self.worker.directory,
                stdout=asyncio.subprocess.PIPE, stderr=log,
            )  # fmt: skip

    def working(self, **changes: str) -> contextlib.AbstractAsyncContextManager[asyncio.subprocess.Process]:
        """Run a worker in a process of its own; killed at the end, if it still runs."""
        return self.worker.process(WAKEGATE_DATABASE=self.settings.database, **changes)

    @property
    def receiver_log(self) -> str:
        """What all receivers logged."""
        return self._receiver_log.read_text()

    async def ask(self, what: str) -> tuple[int, dict[str, object]]:
        """Ask the receiver's control socket."""
        connector = aiohttp.UnixConnector(str(self.settings.control_address))
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"http://receiver{what}", timeout=aiohttp.ClientTimeout(10)) as answer,
        ):
            return answer.status, await answer.json()

    async def unready(self) -> object:
        """Return the reason why the receiver is not ready, None when it is."""
        status, body = await self.ask("/readyz")
        assert (status == 200) is body["ready"]
        return body.get("reason")

    async def recorded(self) -> set[str]:
        """The event ids on record."""
        found: set[str] = set()
        last, more = 0, True
        while more:
            page = await self.store.notifications(last, 500)
            found |= {entry.event_id for _, entry in page}
            last, more = (page[-1][0], True) if page else (last, False)
        return found

    @property
    def _receiver_log(self) -> Path:
        return self.worker.directory / "receiver.log"


@asynccontextmanager
async def site_in(folder: Path, outside: Path, peer: Peer) -> AsyncIterator[Site]:
    """Make a store in a folder, a registration and an instance; logs and effects are written `outside`."""
    settings = settings_in(folder)
    async with await open_store(settings.database, mode="service") as store:
        registered = await Running(None, settings, store, Stop()).register(provider=peer.url)  # type: ignore[arg-type]
        worker = _Worker(store, outside, peer.url, registered.instance_id, store_folder=folder)
        await store.add_instance(worker.instance(), registered.registration_id)
        yield Site(folder, settings, registered, worker, store)


@dataclass
class _Worker(WorkerDesk):
    store_folder: Path = field(default_factory=Path)

    async def when(
        self, execution_id: str, holds: Callable[[Execution], bool], seconds: float = PATIENCE_S
    ) -> Execution:
        return await super().when(execution_id, holds, max(seconds, PATIENCE_S))

    def settings(self, **changes: object) -> Settings:
        return super().settings(database=f"sqlite:///{self.store_folder}/wakegate.db", **changes)


@dataclass
class Answers:
    """What deliveries were answered."""

    acknowledged: set[str] = field(default_factory=set)
    refused: list[Reply] = field(default_factory=list)
    broken: int = 0
    """How many had no answer."""
    seconds: list[float] = field(default_factory=list)
    """How long each took."""

    async def post(self, site: Site, delivery: Delivery) -> Reply | None:
        """Post one, and keep its answer."""
        began = time.monotonic()
        try:
            reply = await site.post(delivery)
        except (OSError, EOFError, TimeoutError):
            self.broken += 1
            return None
        finally:
            self.seconds.append(time.monotonic() - began)
        if 200 <= reply.status < 300:
            self.acknowledged.add(delivery.headers["webhook-id"])
        else:
            self.refused.append(reply)
        return reply

    @property
    def are_fair(self) -> bool:
        """Whether every refusal was a 503 or a 429 that says when to come back, within five seconds."""
        return all(reply.status in (429, 503) and 1 <= int(reply.headers["retry-after"]) <= 5 for reply in self.refused)


@asynccontextmanager
async def pulse(site: Site) -> AsyncIterator[list[float]]:
    """Ask `/healthz` again and again during the block; gives how long each answer took, in seconds."""
    waits: list[float] = []

    over = False

    async def feel() -> None:
        while not over:
            began = time.monotonic()
            status, _ = await site.ask("/healthz")
            assert status == 200
            waits.append(time.monotonic() - began)
            await asyncio.sleep(0.02)

    task = asyncio.create_task(feel())
    try:
        yield waits
    finally:
        over = True  # what was asked is answered, and counts
        await task


async def until_true(holds: Callable[[], Awaitable[bool] | bool], seconds: float = PATIENCE_S) -> None:
    """Wait until something holds."""
    await eventually(holds, seconds)


async def stop(process: asyncio.subprocess.Process, seconds: float = PATIENCE_S) -> int:
    """Send SIGTERM and return the exit code."""
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(seconds):
        return await process.wait()


def lines_of(text: str, action: str) -> list[dict[str, object]]:
    """Return the JSON log lines with this action."""
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return [line for line in found if line.get("action") == action]


def tell(figures: str) -> None:
    """Show what was measured, to who runs the test with `-s`."""
    print(f"\n{figures}")  # noqa: T201
