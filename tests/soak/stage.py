"""The stage: the soak's folder, the servers, the small disk, and the services that run there."""

import asyncio
import base64
import json
import os
import sqlite3
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import aiohttp

from soak import calls
from soak.clocks import TestClock
from soak.disk import SmallDisk
from soak.effects import VARIABLE
from soak.enrolling import INSTANCES, enrol
from soak.journal import Journal
from soak.plan import Plan
from soak.servers import DATABASE, Servers
from soak.service import Service
from soak.stuck import Stuck
from support.deliveries import Sender
from support.ports import free_ports
from support.processes import clean_environment
from wakegate_console import child

TESTS = str(Path(__file__).parents[1])
READY_S = 60.0
POOLED = ("receiver-2", "worker-2", "worker-3")
"""Who reaches PostgreSQL through the pooler; the others reach it directly."""
_LATEST = "SELECT request_id FROM requests WHERE instance_id = ? ORDER BY rowid DESC LIMIT 20"


class Stage:
    """Everything that the soak plays on; nothing of it is outside its folder, but for what servers make for a while."""

    def __init__(self, folder: Path, plan: Plan, wake_port: int) -> None:
        """Lay out the folder, which must exist and be empty; start the servers, or mount the small disk in it."""
        self.folder = folder
        self.plan = plan
        self.journal = Journal(folder / "journal.jsonl")
        self.journal.note(event="ground", ground=str(plan.ground))
        self.acknowledgements = Journal(folder / "acknowledged.jsonl")
        self.disk = None if plan.ground.is_postgresql else SmallDisk(folder / "disk", plan.disk_bytes)
        self.home = self.disk.folder if self.disk else folder
        """Where keys and sockets are."""
        self.servers = Servers(plan.ground)
        self.servers.start()
        self.database = self.home / "wakegate.db"
        """The store's file, where it is one."""
        self.url = self.servers.postgres.url(DATABASE) if plan.ground.is_postgresql else f"sqlite:///{self.database}"
        self.provider_database = folder / "provider.db"
        (folder / "fences").mkdir()
        (folder / "policy.toml").write_text(calls.policy())
        provider, *receivers = free_ports(1 + plan.receivers)
        self.provider_url = f"http://127.0.0.1:{provider}"
        self._receivers = [f"127.0.0.1:{port}" for port in receivers]
        self.webhook_urls = [f"http://{address}/aap/events" for address in self._receivers]
        (folder / "wakegate.toml").write_text(self._settings(provider, wake_port))
        self.host_clock = TestClock("host", folder / "host.clock", self.journal)
        self.provider_clock = TestClock("provider", folder / "provider.clock", self.journal)
        self.services = self._services()
        self.start_s = 1.0
        """How long a service takes to start on this machine as it is, in seconds."""
        self.secret = f"whsec_{base64.b64encode(os.urandom(32)).decode()}"
        self.sender = Sender(self.secret, "")

    async def open(self) -> None:
        """Start the services, one after the other, and make the instances."""
        if self.plan.ground.is_postgresql:
            await self.command("db", "migrate")
        for role in ("provider", "receiver"):
            await self._start(role)
        self.start_s = await self._until_ready()
        await enrol(self)
        for role in ("worker", "harness"):
            await self._start(role)

    async def _start(self, role: str) -> None:
        for service in self.services:
            if service.role == role:
                await service.start()

    def service(self, name: str) -> Service:
        """Return a service by its name."""
        return next(service for service in self.services if service.name == name)

    async def command(self, *arguments: str) -> str:
        """Run `wakegate …` as an operator does and return what it wrote.

        Raises:
            Stuck: it failed.
        """
        process = await asyncio.create_subprocess_exec(
            *child.command(*arguments),
            cwd=self.folder,
            env=self._environment(self.host_clock),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        if process.returncode != 0:
            raise Stuck(f"wakegate {' '.join(arguments)}: exit code {process.returncode}: {err.decode().strip()}")
        return out.decode()

    def requests(self) -> list[str]:
        """Return ids of requests that the provider has had lately for the load's instance, whatever became of them."""
        url = f"file:{self.provider_database}?mode=ro"
        try:
            with closing(sqlite3.connect(url, uri=True, timeout=0.1)) as connection:
                return [row[0] for row in connection.execute(_LATEST, (self.sender.instance_id,))]
        except sqlite3.OperationalError:  # a provider that has just been killed leaves its log to be recovered
            return []

    def close(self) -> None:
        """Keep what the small disk or the servers hold, and take them away."""
        try:
            if self.disk:
                self.disk.free()
                self.disk.copy(self.folder / "store")
                self.disk.unmount()
            self.servers.keep(self.folder)
        finally:
            self.servers.close()

    def _services(self) -> list[Service]:
        plan, host = self.plan, self.host_clock
        made = [self._service("provider", child.command("provider", "run"), self.provider_clock, {})]
        for number, address in enumerate(self._receivers, 1):
            own = {"WAKEGATE_LISTEN": address, "WAKEGATE_CONTROL": str(self._control(number))}
            own["WAKEGATE_REFUSALS_FILE"] = str(self.home / f"refusals-{number}.jsonl")
            made.append(self._service(f"receiver-{number}", child.command("receiver"), host, own))
        for number, (pool, tools) in enumerate(plan.pools, 1):
            own = {"WAKEGATE_POOL": pool, "WAKEGATE_TOOLS": tools}
            made.append(self._service(f"worker-{number}", child.command("worker"), host, own))
        python = [sys.executable, "-P", "-m", "soak.harness", str(os.getpid())]
        for number, over_control in enumerate(plan.harnesses, 1):
            way = str(self._control(plan.receivers)) if over_control else "store"
            arguments = [f"harness-{number}", str(plan.seed), str(plan.calls_per_s), way, *INSTANCES]
            made.append(self._service(f"harness-{number}", [*python, *arguments], host, {}))
        return made

    def _service(self, name: str, command: list[str], clock: TestClock, own: Mapping[str, str]) -> Service:
        """Make a service with settings of its own; some reach PostgreSQL through the pooler."""
        pooled = {}
        if self.plan.ground.is_postgresql and name in POOLED:
            pooled["WAKEGATE_DATABASE"] = self.servers.pooler.url(DATABASE)
        return Service(name, command, {**self._environment(clock), **own, **pooled}, self.folder, self.journal)

    def _environment(self, clock: TestClock) -> Mapping[str, str]:
        return clean_environment() | {
            "PYTHONPATH": os.pathsep.join(filter(None, (TESTS, os.environ.get("PYTHONPATH")))),
            "WAKEGATE_CONFIG": str(self.folder / "wakegate.toml"),
            "WAKEGATE_TEST_CLOCK": str(clock.file),
            VARIABLE: str(self.folder),
        }

    def _control(self, number: int) -> Path:
        return self.home / f"receiver-{number}.sock"

    def _settings(self, provider: int, wakes: int) -> str:
        values = {
            "database": self.url,
            "queue": self.servers.redis.url() if self.plan.ground.has_redis else "embedded",
            "wake_secret_file": os.fspath(self.home / "wake.secret"),
            "lease_seconds": self.plan.lease_s,
            "sweep_seconds": 0.2,
            "provider_listen": f"127.0.0.1:{provider}",
            "provider_database": f"sqlite:///{self.provider_database}",
            "provider_policy_file": os.fspath(self.folder / "policy.toml"),
            "log_format": "json",
        }
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in values.items()]
        target = f'\n[wake.{calls.WAKE_TARGET}]\nkind = "http"\nurl = "http://127.0.0.1:{wakes}/wakes"\n'
        return "".join(lines) + target

    async def _until_ready(self) -> float:
        began = time.monotonic()
        while not await self._all_answer():
            if time.monotonic() - began > READY_S:
                raise Stuck(f"provider and receivers are not ready after {READY_S:g} s; see {self.folder}/*.log")
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async def _all_answer(self) -> bool:
        ready = [
            await _answers("http://receiver/readyz", self._control(number))
            for number in range(1, self.plan.receivers + 1)
        ]
        return all(ready) and await _answers(self.provider_url)


async def _answers(url: str, unix_socket: Path | None = None) -> bool:
    connector = aiohttp.TCPConnector() if unix_socket is None else aiohttp.UnixConnector(str(unix_socket))
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=2)) as session,
            session.get(url) as response,
        ):
            return unix_socket is None or response.status == 200
    except (aiohttp.ClientError, TimeoutError, OSError):
        return False
