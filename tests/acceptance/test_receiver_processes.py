"""Several receiver processes on one socket: taken by any, counted as one, and none of them missed for long."""

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.console import command, environment, run
from support.receivers import Client, Registered, Reply, Running, request_bytes, settings_in
from wakegate_receiver.refusals_file import read_refusals
from wakegate_receiver.stopping import Stop
from wakegate_schema import lock_files
from wakegate_schema.settings import Settings
from wakegate_schema.store import open_store

PATIENCE_S = 60.0
PROCESSES = 2


@dataclass
class Site:
    """A folder, and what runs in it."""

    folder: Path
    settings: Settings
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def pid(self, name: str) -> int:
        """The last one that was started by this name."""
        (line,) = [each for each in self.log.splitlines() if f"started program={name} " in each][-1:]
        return int(line.rpartition("pid=")[2])

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    @property
    def address(self) -> tuple[str, int]:
        (line, *_) = [each for each in self.log.splitlines() if "listening program=" in each]
        url = urlsplit(line.partition("url=")[2].split()[0])
        return url.hostname or "", url.port or 0

    async def register(self) -> Registered:
        async with await open_store(self.settings.database, mode="service") as store:
            return await Running(None, self.settings, store, Stop()).register()  # type: ignore[arg-type]

    async def post(self, data: bytes) -> Reply:
        """Send a request on a connection of its own."""
        async with Client(self.address) as client:
            await client.send(data)
            return await client.reply(PATIENCE_S)

    async def metrics(self) -> dict[str, float]:
        """Every figure, summed over its labels."""
        reader, writer = await asyncio.open_unix_connection(str(self.settings.control_address))
        writer.write(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        page = (await reader.read()).decode().partition("\r\n\r\n")[2]
        writer.close()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
        return found

    async def told(self, name: str, value: float) -> None:
        """Wait until a figure is this."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self.metrics()).get(name) != value:
                await asyncio.sleep(0.05)


@contextmanager
def running(folder: Path, *arguments: str, **settings: str) -> Iterator[Site]:
    """Run a command that starts receivers; killed at the end, and then they stop."""
    given = {"WAKEGATE_LISTEN": "127.0.0.1:0", "WAKEGATE_CONTROL": str(folder / "control.sock"), **settings}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command(*arguments), cwd=folder, env=environment(folder, **given), stdout=log, stderr=log
        )
    site = Site(folder, settings_in(folder), process)
    try:
        site.until(lambda: f"listening program=receiver-{PROCESSES}" in site.log)
        yield site
    finally:
        process.kill()
        process.wait()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running(tmp_path_factory.mktemp("processes"), "receiver", "--processes", str(PROCESSES)) as found:
        yield found


async def test_what_any_of_them_takes_is_on_record_once_and_told_on_one_page(site: Site) -> None:
    desk = await site.register()
    requests = [request_bytes(desk.sender.notification()) for _ in range(40)]
    replies = await asyncio.gather(*(site.post(each) for each in [*requests, *requests[:10]]))
    assert {reply.status for reply in replies} == {204}
    refused = await asyncio.gather(*(site.post(request_bytes(desk.sender.raw(b"{"))) for _ in range(6)))
    assert {reply.status for reply in refused} == {400}
    async with await open_store(site.settings.database, mode="use") as store:
        assert len(await store.notifications()) == 40
    await site.told("wakegate_acknowledgements_total", 50)
    await site.told("wakegate_refusals_total", 6)
    assert (await site.metrics())["wakegate_receiver_processes"] == PROCESSES
    site.until(lambda: len(read_refusals(site.settings.refusals_path)) == 6)


@pytest.mark.parametrize("name", ["receiver-1", "receiver-2"])
async def test_one_that_is_killed_is_started_again_while_the_other_takes_webhooks(site: Site, name: str) -> None:
    desk = await site.register()
    before, killed = site.log.count(f"listening program={name} "), site.pid(name)
    os.kill(killed, signal.SIGKILL)
    replies = await asyncio.gather(*(site.post(request_bytes(desk.sender.notification())) for _ in range(10)))
    assert {reply.status for reply in replies} == {204}, "who connects to the shared socket waits for nobody dead"
    site.until(lambda: site.log.count(f"listening program={name} ") > before)
    assert f"crashed program={name} action=restart ending=SIGKILL" in site.log
    assert site.pid(name) != killed
    await site.told("wakegate_receiver_processes", PROCESSES)


def test_up_runs_them_too_and_a_stop_ends_them_all(tmp_path: Path) -> None:
    with running(tmp_path, "up", WAKEGATE_PROCESSES=str(PROCESSES)) as site:
        site.until(lambda: "ready program=worker" in site.log)
        pids = [site.pid(name) for name in ("receiver", "receiver-1", "receiver-2", "worker")]
        site.process.terminate()
        assert site.process.wait(PATIENCE_S) == 0, site.log
    assert not any(map(is_running, pids))
    assert not (tmp_path / "control.sock").exists()


def test_what_keeps_one_of_them_from_starting_ends_the_command_with_its_reason(tmp_path: Path) -> None:
    taken = lock_files.take(tmp_path / "control.sock.lock", 0o600)
    assert taken is not None
    control = {"WAKEGATE_CONTROL": str(tmp_path / "control.sock"), "WAKEGATE_LISTEN": "127.0.0.1:0"}
    ran = run(tmp_path, "receiver", "--processes", "2", settings=control)
    os.close(taken)
    assert ran.code == 2
    assert f"wakegate: receiver-1: WAKEGATE_CONTROL: another receiver has {tmp_path}/control.sock" in ran.err
    assert "started program=receiver-2" not in ran.err


def test_a_taken_port_is_told_before_anything_is_started(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        ran = run(tmp_path, "receiver", settings={"WAKEGATE_LISTEN": address, "WAKEGATE_PROCESSES": "2"})
    assert ran.code == 2
    assert f"wakegate: WAKEGATE_LISTEN: cannot listen on {address}: Address already in use" in ran.err
    assert "started" not in ran.err
