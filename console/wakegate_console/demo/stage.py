"""The demo's stage: a directory with settings, a policy and a ledger, and the services that run in it."""

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import aiohttp

from wakegate_console.demo import ledger
from wakegate_console.demo.processes import Processes, clean_environment
from wakegate_schema.errors import WakegateError
from wakegate_schema.keys import ensure_key
from wakegate_schema.settings import Settings, load_settings

POLL_S = 0.05
"""How long to wait between two looks."""

POLICY = """\
[[rule]]
tool = "issue_small_refund"
decision = "approve"
"""


class DemoFailed(WakegateError):
    """The demo did not come to its end."""

    reason = "demo_failed"


class Stage:
    """Everything the demo plays on; nothing of it is outside its directory."""

    def __init__(self, directory: Path, elsewhere: Mapping[str, str]) -> None:
        """Lay out the directory, which must exist and be empty.

        Args:
            directory: where.
            elsewhere: settings that lead to a database or a queue elsewhere.

        Raises:
            SettingsError: the directory's own path cannot be used, for being too long perhaps.
        """
        self.directory = directory
        self.ledger = directory / "ledger.jsonl"
        receiver_port, provider_port = _free_ports(2)
        config = directory / "wakegate.toml"
        config.write_text(_toml(directory, receiver_port, provider_port, elsewhere))
        (directory / "policy.toml").write_text(POLICY)
        self.settings: Settings = load_settings(config, environ=clean_environment())
        if self.settings.store.is_postgresql:  # no service makes a key that a setting names
            ensure_key(self.settings.receiver_key_path)
            ensure_key(self.settings.worker_key_path)
        self.provider_url = f"http://127.0.0.1:{provider_port}"
        self.webhook_url = f"http://127.0.0.1:{receiver_port}{self.settings.events_path}"
        self.processes = Processes(
            directory,
            {
                "WAKEGATE_CONFIG": str(config),
                **{f"WAKEGATE_{name.upper()}": value for name, value in elsewhere.items()},
                "WAKEGATE_DATABASE": self.settings.database,
                ledger.VARIABLE: str(self.ledger),
            },
        )

    async def open(self) -> None:
        """Start provider, receiver and worker, and wait until they can be spoken to."""
        await self.processes.start("provider", "provider", "run")
        await self.processes.start("receiver", "receiver")
        await self.start_worker()
        await self.until("the provider to answer", self._provider_answers, 15)
        await self.until("the receiver to be ready", self._receiver_is_ready, 15)

    async def start_worker(self) -> None:
        """Start a worker."""
        await self.processes.start("worker", "worker")

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]], within: float) -> None:
        """Wait until something holds.

        Args:
            what: is waited for, for the error.
            holds: looks whether it is so.
            within: seconds.

        Raises:
            DemoFailed: it took too long.
            ProcessFailed: a service has ended meanwhile.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while not await holds():
            self.processes.check()
            if loop.time() > deadline:
                raise DemoFailed(f"waited {within:g} s for {what}, in vain")
            await asyncio.sleep(POLL_S)

    async def _provider_answers(self) -> bool:
        return await _status(None, f"{self.provider_url}/") is not None

    async def _receiver_is_ready(self) -> bool:
        return await _status(str(self.settings.control_address), "http://receiver/readyz") == 200


async def _status(socket_path: str | None, url: str) -> int | None:
    """Return the status of an answer, or None when nobody answers yet."""
    connector = aiohttp.TCPConnector() if socket_path is None else aiohttp.UnixConnector(socket_path)
    timeout = aiohttp.ClientTimeout(total=2)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            return response.status
    except (aiohttp.ClientError, TimeoutError, OSError):
        return None


def _free_ports(count: int) -> list[int]:
    """Return loopback ports that nobody uses now."""
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


_HOME = {
    "control": "wakegate.sock",
    "receiver_key_file": "receiver.key",
    "worker_key_file": "worker.key",
}
"""What lies beside an SQLite file by itself, and that this process uses too."""


def _toml(directory: Path, receiver_port: int, provider_port: int, elsewhere: Mapping[str, str]) -> str:
    values = {
        "database": f"sqlite:///{directory}/wakegate.db",
        **elsewhere,
        **({name: f"{directory}/{file}" for name, file in _HOME.items()} if "database" in elsewhere else {}),
        "listen": f"127.0.0.1:{receiver_port}",
        "tools": "wakegate_console.demo.tools",
        "lease_seconds": 3,
        "sweep_seconds": 0.2,
        "provider_listen": f"127.0.0.1:{provider_port}",
        "provider_database": f"sqlite:///{directory}/provider.db",
        "provider_policy_file": os.fspath(directory / "policy.toml"),
        "log_format": "json",
    }
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())
