"""The services that an example runs beside: an approval provider, a receiver, a worker, and a person who decides."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_S = 120.0
"""How long any one thing may take, in seconds."""
INSTANCE = "refund-desk"


class ExampleFailed(Exception):
    """The example did not come to its end as it must."""


class Services:
    """Everything is in one folder. What is done here is what an operator does, by the `wakegate` command alone."""

    def __init__(self, folder: Path, **more: str) -> None:
        """Write the settings, with more of them if wanted; start nothing."""
        self.folder = folder
        self.control = folder / "control.sock"
        self.port, provider = _free_ports(2)
        self.provider_url = f"http://127.0.0.1:{provider}"
        self.provisioner_token = folder / "provisioner.token"
        self._running: list[subprocess.Popen[bytes]] = []
        values = {
            "database": f"sqlite:///{folder}/wakegate.db",
            "listen": f"127.0.0.1:{self.port}",
            "control": str(self.control),
            "provider_listen": f"127.0.0.1:{provider}",
            "provider_database": f"sqlite:///{folder}/provider.db",
            "sweep_seconds": 0.2,
            **more,
        }
        self.settings = folder / "wakegate.toml"
        self.settings.write_text("".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items()))

    def add_wake(self, name: str, argv: list[str]) -> None:
        """Let the worker start a program under this name."""
        with self.settings.open("a") as settings:
            settings.write(f'\n[wake.{name}]\nkind = "command"\nargv = {json.dumps(argv)}\ntimeout = 60\n')

    def start(self) -> None:
        """Start provider, receiver and worker, and make an instance."""
        self.start_provider()
        self.start_wakegate()
        self.provision()

    def start_provider(self) -> None:
        """Start the provider."""
        self._start("provider", "run")

    def start_wakegate(self) -> None:
        """Start receiver and worker."""
        self._start("up")

    def provision(self, *more: str) -> None:
        """Make an instance, when provider and receiver listen."""
        self.wakegate(
            "instance", "provision", "--provider-url", self.provider_url, "--name", INSTANCE, "--wait", "60",
            "--url", f"http://127.0.0.1:{self.port}/aap/events",
            "--provisioner-token-file", str(self.provisioner_token), *more,
        )  # fmt: skip

    def decide(self, payment: str, decision: str, note: str) -> None:
        """Wait for the request about a payment, and decide it as a person would."""
        found: list[str] = []

        def asked() -> bool:
            requests = self.listing("provider", "requests", "--state", "pending", "--payload")
            found[:] = [each["request_id"] for each in requests if payment in json.dumps(each)]
            return bool(found)

        self.until(f"the request to refund {payment}", asked)
        self.wakegate("provider", "decide", found[0], decision, "--note", note)

    def states(self) -> dict[str, str]:
        """Return where each call stands, by its key."""
        return {each["key"]: each["state"] for each in self.listing("execution", "list")}

    def listing(self, *arguments: str) -> list[dict[str, Any]]:
        """Return what `wakegate … --json` lists."""
        found: list[dict[str, Any]] = json.loads(self.wakegate(*arguments, "--json"))
        return found

    def wakegate(self, *arguments: str) -> str:
        """Run a command of the operator and return what it says. Raises ExampleFailed."""
        done = subprocess.run(
            self._command(*arguments),
            cwd=self.folder,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ExampleFailed(f"wakegate {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait until something holds. Raises ExampleFailed if it takes too long or a service has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if any(process.poll() is not None for process in self._running):
                raise ExampleFailed("a service has ended by itself")
            if time.monotonic() > deadline:
                raise ExampleFailed(f"waited {PATIENCE_S:g} s for {what}, in vain")
            time.sleep(0.5)

    def stop(self) -> None:
        """Tell the services to end, and wait until they have."""
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, *arguments: str) -> None:
        with (self.folder / f"{arguments[0]}.log").open("ab") as log:
            self._running.append(
                subprocess.Popen(
                    self._command(*arguments), cwd=self.folder, env=self._environment(), stdout=log, stderr=log
                )
            )

    def _command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "wakegate_console", "--config", str(self.settings), *arguments]

    def _environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("WAKEGATE_")}


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for each in held:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()
