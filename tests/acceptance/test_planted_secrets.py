"""Secrets stay secret: a whole run with planted ones, then every line, file, table, output and environment is searched.

Success and failure, refusals and junk, crashes with a trace, wrong settings, rotation, resealing, backup and deletion;
logs in both formats, at debug level.
"""

import asyncio
import base64
import io
import json
import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from support.console import environment
from support.deliveries import Delivery, Sender
from support.desk import new_id
from support.http_servers import http_server
from support.loaded_site import Loaded, service
from support.ports import free_ports
from support.receivers import Client, request_bytes
from support.workers import eventually
from wakegate_adapter import Adapter, Call
from wakegate_schema import clock, logs
from wakegate_schema.keys import load_key, read_keys
from wakegate_schema.records import Claimed, Outcome
from wakegate_schema.sealing import unseal_credential
from wakegate_schema.signing import SigningSecret
from wakegate_schema.states import State
from wakegate_schema.store import Store, open_store

ARGUMENT = "planted-argument-5d1f"
REASONING = "planted-reasoning-77aa"
CONTEXT = "planted-context-01be"
NOTE = "planted-note-c0de"
BODY = "planted-body-9e2c"
PROVISIONER = "planted-provisioner-token-2b7e"
MALFORMED_KEY = "planted-malformed-key-4a4a"
CREDENTIAL_IN_A_HEADER = "planted-header-e1e1"

POLICY = """
[[rule]]
tool = "deny_*"
decision = "deny"
note = "planted-note-c0de"
[[rule]]
tool = "*"
decision = "approve"
note = "planted-note-c0de"
"""
SECRET_FILES = frozenset(
    {"receiver.key", "receiver.key.old", "worker.key", "worker.key.old", "provider.key", "wake.secret"}
    | {"provisioner.token", "malformed.key", "open.secret"}
)
"""Where secrets are on purpose."""

UNFORESEEN = """
import sys
import wakegate_console.provisioner as provisioner
from wakegate_console.cli import main

async def break_down(call):
    raise RuntimeError(f"unforeseen, with {call!r}")

provisioner._exchange = break_down
sys.exit(main(sys.argv[1:]))
"""


@dataclass
class Plants:
    """What must be found nowhere, each in every form that a program might write it in."""

    forms: dict[bytes, str] = field(default_factory=dict)

    def add(self, name: str, secret: str) -> None:
        """Plant a secret: its text, its bytes, and both written otherwise."""
        raw = _decoded(secret)
        for data in (secret.encode(), raw):
            for form in (
                data,
                data.hex().encode(),
                data.hex().upper().encode(),
                base64.b64encode(data).rstrip(b"="),
                base64.urlsafe_b64encode(data).rstrip(b"="),
                repr(data)[2:-1].encode(),
            ):
                self.forms[form] = name

    def found_in(self, data: bytes) -> set[str]:
        """The names of the secrets that are in the data."""
        return {name for form, name in self.forms.items() if form in data}


def _decoded(secret: str) -> bytes:
    if secret.startswith("whsec_"):
        return base64.b64decode(secret.removeprefix("whsec_"))
    if len(secret) == 44:
        return base64.urlsafe_b64decode(secret)
    return secret.encode()


def test_a_planted_secret_is_found_in_every_form() -> None:
    plants = Plants()
    secret = SigningSecret.generate()
    plants.add("it", secret.reveal())
    for written in (
        f"x{secret.reveal()}x".encode(),
        secret.key,
        secret.key.hex().encode(),
        repr(secret.key).encode(),
        base64.urlsafe_b64encode(secret.key),
        json.dumps({"key": secret.reveal()}).encode(),
    ):
        assert plants.found_in(b"before " + written + b" after") == {"it"}
    assert plants.found_in(repr(secret).encode() + b"whsec_") == set()


