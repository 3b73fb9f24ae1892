"""wakegate as `init --system` installs it, on a machine of its own: two services as their users, and a provider beside.

Where systemd would hand a service copies of its secrets, this does: in a directory that only that service's user reads.
"""

import contextlib
import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from support.machine import WAKEGATE, Machine, Who, machine
from support.ports import free_port
from wakegate_console import layout

PATIENCE_S = 90.0
PROVIDER = Who(61_003, 61_003)
"""Another user of the machine, who has nothing to do with wakegate; it runs the provider to try with."""
HARNESS_UID = 61_001

TOOLS = """
from pathlib import Path
from wakegate_worker import Attempt, tool

@tool(version="1", timeout=5)
async def issue_refund(attempt: Attempt, amount: int) -> dict[str, object]:
    return {"refunded": amount}
"""

CALL = """
import http.client, json, socket, sys, time

class Control(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(90)
        self.sock.connect("/run/wakegate/control.sock")

def ask(method, path, body=None):
    connection = Control("wakegate")
    connection.request(method, path, None if body is None else json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())

key = sys.argv[1]
status, said = ask("POST", "/v1/executions", {"tool": "issue_refund", "arguments": {"amount": 49}, "key": key})
until = time.monotonic() + 200
while status in (200, 201) and said["state"] in ("saved", "submitting", "waiting", "permitted", "started"):
    assert time.monotonic() < until, said
    status, said = ask("GET", f"/v1/executions/{said['execution_id']}?unlike={said['id']}&wait=20")
print(json.dumps([status, said]))
"""
"""A harness without wakegate: it suspends a call over the socket, waits for its end, and prints it."""


