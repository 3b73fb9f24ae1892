"""A store, perhaps a Redis, and services on them as real processes; every commit is synced to disk."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from support.ports import free_port
from support.processes import clean_environment
from support.servers import PostgresServer, RedisServer
from wakegate_schema.keys import FileSealer, ensure_key
from wakegate_schema.queue import QueueLocation
from wakegate_schema.store import migrate_store
from wakegate_schema.store.location import StoreLocation

Kind = Literal["SQLite", "PostgreSQL"]
KINDS: tuple[Kind, ...] = ("SQLite", "PostgreSQL")
ROOT = Path(__file__).parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")
_PATIENCE_S = 120.0


@dataclass
class Ground:
    """Where services run."""

    folder: Path
    url: str
    server: PostgresServer | None
    queue: RedisServer | None
    started: list["Service"] = field(default_factory=list)

    @property
    def location(self) -> StoreLocation:
        """The store and its queue, for the measuring process itself."""
        return StoreLocation(self.url, queue=QueueLocation(self.queue.url()) if self.queue else QueueLocation())

    @property
    def receiver_key(self) -> FileSealer:
        """The receivers' key."""
        return ensure_key(self.folder / "receiver.key")

    @property
    def worker_key(self) -> FileSealer:
        """The workers' key."""
        return ensure_key(self.folder / "worker.key")

    async def start(self, name: str, word: str, **settings: str) -> "Service":
        """Start `wakegate receiver` or `worker`, and wait until its log has a word."""
        number = len(self.started)
        port = free_port()
        given = {
            "WAKEGATE_DATABASE": self.url,
            "WAKEGATE_QUEUE": self.queue.url() if self.queue else "embedded",
            "WAKEGATE_LISTEN": f"127.0.0.1:{port}",
            "WAKEGATE_CONTROL": str(self.folder / f"c{number}.sock"),
            "WAKEGATE_REFUSALS_FILE": str(self.folder / f"refusals-{number}"),
            "WAKEGATE_RATE_LIMIT": "1000000",
            "WAKEGATE_TOOLS": "benchmarks.scale.tools",
            "PYTHONPATH": str(ROOT),
        }
        log = self.folder / f"{name}-{number}.log"
        with log.open("wb") as out:
            process = await asyncio.create_subprocess_exec(
                str(Path(sys.executable).with_name("wakegate")), name, stdout=out, stderr=out, cwd=self.folder,
                env=clean_environment() | given | settings,
            )  # fmt: skip
        service = Service(process, port)
        self.started.append(service)
        async with asyncio.timeout(_PATIENCE_S):
            while word not in log.read_text():
                if process.returncode is not None:
                    raise RuntimeError(log.read_text())
                await asyncio.sleep(0.05)
        return service

    async def end(self) -> None:
        """End every service."""
        for each in self.started:
            if each.process.returncode is None:
                each.process.send_signal(signal.SIGTERM)
        for each in self.started:
            await each.process.wait()
        self.started.clear()

    def database_cpu_s(self) -> float:
        """Processor seconds of PostgreSQL so far; 0 for SQLite, which computes in the services."""
        return 0.0 if self.server is None else cpu_s(self.server.pid, children=True)


@dataclass
class Service:
    """One process."""

    process: asyncio.subprocess.Process
    port: int

    @property
    def cpu_s(self) -> float:
        """Processor seconds so far, with those of the processes it has started."""
        return cpu_s(self.process.pid, children=True)


@asynccontextmanager
async def ground(kind: Kind, *, redis: bool = False, logging: bool = False) -> AsyncIterator[Ground]:
    """Make a store, durable as a deployment's; it ends with the block.

    Args:
        kind: of the database.
        redis: with a queue in Redis.
        logging: PostgreSQL logs every statement.
    """
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as name, _queue(redis) as queue:
        folder = Path(name)
        if kind == "SQLite":
            await migrate_store(url := f"sqlite:///{folder}/wakegate.db")
            made = Ground(folder, url, None, queue)
            try:
                yield made
            finally:
                await made.end()
            return
        settings = {"synchronous_commit": "on"} | ({"log_statement": "all"} if logging else {})
        with PostgresServer(durable=True, settings=settings) as server:
            await migrate_store(url := server.url(server.create_database("wakegate")))
            made = Ground(folder, url, server, queue)
            try:
                yield made
            finally:
                await made.end()


@contextmanager
def _queue(wanted: bool) -> Iterator[RedisServer | None]:
    if not wanted:
        yield None
        return
    with RedisServer() as server:
        yield server


def cpu_s(pid: int, *, children: bool = False) -> float:
    """Processor seconds of a process, and of its children that run or have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = sum(int(each) for each in fields[11 : 15 if children else 13]) / _TICKS
    if not children:
        return own
    running = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own + sum(cpu_s(int(each)) for each in running)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table as the pages have them."""
    print(f"{title}\n")
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(str(each) for each in row)} |")
    print(flush=True)
