"""A receiver with harness tables, and harnesses that speak to its control API: over TCP, over the socket, as others."""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from support import warm
from support.ports import free_port
from support.processes import clean_environment
from wakegate_receiver.service import receiving
from wakegate_receiver.stopping import Stop
from wakegate_schema.settings import Settings, load_settings
from wakegate_schema.store import Store, open_store

Table = Mapping[str, object]
OTHERS = (64_001, 64_002, 64_003)
"""Users that are nobody else's."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer."""

    status: int
    headers: dict[str, str]
    body: bytes = field(repr=False)

    @property
    def value(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        """The machine reason in the body."""
        return str(self.value["reason"])


Voice = Callable[..., Coroutine[Any, Any, Reply]]
"""Asks as one harness: method, path, and the body as JSON values or bytes."""


def token_of(name: str) -> str:
    """The bearer token of a harness in these tests."""
    return f"token-of-{name}-" + "x" * 32


def by_token(name: str, *instances: str) -> Table:
    """A harness table with a token."""
    return {"token_sha256": hashlib.sha256(token_of(name).encode()).hexdigest(), "instances": list(instances)}


def by_uid(uid: int, *instances: str) -> Table:
    """A harness table with a user."""
    return {"uid": uid, "instances": list(instances)}


@dataclass
class Site:
    """A running receiver with harness tables, and its store opened a second time."""

    folder: Path
    settings: Settings
    store: Store
    stop: Stop
    url: str

    def tables(self, harnesses: Mapping[str, Table] | str) -> None:
        """Write the settings file anew, as `wakegate harness add` does: whole, and in one step."""
        text = harnesses if isinstance(harnesses, str) else _toml(harnesses)
        new = self.folder / "new.toml"
        new.write_text(text, encoding="utf-8")
        new.replace(self.folder / "wakegate.toml")

    @property
    def base(self) -> str:
        """The URL that paths are appended to."""
        return f"http://{self.settings.control_address}" if self.tcp else "http://control"

    @property
    def tcp(self) -> bool:
        """Whether the control listener is a loopback port."""
        return not isinstance(self.settings.control_address, Path)

    def connector(self) -> aiohttp.BaseConnector:
        """What connects to the control listener."""
        if self.tcp:
            return aiohttp.TCPConnector(limit=0)
        return aiohttp.UnixConnector(str(self.settings.control_address), limit=0)

    @asynccontextmanager
    async def voice(self, name: str | None = None) -> AsyncIterator[Voice]:
        """Ask as the harness whose token this is, or as this process's own user."""
        headers = {} if name is None else {"Authorization": f"Bearer {token_of(name)}"}
        async with aiohttp.ClientSession(connector=self.connector(), headers=headers) as session:

            async def ask(method: str, path: str, body: object = None, **more: str) -> Reply:
                data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
                headers = {"Content-Type": "application/json"} if data is not None else {}
                async with session.request(method, self.base + path, data=data, headers=headers | more) as answer:
                    return Reply(answer.status, dict(answer.headers), await answer.read())

            yield ask

    @asynccontextmanager
    async def stream(self, name: str | None, query: str = "", **headers: str) -> AsyncIterator["Stream"]:
        """Open a stream as a harness."""
        if name is not None:
            headers["Authorization"] = f"Bearer {token_of(name)}"
        async with (
            aiohttp.ClientSession(connector=self.connector()) as session,
            session.get(f"{self.base}/v1/resolutions{query}", headers=headers) as answer,
        ):
            yield Stream(answer)

    @asynccontextmanager
    async def another(self, uid: int) -> AsyncIterator[Voice]:
        """Ask as another user of this machine, from a process that is really theirs."""
        path = str(self.settings.control_address)
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _SPEAKER, str(uid), path,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**24,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None

        async def ask(method: str, path: str, body: object = None, **more: str) -> Reply:
            data = body.decode("latin-1") if isinstance(body, bytes) else None if body is None else json.dumps(body)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([method, path, data, more]).encode() + b"\n")
            async with asyncio.timeout(30):
                status, headers, text = json.loads(await process.stdout.readline())
            return Reply(status, headers, text.encode("latin-1"))

        try:
            yield ask
        finally:
            process.stdin.close()
            await process.wait()