@dataclass
class Installed:
    """The machine, and what runs on it."""

    machine: Machine
    listen: str
    provider: str
    running: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def receiver(self) -> Who:
        """The receiver's user."""
        return self.machine.user(layout.RECEIVER_USER)

    @property
    def worker(self) -> Who:
        """The worker's user."""
        return self.machine.user(layout.WORKER_USER)

    @property
    def harness(self) -> Who:
        """A harness's user, in the group of the control socket and in no other."""
        group = self.machine.gid(layout.HARNESS_GROUP)
        return Who(HARNESS_UID, 61_001, (group,))

    @property
    def stranger(self) -> Who:
        """Any other user of the machine."""
        return Who(61_002, 61_002)

    @property
    def provider_url(self) -> str:
        """The provider's base URL."""
        return f"http://{self.provider}"

    @property
    def url(self) -> str:
        """Where the provider delivers."""
        return f"http://{self.listen}/aap/events"

    def start(self, service: str) -> None:
        """Start a service as its installed unit says: command, user, group, folder, mask, environment, credentials."""
        unit = self._unit(service)
        who = self.machine.user(unit["User"][0])
        assert who.gid == self.machine.gid(unit["Group"][0])
        handed = self._handed(service, unit["LoadCredential"], who)
        settings = dict(each.replace("%d", handed).split("=", 1) for each in unit["Environment"])
        masked = f"umask {unit['UMask'][0]} && exec {unit['ExecStart'][0]}"
        self._begin(
            service, "sh", "-c", masked, who=who, cwd=unit.get("WorkingDirectory", ["/"])[0],
            CREDENTIALS_DIRECTORY=handed, **settings,
        )  # fmt: skip

    def start_provider(self) -> None:
        """Start the provider, which approves everything."""
        home = self.machine.outside("/var/lib/provider")
        home.mkdir()
        (home / "policy.toml").write_text('[[rule]]\ntool = "*"\ndecision = "approve"\n')
        self.machine.run("chown", "-R", f"{PROVIDER.uid}:{PROVIDER.gid}", "/var/lib/provider")
        self._begin(
            "provider", WAKEGATE, "provider", who=PROVIDER, cwd="/var/lib/provider",
            WAKEGATE_PROVIDER_LISTEN=self.provider, WAKEGATE_PROVIDER_POLICY_FILE="policy.toml",
        )  # fmt: skip
        token = self.machine.outside("/var/lib/provider/provisioner.token")
        self._until(token.exists, "provider")

    def stop(self, service: str) -> int:
        """Stop a service and return its exit code."""
        process = self.running.pop(service)
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE_S)

    def ready(self, *services: str) -> None:
        """Wait until these say that they work."""
        for service in services:
            self._until(partial(self.says, service, _READY[service]), service)

    def root(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command as the operator does: as root, with the settings file named."""
        return self.machine.wakegate("--config", str(layout.SETTINGS), *arguments)

    def fine(self, *arguments: str) -> str:
        """Run a command as the operator, which must be fine, and return what it said."""
        done = self.root(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def log(self, service: str) -> str:
        """What a service has logged."""
        path = self._log(service)
        return path.read_text() if path.exists() else ""

    def says(self, service: str, words: str) -> bool:
        """Whether a service that runs has logged this."""
        return words in self.log(service)

    def _begin(self, name: str, *command: str, who: Who, cwd: str, **settings: str) -> None:
        self._log(name).unlink(missing_ok=True)
        self.running[name] = self.machine.start(*command, who=who, cwd=cwd, log=self._log(name), **settings)

    def _log(self, name: str) -> Path:
        return self.machine.top / f"{name}.log"

    def _unit(self, service: str) -> dict[str, list[str]]:
        """What its installed unit says, by name."""
        name = "wakegate-receiver.service" if service == "receiver" else "wakegate-worker@.service"
        found: dict[str, list[str]] = {}
        for line in self.machine.outside(layout.UNITS / name).read_text().splitlines():
            key, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                found.setdefault(key, []).append(value)
        return found

    def _handed(self, service: str, credentials: list[str], who: Who) -> str:
        """Hand a service its secrets as systemd does, and return where they are."""
        folder = f"/run/credentials/wakegate-{service}.service"
        lines = [f"rm -rf {folder}", f"mkdir -p {folder}"]
        for credential in credentials:
            name, source = credential.split(":")
            lines.append(f"install -m 0400 -o {who.uid} -g {who.gid} {source} {folder}/{name}")
        lines += [f"chown {who.uid}:{who.gid} {folder}", f"chmod 0500 {folder}"]
        made = self.machine.run("sh", "-ec", "\n".join(lines))
        assert made.returncode == 0, made.stderr
        return folder

    def _until(self, holds: Callable[[], bool], service: str) -> None:
        until = time.monotonic() + PATIENCE_S
        while not holds():
            process = self.running[service]
            assert process.poll() is None, f"{service} ended: {self.log(service)}"
            assert time.monotonic() < until, f"{service}: {self.log(service)}"
            time.sleep(0.05)


_READY = {"receiver": "listening", "worker": "ready", "provider": "listening"}


@contextmanager
def installed() -> Iterator[Installed]:
    """Install it, and start provider, receiver and worker; an instance `refund-desk` is provisioned by root."""
    with machine() as made:
        site = Installed(made, f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}")
        done = made.wakegate("init", "--system")
        assert done.returncode == 0, done.stdout + done.stderr
        configure(site)
        try:
            site.start_provider()
            for service in ("receiver", "worker"):
                site.start(service)
            site.ready("provider", "receiver", "worker")
            provision(site)
            yield site
        finally:
            for process in site.running.values():
                with contextlib.suppress(ProcessLookupError):
                    process.terminate()
            for process in site.running.values():
                process.wait(PATIENCE_S)


def configure(site: Installed) -> None:
    """Edit the settings file as an operator does, and put a tool where the worker looks."""
    path = site.machine.outside(layout.SETTINGS)
    text = path.read_text()
    for name, value in {"listen": site.listen, "tools": "my_tools"}.items():
        text, count = re.subn(rf"^#{name} = .*$", f'{name} = "{value}"', text, flags=re.MULTILINE)
        assert count == 1
    path.write_text(text)
    tool = site.machine.outside(layout.TOOLS / "my_tools.py")
    tool.write_text(TOOLS)
    tool.chmod(0o644)


def provision(site: Installed) -> None:
    """Make an instance, as root, who alone reads both keys."""
    site.machine.run("install", "-m", "0600", "/var/lib/provider/provisioner.token", "/etc/wakegate/credentials/token")
    where = ("--provider-url", site.provider_url, "--url", site.url, "--wait", "60")
    token = ("--provisioner-token-file", "/etc/wakegate/credentials/token")
    site.fine("instance", "provision", *where, *token, "--name", "refund-desk")


PROBE = """
import json, os, sys
found = {}
for path in json.loads(sys.argv[1]):
    rights = ""
    for right, flags in (("r", os.O_RDONLY), ("w", os.O_WRONLY)):
        try:
            os.close(os.open(path, flags | os.O_NONBLOCK))
            rights += right
        except PermissionError:
            pass
        except IsADirectoryError:
            if os.access(path, os.W_OK):
                rights += right
    found[path] = rights
print(json.dumps(found))
"""


def rights(site: Installed, who: Who, paths: list[str]) -> dict[str, str]:
    """What a user may do with each of these: '', 'r', 'w' or 'rw'; of a directory, list it and make files in it."""
    done = site.machine.run("/opt/python/bin/python3", "-c", PROBE, json.dumps(paths), who=who)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found
