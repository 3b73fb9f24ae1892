"""The WAL stays small under load, and one that a forgotten reader lets grow is told of and taken in again (A38)."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import structlog

from support.aap_peer import Peer
from support.deliveries import new_id
from support.desk import Desk
from support.receivers import Client
from support.services import Site, lines_of, site_in, tell, until_true
from wakegate_schema.states import State
from wakegate_schema.store import Store
from wakegate_schema.store.sqlite import wal
from wakegate_schema.store.sqlite.connection import WAL_SIZE_LIMIT
from wakegate_schema.store.sqlite.wal import WalWatch

MEGABYTE = 1024 * 1024
LOAD_S = float(os.environ.get("WAKEGATE_TEST_LOAD_S", "3"))
BOUND = 16 * MEGABYTE
"""Twice the 8 MB at which a commit takes in what the thread beside has left, and half of what the load writes."""


@contextlib.contextmanager
def idle_reader(database: Path) -> Iterator[None]:
    """Keep a transaction open that has read, as a forgotten shell does."""
    with closing(sqlite3.connect(database, isolation_level=None)) as shell:
        shell.execute("BEGIN")
        shell.execute("SELECT COUNT(*) FROM notification").fetchall()
        yield


async def outgrow(store: Store, desk: Desk, database: Path) -> None:
    """Write until the WAL is larger than it may be."""
    while wal.size(database) <= WAL_SIZE_LIMIT:
        await asyncio.gather(*(store.record(desk.arrival(new_id(), body=b"x" * 60_000)) for _ in range(64)))


async def test_a_wal_that_a_reader_held_up_is_told_of_and_taken_in_once_it_is_gone(tmp_path: Path, peer: Peer) -> None:
    async with site_in(tmp_path, tmp_path, peer) as site, site.receiving(), site.working():
        database, desk = site.settings.database_path, site.worker.desk
        desk.registration_id = site.registered.registration_id
        with idle_reader(database):
            await outgrow(site.store, desk, database)
            await until_true(lambda: "wal_too_large" in site.receiver_log and "wal_too_large" in site.worker.logs)
            for log in (site.receiver_log, site.worker.logs):
                (line,) = lines_of(log, "wal")
                assert line["level"] == "warning"
            told = (await site.ask("/readyz"))[1]["wal_bytes"]
            assert isinstance(told, int)
            assert told > WAL_SIZE_LIMIT
            assert (await site.post(site.sender.notification())).status == 204
        await until_true(lambda: wal.size(database) < MEGABYTE)
        await until_true(lambda: "small again" in site.receiver_log and "small again" in site.worker.logs)


async def test_the_warning_comes_at_once_and_then_every_five_minutes() -> None:
    now = 0.0
    told: list[float] = []

    async def take_in() -> int:
        return WAL_SIZE_LIMIT + 1

    watch = WalWatch(take_in, lambda: now)
    with structlog.testing.capture_logs() as lines:
        while now < 900:
            before = len(lines)
            await watch.look()
            told += [now] * (len(lines) - before)
            now += 5
    assert told == [0.0, 300.0, 600.0]


async def test_the_size_limit_holds_for_every_connection_that_writes(store: Store, database: str) -> None:
    path = Path(database.removeprefix("sqlite:///"))
    desk = await Desk(store).open()
    with idle_reader(path):
        await outgrow(store, desk, path)
        for _ in range(4):
            await store.record(desk.arrival(new_id(), body=b"x" * 60_000))
        assert wal.size(path) > WAL_SIZE_LIMIT
    for _ in range(3):
        await store.record(desk.arrival(new_id()))
    assert wal.size(path) <= WAL_SIZE_LIMIT, "the first commit at the WAL's new beginning cuts it"


async def test_under_constant_load_from_everybody_the_wal_stays_small(tmp_path: Path, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    async with site_in(tmp_path, tmp_path, peer) as site, site.receiving(), site.working():
        database, written, largest = site.settings.database_path, [0], [0]
        end = time.monotonic() + LOAD_S

        def goes_on() -> bool:
            return time.monotonic() < end or written[0] < 2 * BOUND

        async def notify() -> None:
            async with Client(site.address) as client:
                while goes_on():
                    plain = site.sender.notification()
                    delivery = site.sender.raw(plain.body + b" " * 16_000, plain.headers["webhook-id"])
                    assert (await client.post(delivery)).status == 204
                    written[0] += len(delivery.body)

        async def call() -> None:
            while goes_on():
                saved = await site.worker.save()
                assert (await site.worker.settled(saved.execution_id, seconds=60)).state is State.SUCCEEDED

        async def look() -> None:
            while goes_on():
                await list_everything(site, "notification")

        async def measure() -> None:
            while goes_on():
                largest[0] = max(largest[0], wal.size(database))
                await asyncio.sleep(0.01)

        await asyncio.gather(*(notify() for _ in range(8)), *(call() for _ in range(4)), look(), measure())
        assert largest[0] < BOUND
        tell(f"written {written[0] / MEGABYTE:.0f} MB, largest WAL {largest[0] / MEGABYTE:.1f} MB")


async def test_a_listing_that_nobody_reads_on_keeps_no_transaction_open(tmp_path: Path, peer: Peer) -> None:
    async with site_in(tmp_path, tmp_path, peer) as site:
        desk = site.worker.desk
        desk.registration_id = site.registered.registration_id
        for _ in range(6):
            await asyncio.gather(*(site.store.record(desk.arrival(new_id())) for _ in range(250)))
        with listing(site, "notification") as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"[\n"
            await asyncio.gather(*(site.store.record(desk.arrival(new_id())) for _ in range(250)))
            with closing(sqlite3.connect(site.settings.database_path, isolation_level=None, timeout=0)) as shell:
                assert shell.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
            assert process.poll() is None, "it waits for its reader"
            assert process.stdout.read().endswith(b"]\n")


@contextlib.contextmanager
def listing(site: Site, what: str) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", "wakegate_console", what, "list", "--json"]
    environment = {"WAKEGATE_DATABASE": site.settings.database, "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=site.worker.directory) as process:
        try:
            yield process
        finally:
            process.kill()


async def list_everything(site: Site, what: str) -> None:
    """Run a listing to its end."""

    def run() -> None:
        with listing(site, what) as process:
            output, _ = process.communicate()
            assert process.returncode == 0
            assert output.rstrip().endswith(b"]")

    await asyncio.to_thread(run)
