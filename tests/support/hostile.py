"""A receiver in a process of its own that hostile clients are let loose on, and what must hold of it afterwards."""

import asyncio
import contextlib
import json
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from support.deliveries import Delivery
from support.processes import clean_environment
from support.receivers import Registered, Running, settings_in
from wakegate_receiver.answers import ANSWERS
from wakegate_receiver.stopping import Stop
from wakegate_schema.logs import LINE_LIMIT
from wakegate_schema.settings import Settings
from wakegate_schema.store import Store, open_store

STATUSES: Final = {answer.status for answer in ANSWERS.values() if answer.status} | {200, 204}
"""Every documented status."""
QUIET_S: Final = 0.1
"""Seconds after an answer in which another would have begun."""
_PROGRAM: Final = (
    "import gc; gc.disable(); from wakegate_receiver import run; from wakegate_schema.logs import configure;"
    "from wakegate_schema.settings import load_settings; gc.freeze(); gc.enable();"
    "configure('json', level='debug'); run(load_settings(), ready=lambda url: print(url, flush=True))"
)


@dataclass
class Target:
    """A receiver that is attacked."""

    process: subprocess.Popen[str]
    settings: Settings
    url: str
    log: Path
    desk: Registered
    """A registration it knows, its instance bound."""

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    def exchange(self, data: bytes, timeout: float = 10) -> list[int]:
        """Send bytes on a connection of their own and return the statuses that are answered.

        An answer that nothing follows for a moment is the last.

        Raises:
            TimeoutError: the receiver neither answers nor closes.
        """
        received = b""
        with socket.create_connection(self.address, timeout) as connection, contextlib.suppress(ConnectionError):
            connection.sendall(data)
            while part := connection.recv(65_536):
                received += part
                final = statuses(received)[-1:] != [100]
                if final and not select.select([connection], [], [], QUIET_S)[0]:
                    break
        return statuses(received)

    def rows(self) -> dict[str, bytes]:
        """Return the bodies on record by event id."""

        async def read() -> dict[str, bytes]:
            async with await open_store(self.settings.database, mode="read") as store:
                return {found.event_id: found.body or b"" for _, found in await store.notifications(limit=100_000)}

        return asyncio.run(read())

    def unharmed(self) -> Delivery:
        """Raise AssertionError unless it runs, works, and every line of its log is bounded and none is a fault.

        Returns the notification that it took.
        """
        assert self.process.poll() is None, "the receiver has ended"
        genuine = self.desk.sender.notification()
        head = "".join(f"{name}: {value}\r\n" for name, value in genuine.headers.items())
        request = f"POST /aap/events HTTP/1.1\r\nhost: a\r\ncontent-length: {len(genuine.body)}\r\n{head}\r\n"
        assert self.exchange(request.encode() + genuine.body) == [204]
        lines = self.log.read_bytes().splitlines(keepends=True)
        assert lines
        for line in lines:
            assert len(line) <= LINE_LIMIT
            told = json.loads(line)
            assert told["level"] != "error", told
            assert told.get("reason") != "unforeseen", told
        return genuine


def statuses(received: bytes) -> list[int]:
    """Return the statuses of the answers in what came over one connection."""
    found = []
    while received:
        head, _, rest = received.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines[1:] if ": " in line)
        found.append(int(lines[0].split()[1]))
        received = rest[int(fields.get("content-length", "0")) :]
    return found


@contextmanager
def attacked(folder: Path, like: Registered | None = None, **changes: str) -> Iterator[Target]:
    """Run a receiver whose budgets no generated traffic exhausts; ended by SIGTERM, which must end it well.

    Args:
        folder: a new one.
        like: give it the instance and the secret of this registration, so that it accepts the same deliveries.
        changes: `WAKEGATE_*` variables.
    """
    kept = clean_environment()
    environment = {
        "WAKEGATE_DATABASE": f"sqlite:///{folder}/wakegate.db",
        "WAKEGATE_LISTEN": "127.0.0.1:0",
        "WAKEGATE_CONTROL": f"{folder}/control.sock",
        "WAKEGATE_REFUSED_RATE_LIMIT": "1000000",
        "WAKEGATE_RATE_LIMIT": "1000000",
    }
    desk = asyncio.run(_register(settings_in(folder), like))
    log = folder / "receiver.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], cwd=folder, env=kept | environment | changes,
            stdout=subprocess.PIPE, stderr=stderr, text=True,
        )  # fmt: skip
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url, log.read_text()
        yield Target(process, settings_in(folder), url, log, desk)
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _register(settings: Settings, like: Registered | None) -> Registered:
    store: Store
    same = {} if like is None else {"instance_id": like.instance_id, "secret": like.secret}
    async with await open_store(settings.database, mode="service") as store:
        return await Running(None, settings, store, Stop()).register(**same)  # type: ignore[arg-type]