@dataclass
class Run:
    """The whole run: the site, and whatever was said meanwhile."""

    site: Loaded
    store: Store
    plants: Plants
    said: dict[str, bytes] = field(default_factory=dict)
    """What came out of commands and processes, by what it was."""

    async def wakegate(self, *arguments: str, ends: int = 0) -> None:
        """Run a command; what it says goes to the site's folder."""
        ended = await self.site.run(*arguments)
        assert ended == ends, (arguments, (self.site.folder / "commands.log").read_text()[-2000:])

    async def process(self, name: str, *arguments: str, program: str = "", **settings: str) -> int:
        """Run a command in a process of its own, with other settings; keep what it says."""
        start = ["-c", program] if program else ["-m", "wakegate_console"]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *start, *arguments,
            cwd=self.site.folder,
            env=environment(self.site.folder, **(self.site.settings | settings)),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        self.said[name], _ = await process.communicate()
        return process.returncode or 0

    async def sender(self) -> Sender:
        """The provider's side of the registration in force; its secret is planted."""
        registration = [each for each in await self.store.registrations() if each.state == "verified"][-1]
        return self.site.sender(registration)

    async def plant_what_is_sealed(self) -> None:
        """Plant every secret that is in use now, and the keys they are sealed under."""
        folder = self.site.folder
        worker = load_key(folder / "worker.key")
        for registration in await self.store.registrations():
            self.plants.add(f"secret of {registration.registration_id}", self.site.secret(registration).reveal())
        for instance in await self.store.instances():
            if instance.sealed_credential is not None:
                credential = unseal_credential(
                    worker, instance.sealed_credential, provider=instance.provider, instance_id=instance.instance_id
                )
                self.plants.add(f"credential of {instance.name}", credential.token.reveal())
        for name in ("receiver.key", "worker.key", "provider.key"):
            for key in read_keys(folder / name):
                self.plants.add(name, key.decode())
        async with asyncio.timeout(60):
            while not (wake := folder / "wake.secret").exists():  # the worker makes it when it starts
                await asyncio.sleep(0.05)
        self.plants.add("wake secret", wake.read_text().strip())

    async def post(self, delivery: Delivery) -> int:
        """Deliver something; return the status."""
        async with Client(("127.0.0.1", self.site.listen)) as client:
            return (await client.post(delivery)).status

    async def junk(self) -> None:
        """Send what must be refused, with planted words wherever words can be."""
        sender, stranger = await self.sender(), Sender(SigningSecret.generate().reveal(), new_id())
        signed = sender.notification()
        body = json.dumps({"type": "request.resolved", "note": BODY}).encode()
        unsigned = Delivery({**signed.headers, "authorization": f"Bearer {CREDENTIAL_IN_A_HEADER}"}, body)
        assert await self.post(unsigned) == 400
        assert await self.post(stranger.notification()) == 401
        assert await self.post(signed.with_headers(webhook_signature=f"v1,{BODY}")) == 401
        assert await self.post(sender.raw(b"{" + body)) == 400
        assert await self.post(sender.message({**json.loads(signed.body), BODY: BODY})) == 400
        assert await self.post(stranger.verification(new_id())) == 403
        async with Client(("127.0.0.1", self.site.listen)) as client:
            await client.send(b"POST /aap/events HTTP/1.1\r\n" + BODY.encode() + b"\r\n\r\n" + request_bytes(unsigned))
            await client.ends()

    async def call(self, tool: str, *states: State, **arguments: object) -> str:
        """Save a call and wait until it is in one of the states; return its id."""
        async with await Adapter.open(self.site.database) as adapter:
            ticket = await adapter.suspend(
                Call(tool, {"amount": 1, **arguments}, instance="desk", reasoning=REASONING, context={"why": CONTEXT}),
                wake="my-harness",
            )

        async def there() -> bool:
            return (await self.store.execution(ticket.execution_id)).state in states

        await eventually(there, 30)
        return ticket.execution_id

    async def claim(self) -> None:
        """Run a call as the harness does, whose attempt token is planted."""
        async with await Adapter.open(self.site.database) as adapter:
            ticket = await adapter.suspend(Call("claimed", {"card": ARGUMENT}, instance="desk"), runs="harness")

        async def permitted() -> bool:
            return (await self.store.execution(ticket.execution_id)).state is State.PERMITTED

        await eventually(permitted, 30)
        now = clock.now()
        claimed = await self.store.claim(ticket.execution_id, "claim", now, now + clock.MINUTE, 0)
        assert isinstance(claimed, Claimed)
        self.plants.add("attempt token", claimed.attempt_token)
        outcome = Outcome("succeeded", "returned", result=b'"done"')
        await self.store.finish(claimed.execution.lease, outcome, clock.now(), claimed.attempt_token)


@asynccontextmanager
async def running(site: Loaded, receiver: dict[str, str], worker: dict[str, str]) -> AsyncIterator[dict[str, int]]:
    """Run the three services; gives their process ids."""
    async with AsyncExitStack() as stack:
        processes = {}
        for name, settings in (("provider", worker), ("receiver", receiver), ("worker", worker)):
            debugging = {"PYTHONFAULTHANDLER": "1", "WAKEGATE_LOG_LEVEL": "debug"}
            processes[name] = await stack.enter_async_context(service(site, name, **(settings | debugging)))
        yield {name: process.pid for name, process in processes.items()}


