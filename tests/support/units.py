"""The systemd units as installed, read, and run as systemd would run them: its part is played by the test."""

import asyncio
import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.machine import Machine, machine
from wakegate_console import layout
from wakegate_schema.settings import Settings

FOLDER = Path(__file__).parents[2] / "systemd"
RECEIVER, WORKER, SOCKET = "wakegate-receiver.service", "wakegate-worker@.service", "wakegate-receiver.socket"
PATIENCE_S = 60.0
_LAUNCH = "/opt/source/tests/support/launch.py"
_PYTHON = "/opt/python/bin/python3"
_SPANS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}


def program(name: str) -> str:
    """Return the path of one of systemd's programs. Without it the test fails in CI, and is skipped elsewhere."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(f"{name} is missing; install systemd")
        pytest.skip(f"{name} is not installed")
    return found


class Unit:
    """A unit file with its drop-ins: every value of every setting, in order."""

    def __init__(self, name: str, folder: Path = FOLDER) -> None:
        self.name = name
        self._values: dict[str, list[str]] = {}
        files = [folder / name, *sorted((folder / f"{name}.d").glob("*.conf"))]
        for line in "".join(file.read_text() for file in files).splitlines():
            setting, equals, value = line.partition("=")
            if equals and not line.startswith(("#", ";")):
                self._values.setdefault(setting, []).append(value)

    def all(self, setting: str) -> list[str]:
        """Every value of a setting."""
        return self._values.get(setting, [])

    def one(self, setting: str) -> str:
        """The value of a setting that has one."""
        (value,) = self._values[setting]
        return value

    def seconds(self, setting: str) -> float:
        """A span of time."""
        spans = re.findall(r"([0-9]+)\s*([a-z]*)", self.one(setting))
        return sum(float(number) * _SPANS[span] for number, span in spans)

    @property
    def environment(self) -> dict[str, str]:
        """What the unit adds to the environment."""
        return {name: value for name, _, value in (each.partition("=") for each in self.all("Environment"))}

    @property
    def credentials(self) -> dict[str, str]:
        """The file of each credential."""
        return {name: path for name, _, path in (each.partition(":") for each in self.all("LoadCredential"))}

    @property
    def syscalls(self) -> list[str]:
        """The system calls that `SystemCallFilter=` leaves."""
        allowed = _calls("@default")
        for value in self.all("SystemCallFilter"):
            names = {name for word in value.lstrip("~").split() for name in _calls(word)}
            allowed = allowed - names if value.startswith("~") else allowed | names
        return sorted(allowed)


def _calls(word: str) -> set[str]:
    """A group of system calls, taken apart."""
    if not word.startswith("@"):
        return {word}
    told = subprocess.run(
        [program("systemd-analyze"), "syscall-filter", "--no-pager", word], capture_output=True, text=True, check=True
    ).stdout
    lines = [line.strip() for line in told.splitlines()[1:]]
    return {name for line in lines if line and not line.startswith("#") for name in _calls(line)}


@dataclass
class Manager:
    """The test, as the service manager of a machine: it listens for a service, and hears what that says."""

    machine: Machine
    heard: list[tuple[float, str]] = field(default_factory=list)
    """When, by the monotonic clock, and what."""
    listening: list[socket.socket] = field(default_factory=list)
    """What it passes on; it goes on listening whatever becomes of the service."""

    def unit(self, name: str) -> Unit:
        """An installed unit."""
        return Unit(name, self.machine.outside(layout.UNITS))

    @property
    def settings(self) -> Settings:
        """Where the deployment has its store and its keys, as seen from here."""
        credentials = self.machine.outside(layout.CREDENTIALS)
        return Settings.model_validate(
            {
                "database": f"sqlite:///{self.machine.outside(layout.STORE)}",
                "control": str(self.machine.outside(layout.CONTROL)),
                "receiver_key_file": str(credentials / "receiver_key"),
                "worker_key_file": str(credentials / "worker_key"),
            }
        )

    @property
    def control(self) -> Path:
        """The control socket's file."""
        return self.machine.outside(layout.CONTROL)

    @property
    def address(self) -> tuple[str, int]:
        """Where webhooks are taken."""
        host, port = self.listening[0].getsockname()[:2]
        return host, port

    @property
    def log(self) -> str:
        """What the services wrote."""
        return self._log.read_text()

    @property
    def status(self) -> str:
        """The last status."""
        return [line for _, line in self.heard if line.startswith("STATUS=")][-1]

    def when(self, line: str) -> list[float]:
        """When this was heard."""
        return [at for at, heard in self.heard if heard == line]

    @contextmanager
    def sockets(self) -> Iterator[None]:
        """Listen as the socket unit says, though on a free port."""
        unit = self.unit(SOCKET)
        public, control = unit.all("ListenStream")
        assert public.startswith("127.0.0.1:")
        tcp = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self.listening = [tcp, self._listen(control, unit)]
        try:
            yield
        finally:
            for each in self.listening:
                each.close()
            self.control.unlink()

    def _listen(self, path: str, unit: Unit) -> socket.socket:
        uid, gid = self.machine.user(unit.one("SocketUser")).uid, self.machine.gid(unit.one("SocketGroup"))
        here, there = socket.socketpair()
        with here, there:
            subprocess.run(
                self.machine.command(
                    _PYTHON, _LAUNCH, "listen", str(there.fileno()), path, str(uid), str(gid), unit.one("SocketMode")
                ),
                pass_fds=[there.fileno()],
                check=True,
            )
            _, (number,), _, _ = socket.recv_fds(here, 1, 1)
        return socket.socket(fileno=number)

    @asynccontextmanager
    async def running(
        self, name: str, *, watchdog_s: float | None = None, activated: bool = False, **changes: str
    ) -> AsyncIterator["Service"]:
        """Run the unit's ExecStart as its user, confined as the unit says; killed at the end.

        Args:
            name: the unit.
            watchdog_s: the watchdog's period, in place of the unit's.
            activated: with the sockets, by `systemd-socket-activate`, at the first connection.
            changes: more of the environment.
        """
        self._log.unlink(missing_ok=True)
        with self._notified() as notify:
            told = {"NOTIFY_SOCKET": notify}
            if watchdog_s is not None:
                told["WATCHDOG_USEC"] = str(round(watchdog_s * 1e6))
            service = Service(self, await self._start(self.unit(name), told | changes, activated))
            try:
                yield service
            finally:
                with contextlib.suppress(ProcessLookupError):
                    service.process.send_signal(signal.SIGCONT)
                    service.process.kill()
                await service.process.wait()

    async def _start(self, unit: Unit, told: Mapping[str, str], activated: bool) -> asyncio.subprocess.Process:
        handed = self._credentials(unit)
        environment = {name: value.replace("%d", handed) for name, value in unit.environment.items()}
        environment |= {"CREDENTIALS_DIRECTORY": handed, **told}
        command = [_PYTHON, _LAUNCH, "confine", self._confinement(unit), *shlex.split(unit.one("ExecStart"))]
        assigned = [f"{name}={value}" for name, value in environment.items()]
        passed: list[int] = []
        if activated:
            given = [f"--setenv={each}" for each in assigned]
            passed = [each.fileno() for each in self.listening]
            given += [f"--setenv={name}={value}" for name, value in self.machine.environment.items()]
            command = [program("systemd-socket-activate"), *given, *command]
            numbers = ",".join(str(number) for number in passed)
            command = [_PYTHON, _LAUNCH, "pass", numbers, *command]
        with self._log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *self.machine.command("env", *assigned, *command), stdout=log, stderr=log, pass_fds=passed
            )

    def _confinement(self, unit: Unit) -> str:
        who = self.machine.user(unit.one("User"))
        assert unit.one("ProtectSystem") == "strict"
        told = {
            "uid": who.uid,
            "gid": self.machine.gid(unit.one("Group")),
            "umask": int(unit.one("UMask"), 8),
            "directory": unit.one("WorkingDirectory"),
            "syscalls": unit.syscalls,
            "no_wx": unit.all("MemoryDenyWriteExecute") == ["yes"],
            "no_network": unit.all("PrivateNetwork")[-1:] == ["yes"],
            "writable": unit.one("ReadWritePaths").split(),
        }
        path = self.machine.outside(f"/run/{unit.name}.json")
        path.write_text(json.dumps(told))
        return f"/run/{unit.name}.json"

    def _credentials(self, unit: Unit) -> str:
        """Hand the unit copies of its secrets as systemd does: the mode of one looks as if a group could read it."""
        folder, who = f"/run/credentials/{unit.name}", self.machine.user(unit.one("User"))
        there = self.machine.outside(folder)
        there.mkdir(parents=True, exist_ok=True)
        for name, source in unit.credentials.items():
            path = there / name
            path.unlink(missing_ok=True)
            path.write_bytes(self.machine.outside(source).read_bytes())
            path.chmod(0o440)
            os.chown(path, who.uid, 0)
        os.chown(there, who.uid, 0)
        there.chmod(0o500)
        return folder

    @contextmanager
    def _notified(self) -> Iterator[str]:
        """Listen to what the services say."""
        loop, path = asyncio.get_running_loop(), self.machine.outside("/run/notify")
        self.heard.clear()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(path))
            path.chmod(0o666)
            notify.setblocking(False)

            def hear() -> None:
                with contextlib.suppress(BlockingIOError):
                    while True:
                        lines = notify.recv(4096).decode().split("\n")
                        self.heard.extend((time.monotonic(), line) for line in lines)

            loop.add_reader(notify, hear)
            try:
                yield "/run/notify"
                hear()
            finally:
                loop.remove_reader(notify)
                path.unlink()

    @property
    def _log(self) -> Path:
        return self.machine.top / "service.log"


@dataclass
class Service:
    """A service that the manager runs."""

    manager: Manager
    process: asyncio.subprocess.Process

    async def until(self, line: str, since: float = 0.0) -> float:
        """Wait until this is heard, at or after a time; return when it was."""
        until = time.monotonic() + PATIENCE_S
        while not (found := [at for at in self.manager.when(line) if at >= since]):
            assert self.process.returncode is None, self.manager.log
            assert time.monotonic() < until, (line, self.manager.heard, self.manager.log)
            await asyncio.sleep(0.01)
        return found[0]

    async def stop(self) -> int:
        """Stop it as systemd does; return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        """Wait until it has ended; return the exit code."""
        code = await asyncio.wait_for(self.process.wait(), PATIENCE_S)
        await asyncio.sleep(0.05)  # what it said last is heard
        return code


@contextmanager
def managed() -> Iterator[Manager]:
    """A machine with wakegate installed by `init --system`, and its manager."""
    program("systemd-socket-activate")
    with machine() as made:
        done = made.wakegate("init", "--system")
        assert done.returncode == 0, done.stdout + done.stderr
        yield Manager(made)
