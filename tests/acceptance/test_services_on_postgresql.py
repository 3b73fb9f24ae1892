"""The services as processes on PostgreSQL and Redis: one story from the first command to the last."""

import asyncio
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from support.clinic import diagnosed
from support.console import Console, command, environment
from support.machine import ROOT
from support.ports import free_ports
from wakegate_adapter import Adapter, Call
from wakegate_console.demo import ledger
from wakegate_schema.resolution import Resolution

PATIENCE_S = 60.0


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Console]:
    """The command in a folder whose path is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as name:
        yield Console(Path(name), monkeypatch, capsys)


class Processes:
    """Services that run in a folder with one log each."""

    def __init__(self, console: Console, settings: dict[str, str]) -> None:
        """Take what is set for them and for the command beside them."""
        self._folder, self._settings = console.directory, settings
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        for name, value in settings.items():
            console.set(name, value)

    def start(self, name: str, *arguments: str, **changes: str) -> None:
        """Start one."""
        with (self._folder / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                command(*arguments), cwd=self._folder, env=environment(self._folder, **(self._settings | changes)),
                stdout=log, stderr=log,
            )  # fmt: skip

    def log(self, name: str) -> str:
        """What it has said."""
        return (self._folder / f"{name}.log").read_text()

    def stop(self, name: str) -> None:
        """Tell it to end, and see that it does so well."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, self.log(name)

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until(holds: Callable[[], object], says: Callable[[], str]) -> None:
    """Wait until something holds."""
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends, says()
        time.sleep(0.05)


async def refunded(control: Path, key: str) -> Resolution:
    """Suspend a call over the control socket and wait for what becomes of it."""
    async with await Adapter.open(control) as adapter:
        call = Call("issue_small_refund", {"payment_id": key, "amount": 4900, "currency": "EUR"}, key=key, timeout="5m")
        ticket = await adapter.suspend(call)
        return await asyncio.wait_for(adapter.wait(ticket.execution_id), PATIENCE_S)


def test_one_story_from_the_first_command_to_the_last(home: Console, postgres_url: str, queue_url: str) -> None:
    folder = home.directory
    webhooks, at_provider = free_ports(2)
    (folder / "policy.toml").write_text('[[rule]]\ntool = "issue_small_refund"\ndecision = "approve"\n')
    settings = {
        "WAKEGATE_DATABASE": postgres_url,
        "WAKEGATE_QUEUE": queue_url,
        "WAKEGATE_POOL": f"story-{webhooks}",
        "WAKEGATE_LISTEN": f"127.0.0.1:{webhooks}",
        "WAKEGATE_TOOLS": "wakegate_console.demo.tools",
        "WAKEGATE_PROVIDER_LISTEN": f"127.0.0.1:{at_provider}",
        "WAKEGATE_PROVIDER_POLICY_FILE": str(folder / "policy.toml"),
        ledger.VARIABLE: str(folder / "ledger.jsonl"),
    }
    with Processes(home, settings) as services:
        for service in ("receiver", "worker"):
            ran = home(service)
            assert ran.code == 2, "in PostgreSQL no service makes the store"
            assert "run `wakegate db migrate`" in ran.err
        assert home("db", "migrate").code == 0
        services.start("provider", "provider")
        services.start("up", "up")
        until(lambda: "listening program=receiver" in services.log("up"), lambda: services.log("up"))
        url = f"http://127.0.0.1:{webhooks}/aap/events"
        token = ["--provisioner-token-file", "provisioner.token"]
        provider = ["--provider-url", f"http://127.0.0.1:{at_provider}"]
        provisioned = home("instance", "provision", *provider, *token, "--url", url, "--name", "desk", "--wait", "60")
        assert provisioned.code == 0, provisioned.err + services.log("up")
        first = asyncio.run(refunded(folder / "wakegate.sock", "one"))
        assert first.state == "succeeded"
        rotated = home("instance", "rotate", "desk", *token, "--overlap", "1m", "--wait", "60")
        assert rotated.code == 0, rotated.err
        assert asyncio.run(refunded(folder / "wakegate.sock", "two")).state == "succeeded"
        assert ledger.count_refunds(folder / "ledger.jsonl") == {"one": 1, "two": 1}
        until(
            lambda: [row["state"] for row in home("notification", "list", "--json").json] == ["handled"] * 2,
            lambda: home("notification", "list").out,
        )
        assert [row["pool"] for row in home("pool", "list", "--json").json] == [settings["WAKEGATE_POOL"]]
        found = diagnosed(home)
        assert "1 worker listens" in found.of("queue.listeners", "ok")
        assert {found.one(name).verdict for name in ("store.receiver", "store.worker", "postgresql.reach")} == {"ok"}
        second_receiver(home, services, url)
        assert home("instance", "delete", "desk", *token).code == 0
        services.stop("up")
        services.stop("provider")
    assert not (folder / "wakegate.db").exists()


def second_receiver(home: Console, services: Processes, url: str) -> None:
    """Another receiver in the same folder has a socket of its own, and leaves the first one's refusals alone."""
    kept = home.directory / "refusals.jsonl"
    with pytest.raises(HTTPError):
        urlopen(url, data=b"no event")
    until(kept.exists, lambda: services.log("up"))
    before = kept.read_bytes()
    services.start("other", "receiver", WAKEGATE_CONTROL="other.sock", WAKEGATE_LISTEN="127.0.0.1:0")
    until(lambda: "listening program=receiver" in services.log("other"), lambda: services.log("other"))
    assert (home.directory / "refusals.jsonl.2.lock").exists(), "it has a file of its own"
    assert (home.directory / "other.sock").exists()
    services.stop("other")
    assert kept.read_bytes() == before
    (row,) = home("refusal", "list", "--json").json
    assert row["status"] == 415


@pytest.mark.parametrize(
    ("module", "extra", "settings"),
    [
        ("psycopg", "postgres", {"WAKEGATE_DATABASE": "postgresql://w@127.0.0.1:1/w"}),
        ("rq", "redis", {"WAKEGATE_QUEUE": "redis://127.0.0.1:1"}),
    ],
)
def test_a_missing_extra_is_one_line_that_says_how_to_install_it(
    home: Console, monkeypatch: pytest.MonkeyPatch, module: str, extra: str, settings: dict[str, str]
) -> None:
    assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    home("db", "migrate")
    monkeypatch.setitem(sys.modules, module, None)
    for name, value in settings.items():
        home.set(name, value)
    for line in (["receiver"], ["worker"], ["db", "prune"], ["clock", "reset", "--by", "Mira"]):
        ran = home(*line)
        assert ran.code == 2, line
        assert f"pip install 'wakegate[{extra}]'" in ran.err, line
        assert ran.err.count("\n") == 1, line
    found = diagnosed(home)
    area = "postgresql.reach" if extra == "postgres" else "queue.reach"
    assert "pip install" in found.of(area, "problem")
