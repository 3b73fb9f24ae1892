"""The stage: the soak's folder, the small disk in it, and the services that run there."""

import asyncio
import base64
import json
import os
import sqlite3
import sys
import time
import uuid
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import aiohttp

from soak import calls
from soak.clocks import TestClock
from soak.disk import SmallDisk
from soak.effects import VARIABLE
from soak.journal import Journal
from soak.plan import Plan
from soak.service import Service
from support.deliveries import Sender
from support.ports import free_ports
from support.processes import clean_environment
from wakegate_console import child

TESTS = str(Path(__file__).parents[1])
READY_S = 60.0
INSTANCES = ("refund-desk", "payout-desk")
"""The first is delivered to by the provider and by the load; the second by the provider alone."""
_LATEST = "SELECT request_id FROM requests WHERE instance_id = ? ORDER BY rowid DESC LIMIT 20"


class Stuck(Exception):
    """The stage does not come up, or a command fails on it."""


class Stage:
    """Everything that the soak plays on; nothing of it is outside its folder."""

    def __init__(self, folder: Path, plan: Plan, wake_port: int) -> None:
        """Lay out the folder, which must exist and be empty, and mount the small disk in it."""
        self.folder = folder
        self.plan = plan
        self.journal = Journal(folder / "journal.jsonl")
        self.acknowledgements = Journal(folder / "acknowledged.jsonl")
        self.disk = SmallDisk(folder / "disk", plan.disk_bytes)
        self.database = self.disk.folder / "wakegate.db"
        self.provider_database = folder / "provider.db"
        (folder / "fences").mkdir()
        (folder / "policy.toml").write_text(calls.policy())
        receiver, provider = free_ports(2)
        self.provider_url = f"http://127.0.0.1:{provider}"
        self.webhook_url = f"http://127.0.0.1:{receiver}/aap/events"
        (folder / "wakegate.toml").write_text(self._settings(receiver, provider, wake_port))
        self.host_clock = TestClock("host", folder / "host.clock", self.journal)
        self.provider_clock = TestClock("provider", folder / "provider.clock", self.journal)
        self.services = self._services()
        self.start_s = 1.0
        """How long a service takes to start on this machine as it is, in seconds."""
        self._secret = f"whsec_{base64.b64encode(os.urandom(32)).decode()}"
        self.sender = Sender(self._secret, "")

    async def open(self) -> None:
        """Start the services, one after the other, and make the instances."""
        await self.service("provider").start()
        await self.service("receiver").start()
        self.start_s = await self._until_ready()
        await self._enrol()
        for service in self.services:
            if service.role in ("worker", "harness"):
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
        """Take the small disk away."""
        self.disk.unmount()

    def _services(self) -> list[Service]:
        per_second = str(self.plan.calls_per_s)
        python = [sys.executable, "-P", "-m", "soak.harness", str(os.getpid())]
        commands = {
            "provider": child.command("provider", "run"),
            "receiver": child.command("receiver"),
            **{f"worker-{number}": child.command("worker") for number in range(1, self.plan.workers + 1)},
            **{
                name: [*python, name, str(self.plan.seed), per_second, *INSTANCES]
                for name in (f"harness-{number}" for number in range(1, self.plan.harnesses + 1))
            },
        }
        return [
            Service(
                name,
                command,
                self._environment(self.provider_clock if name == "provider" else self.host_clock),
                self.folder,
                self.journal,
            )
            for name, command in commands.items()
        ]

    def _environment(self, clock: TestClock) -> Mapping[str, str]:
        return clean_environment() | {
            "PYTHONPATH": os.pathsep.join(filter(None, (TESTS, os.environ.get("PYTHONPATH")))),
            "WAKEGATE_CONFIG": str(self.folder / "wakegate.toml"),
            "WAKEGATE_TEST_CLOCK": str(clock.file),
            VARIABLE: str(self.folder),
        }

    def _settings(self, receiver: int, provider: int, wakes: int) -> str:
        values = {
            "database": f"sqlite:///{self.database}",
            "listen": f"127.0.0.1:{receiver}",
            "tools": "soak.tools",
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
        control = self.disk.folder / "wakegate.sock"
        while not (await _answers(self.provider_url) and await _answers("http://receiver/readyz", control)):
            if time.monotonic() - began > READY_S:
                raise Stuck(f"provider and receiver are not ready after {READY_S:g} s; see {self.folder}/*.log")
            await asyncio.sleep(0.1)
        return time.monotonic() - began

    async def _enrol(self) -> None:
        """Make one instance with a secret of our own, and one the usual way."""
        token_file = str(self.folder / "provisioner.token")
        provider = ("--provider-url", self.provider_url)
        registration_id = str(uuid.uuid4())
        secret_file = _secret_file(self.folder / "load.secret", self._secret)
        await self.command(
            "instance", "import", *provider, "--registration-id", registration_id,
            "--secret-file", secret_file, "--name", INSTANCES[0],
        )  # fmt: skip
        made = await self._create_instance(registration_id)
        self.sender.instance_id = made["instance"]["id"]
        credential = _secret_file(self.folder / "load.credential", made["credential"]["token"])
        await self.command("instance", "credential", INSTANCES[0], "--credential-file", credential)
        await self.command(
            "instance", "provision", *provider, "--provisioner-token-file", token_file,
            "--url", self.webhook_url, "--name", INSTANCES[1],
        )  # fmt: skip

    async def _create_instance(self, registration_id: str) -> dict[str, dict[str, str]]:
        token = (self.folder / "provisioner.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": registration_id}
        delivery = {
            "type": "webhook",
            "url": self.webhook_url,
            "registration_id": registration_id,
            "signing_secret": self._secret,
        }
        body = {"instance_name": INSTANCES[0], "delivery": delivery}
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self.provider_url}/v1/instances", json=body, headers=headers) as response,
        ):
            if response.status not in (200, 201):
                raise Stuck(f"the provider made no instance: {response.status} {await response.text()}")
            made: dict[str, dict[str, str]] = await response.json()
            return made


def _secret_file(path: Path, value: str) -> str:
    path.touch(mode=0o600)
    path.write_text(value)
    return str(path)


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