@pytest.fixture
async def run(tmp_path: Path) -> Run:
    """A site that has been through everything; its services have ended."""
    said = io.StringIO()
    logs.configure("json", said, level="debug")
    statuses = [500, 302]

    async def harness(_: web.Request) -> web.StreamResponse:
        return web.Response(status=statuses.pop() if statuses else 204, headers={"Location": "/elsewhere"})

    async with http_server(harness) as served:
        (tmp_path / "wakegate.toml").write_text(f'[wake.my-harness]\nkind = "http"\nurl = "{served.url}/wakes"\n')
        (tmp_path / "policy.toml").write_text(POLICY)
        for name, text in (("provisioner.token", PROVISIONER), ("malformed.key", MALFORMED_KEY)):
            (tmp_path / name).touch(mode=0o600)
            (tmp_path / name).write_text(text + "\n")
        receiver, small_provider = free_ports(2)
        site = Loaded(
            tmp_path,
            receiver,
            small_provider,
            extra={
                "WAKEGATE_CONFIG": str(tmp_path / "wakegate.toml"),
                "WAKEGATE_PROVIDER_PROVISIONER_TOKEN_FILE": str(tmp_path / "provisioner.token"),
                "WAKEGATE_LEASE_SECONDS": "2",
            },
        )
        plants = Plants()
        for name in ("PROVISIONER", "MALFORMED_KEY", "CREDENTIAL_IN_A_HEADER"):
            plants.add(name, globals()[name])
        async with running(site, {"WAKEGATE_LOG_FORMAT": "json"}, {"WAKEGATE_LOG_FORMAT": "console"}) as pids:
            assert await site.provision("desk") == 0, (tmp_path / "commands.log").read_text()
            async with await open_store(site.database, mode="use") as store:
                made = Run(site, store, plants)
                await _first_half(made)
                _look_at(made, pids, "first")
                await _crash(made, pids["receiver"], pids["worker"])
        async with (
            running(
                site, {"WAKEGATE_LOG_FORMAT": "console", "PYTHONASYNCIODEBUG": "1"}, {"WAKEGATE_LOG_FORMAT": "json"}
            ) as pids,
            await open_store(site.database, mode="use") as store,
        ):
            made.store = store
            await _second_half(made)
            _look_at(made, pids, "second")
    made.said["this process's log"] = said.getvalue().encode()
    return made


async def _first_half(run: Run) -> None:
    await run.plant_what_is_sealed()
    await run.call("issue_refund", State.SUCCEEDED, card=ARGUMENT)
    await run.call("break_down", State.IN_DOUBT)
    await run.call("decline", State.FAILED)
    await run.call("deny_this", State.DENIED, card=ARGUMENT)
    await run.claim()
    await run.junk()
    await run.wakegate("db", "reseal")
    await run.wakegate("instance", "rotate", "desk", *run.site.token)
    await run.plant_what_is_sealed()
    await run.junk()
    await run.call("issue_refund", State.SUCCEEDED, card=ARGUMENT)
    await _wrong_settings(run)


async def _wrong_settings(run: Run) -> None:
    (run.site.folder / "open.secret").write_text("whsec_" + "QUJD" * 10 + "QUI=\n")
    run.plants.add("a secret that others may read", "whsec_" + "QUJD" * 10 + "QUI=")
    wrong = SigningSecret.generate().reveal()
    run.plants.add("a secret in the place of a setting", wrong)
    for name, settings in {
        "unknown": {"WAKEGATE_WAKE_SECRET": wrong},
        "malformed key": {"WAKEGATE_WORKER_KEY_FILE": str(run.site.folder / "malformed.key")},
        "open secret": {"WAKEGATE_WAKE_SECRET_FILE": str(run.site.folder / "open.secret")},
    }.items():
        assert await run.process(f"settings: {name}", "worker", **settings) == 2
    (run.site.folder / "wrong.toml").write_text(f'wake_secret = "{wrong}"\n')
    assert await run.process("settings: in the file", "--config", "wrong.toml", "worker", WAKEGATE_CONFIG="") == 2
    (run.site.folder / "wrong.toml").unlink()


async def _crash(run: Run, receiver: int, worker: int) -> None:
    """Break both services off with a trace, one of them in the middle of a call."""
    await run.call("take_three_seconds", State.STARTED)
    for pid in (receiver, worker):
        os.kill(pid, signal.SIGABRT)

    def traced() -> bool:
        return all("Fatal Python error" in (run.site.folder / f"{n}.log").read_text() for n in ("receiver", "worker"))

    await eventually(traced)