class Stream:
    """The events of one stream, read as they come."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        """Take the answer."""
        self.answer = answer
        self.heartbeats = 0

    async def next(self, timeout: float = 10) -> tuple[str, str, Any]:
        """Return the next event: its id, its kind and its data. Raises EOFError when the stream has ended."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(timeout):
            while True:
                line = (await self.answer.content.readline()).decode()
                if not line:
                    raise EOFError
                if line == "\n" and fields:
                    return fields["id"], fields["event"], json.loads(fields["data"])
                name, _, value = line.rstrip("\n").partition(": ")
                if line.startswith(":"):
                    self.heartbeats += 1
                elif line != "\n":
                    fields[name] = value

    async def ends(self, timeout: float = 10) -> list[str]:
        """Return the kinds of the events that still come until the stream ends."""
        kinds = []
        try:
            async with asyncio.timeout(timeout):
                while True:
                    kinds.append((await self.next(timeout))[1])
        except EOFError:
            return kinds


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose sockets' paths are short enough, and that other users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="wg", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@asynccontextmanager
async def control_site(
    harnesses: Mapping[str, Table] | str = "", *, tcp: bool = False, **settings: object
) -> AsyncIterator[Site]:
    """Run a receiver in this loop whose settings file has these harness tables."""
    with short_folder() as folder:
        environment = _prepare(folder, harnesses, tcp=tcp, settings=settings)
        loaded = load_settings(folder / "wakegate.toml", environment)
        stop = Stop()
        async with receiving(loaded, stop) as receiver, await open_store(loaded.database, mode="use") as store:
            if not tcp and os.geteuid() == 0:
                (folder / "control.sock").chmod(0o666)  # in a deployment, these users are in the socket's group
            yield Site(folder, loaded, store, stop, receiver.url)


@asynccontextmanager
async def control_process(
    harnesses: Mapping[str, Table] | str = "", **settings: object
) -> AsyncIterator[tuple[Site, asyncio.subprocess.Process]]:
    """Run a receiver as a process of its own, on uvloop, killed in the end if it still runs."""
    with short_folder() as folder:
        environment = _prepare(folder, harnesses, tcp=False, settings=settings)
        async with process_in(folder, environment) as found:
            yield found


@asynccontextmanager
async def process_in(
    folder: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[Site, asyncio.subprocess.Process]]:
    """Run a receiver over a folder that `control_process` has made."""
    environment = dict(environment or _environment(folder, tcp=False))
    process = await warm.start(
        "receiver", cwd=folder, env=clean_environment() | environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    loaded = load_settings(folder / "wakegate.toml", environment)
    try:
        async with asyncio.timeout(20):
            url = (await process.stdout.readline()).decode().strip()
        assert url, (await process.communicate())[1].decode()
        async with await open_store(loaded.database, mode="use") as store:
            yield Site(folder, loaded, store, Stop(), url), process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.communicate()


def _prepare(
    folder: Path, harnesses: Mapping[str, Table] | str, *, tcp: bool, settings: Mapping[str, object]
) -> dict[str, str]:
    """Write the settings file; return the environment that says the rest."""
    text = harnesses if isinstance(harnesses, str) else _toml(harnesses)
    (folder / "wakegate.toml").write_text(text, encoding="utf-8")
    more = {f"WAKEGATE_{name.upper()}": str(value) for name, value in settings.items()}
    return _environment(folder, tcp=tcp) | more


def _environment(folder: Path, *, tcp: bool) -> dict[str, str]:
    return {
        "WAKEGATE_DATABASE": f"sqlite:///{folder}/wakegate.db",
        "WAKEGATE_LISTEN": "127.0.0.1:0",
        "WAKEGATE_CONTROL": f"127.0.0.1:{free_port()}" if tcp else f"{folder}/control.sock",
    }


def _toml(harnesses: Mapping[str, Table]) -> str:
    lines = []
    for name, table in harnesses.items():
        lines.append(f"[harness.{name}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join([*lines, ""])


_SPEAKER = """
import http.client, json, os, socket, sys
uid, path = int(sys.argv[1]), sys.argv[2]
os.setgroups([]); os.setgid(uid); os.setuid(uid)
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX); self.sock.settimeout(30); self.sock.connect(path)
for line in sys.stdin:
    method, target, body, headers = json.loads(line)
    connection = Connection("control")
    if body is not None:
        headers = {"Content-Type": "application/json"} | headers
    connection.request(method, target, None if body is None else body.encode("latin-1"), headers)
    answer = connection.getresponse()
    print(json.dumps([answer.status, dict(answer.getheaders()), answer.read().decode("latin-1")]), flush=True)
    connection.close()
"""