async def _second_half(run: Run) -> None:
    await run.call("issue_refund", State.SUCCEEDED, card=ARGUMENT)
    ended = await run.process(
        "unforeseen", "instance", "rotate", "desk", *run.site.token, program=UNFORESEEN, PYTHONFAULTHANDLER="1"
    )
    assert ended == 1
    assert b"unforeseen, with Call(" in run.said["unforeseen"]
    await run.plant_what_is_sealed()
    old = await run.sender()
    await run.wakegate("instance", "rotate", "desk", *run.site.token, "--now")
    assert await run.post(old.notification()) == 401
    await run.wakegate("db", "reseal", "--keep-old")
    await run.plant_what_is_sealed()
    await run.call("issue_refund", State.SUCCEEDED, card=ARGUMENT)
    await run.junk()
    await _show_everything(run)
    await run.wakegate("db", "backup", str(run.site.folder / "backup.db"))
    await run.wakegate("instance", "delete", "desk", *run.site.token)
    await run.wakegate("instance", "show", "desk", "--json")


async def _show_everything(run: Run) -> None:
    executions = [execution.execution_id for _, execution in await run.store.executions()]
    events = [notification.event_id for _, notification in await run.store.notifications()]
    for noun in ("instance", "execution", "notification", "refusal"):
        await run.wakegate(noun, "list")
        await run.wakegate(noun, "list", "--json")
    for flags in ((), ("--json",)):
        await run.wakegate("instance", "show", "desk", *flags)
        await run.wakegate("execution", "show", executions[0], *flags)
        await run.wakegate("notification", "show", events[0], *flags)
        await run.wakegate("provider", "requests", *flags)
        await run.wakegate("doctor", *flags, ends=1)  # the tools' own WAKEGATE_TEST_ variable is a problem
    await run.wakegate("execution", "show", new_id(), ends=1)


def _look_at(run: Run, pids: dict[str, int], when: str) -> None:
    """Keep how the services were called and what they have in their environments."""
    for name, pid in pids.items():
        for what in ("cmdline", "environ"):
            run.said[f"{what} of the {when} {name}"] = Path(f"/proc/{pid}/{what}").read_bytes()


def _files(folder: Path) -> Iterator[Path]:
    yield from (path for path in folder.rglob("*") if path.is_file() and path.name not in SECRET_FILES)


def _cells(path: Path) -> Iterator[tuple[str, bytes]]:
    """Every value of every table, as text and as bytes, wherever the file's pages have it."""
    with closing(sqlite3.connect(path)) as raw:
        tables = [name for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in raw.execute(f'SELECT * FROM "{table}"'):
                for cell in row:
                    yield table, cell if isinstance(cell, bytes) else str(cell).encode()


async def test_no_secret_is_found_anywhere_after_a_whole_run(run: Run) -> None:
    folder, plants = run.site.folder, run.plants
    assert len(set(plants.forms.values())) >= 12
    for name in ("receiver.key", "receiver.key.old", "worker.key", "provider.key", "wake.secret", "provisioner.token"):
        assert plants.found_in((folder / name).read_bytes()), f"the search is blind for {name}"
    found: dict[str, set[str]] = {}
    for path in _files(folder):
        found[path.name] = plants.found_in(path.read_bytes())
    for path in folder.glob("*.db"):
        for table, cell in _cells(path):
            found.setdefault(f"{path.name}: {table}", set()).update(plants.found_in(cell))
    for name, said in run.said.items():
        found[name] = plants.found_in(said)
    assert {where: names for where, names in found.items() if names} == {}
    logged = "".join(path.read_text() for path in folder.glob("*.log"))
    for word in ("Fatal Python error", "rotated to registration", "sealed anew", "receiver challenged", "timestamp"):
        assert word in logged, f"{word}: the run has not been through everything"

    assert not list(folder.rglob("core*"))
    _check_payloads(folder)


def _check_payloads(folder: Path) -> None:
    """Assert that no argument, reasoning, context, note or body is in a log, a refusal or a listing."""
    assert (folder / "refusals.jsonl").read_text().count("wrong_signature") >= 2
    services = [folder / f"{name}.log" for name in ("provider", "receiver", "worker")]
    for path in (*services, folder / "refusals.jsonl", folder / "commands.log"):
        words = [ARGUMENT, REASONING, CONTEXT, BODY] + ([NOTE] if path in services else [])
        text = path.read_text()
        assert [word for word in words if word in text] == [], path.name
