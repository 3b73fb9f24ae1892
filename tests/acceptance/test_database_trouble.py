"""A database that is locked, read-only, damaged, gone or another's: 503, nothing run, and back. Real processes."""

import asyncio
import contextlib
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from aiohttp import web

from support.aap_peer import Peer
from support.disks import read_only, with_mounts
from support.processes import without_override
from support.services import Answers, Site, lines_of, pulse, site_in, stop, tell, until_true
from wakegate_schema.records import Execution
from wakegate_schema.states import State
from wakegate_schema.store import open_store

QUICK = {"WAKEGATE_REQUEST_TIMEOUT": "1"}
OVERWRITER = """
import sys
data = sys.stdin.buffer.read()
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    sys.stdout.buffer.write(file.read(len(data)))
    file.seek(int(sys.argv[2]))
    file.write(data)
"""
"""Puts what it reads into a file at a place, and writes what was there."""
HOLDER = """
import sys
from pathlib import Path
from wakegate_schema.store.sqlite.turn import TurnLock
with TurnLock(Path(sys.argv[1]), mode=0o660):
    print("held", flush=True)
    sys.stdin.readline()
"""


class Gate:
    """Keeps back what the peer says of a decided request, until it is opened."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.asked, self.opened = asyncio.Event(), asyncio.Event()
        peer.interference = self._answer

    async def _answer(self, request: web.Request) -> web.StreamResponse | None:
        known = self._peer.requests.get(request.path.rpartition("/")[2])
        if request.method == "GET" and known is not None and known["status"] == "approved":
            self.asked.set()
            await self.opened.wait()
        return None


@asynccontextmanager
async def approved_call(site: Site, peer: Peer) -> AsyncIterator[tuple[Execution, Gate]]:
    """A call whose decision the worker has asked for and not heard yet: the next thing to write is `started`."""
    gate = Gate(peer)
    saved = await site.worker.save()
    waiting = await site.worker.until(saved.execution_id, State.WAITING)
    peer.approve(peer.requests[waiting.request_id or ""])
    assert (await site.post(site.sender.notification(waiting.request_id))).status == 204
    await asyncio.wait_for(gate.asked.wait(), 60)
    try:
        yield saved, gate
    finally:
        gate.opened.set()


async def flood(site: Site, answers: Answers, count: int = 24) -> None:
    await asyncio.gather(*(answers.post(site, site.sender.notification()) for _ in range(count)))


# Locked (A37, A71)


async def test_a_shell_that_locks_the_database_for_longer_than_anybody_waits(tmp_path: Path, peer: Peer) -> None:
    async with (
        site_in(tmp_path, tmp_path, peer) as site,
        site.receiving(**QUICK),
        site.working(),
        approved_call(site, peer) as (saved, gate),
    ):
        peer.at_submission = lambda peer, request: peer.approve(request)
        running = await site.worker.save(tool="take_a_second")
        await until_true(lambda: site.worker.effects == [running.execution_id])
        answers = Answers()
        with closing(sqlite3.connect(site.settings.database_path, isolation_level=None)) as shell:
            shell.execute("BEGIN EXCLUSIVE")
            gate.opened.set()
            async with pulse(site) as waits:
                loop = asyncio.get_running_loop()
                until = loop.time() + 6  # a writer waits five seconds for a lock
                while loop.time() < until:
                    await flood(site, answers)
            assert await site.unready() == "store_timeout"
            assert (answers.acknowledged, answers.broken) == (set(), 0)
            assert answers.are_fair
            assert max(waits) < 1, "nothing blocks the event loop"
            assert max(answers.seconds) < 5
            await until_true(lambda: '"the outcome waits for the store"' in site.worker.logs)
            assert site.worker.effects == [running.execution_id]
            shell.execute("ROLLBACK")
        await flood(site, answers)
        assert len(answers.acknowledged) == 24
        assert await site.unready() is None
        for execution in (running, saved):
            assert (await site.worker.until(execution.execution_id, State.SUCCEEDED)).reason == "returned"
        assert site.worker.effects == [running.execution_id, saved.execution_id]
        assert await site.recorded() >= answers.acknowledged
        tell(f"healthz while locked: {max(waits) * 1000:.0f} ms at most; refusals after {max(answers.seconds):.2f} s")


@contextlib.contextmanager
def stopped_writer(database: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has the turn to write and is stopped, as by a debugger or a paused container."""
    command = [sys.executable, "-c", HOLDER, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            holder.send_signal(signal.SIGSTOP)
            yield holder
        finally:
            holder.kill()


async def test_a_stopped_writer_that_holds_the_turn_holds_up_nothing_else(tmp_path: Path, peer: Peer) -> None:
    async with (
        site_in(tmp_path, tmp_path, peer) as site,
        site.receiving(**QUICK),
        site.working(WAKEGATE_LEASE_SECONDS="30"),  # a start that takes as long as its lease is not made
        approved_call(site, peer) as (saved, gate),
    ):
        answers = Answers()
        with stopped_writer(site.settings.database_path) as holder:
            gate.opened.set()
            async with pulse(site) as waits:
                await flood(site, answers)
                assert await site.unready() == "store_timeout"
            assert max(waits) < 1
            assert (answers.acknowledged, answers.broken, answers.are_fair) == (set(), 0, True)
            assert site.worker.effects == []
            holder.send_signal(signal.SIGCONT)
            holder.communicate("\n")
        await flood(site, answers)
        assert len(answers.acknowledged) == 24
        assert (await site.worker.settled(saved.execution_id)).state is State.SUCCEEDED
        assert site.worker.effects == [saved.execution_id]
        assert await site.recorded() >= answers.acknowledged


# Read-only


@with_mounts
async def test_a_folder_that_became_read_only_starts_no_service_until_it_is_writable(
    tmp_path: Path, peer: Peer
) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    async with site_in(folder, tmp_path, peer) as site:
        async with site.receiving() as receiver:
            assert (await site.post(site.sender.notification())).status == 204
            with read_only(folder):
                answers = Answers()
                await flood(site, answers)
                assert answers.are_fair
                assert await site.recorded() >= answers.acknowledged
                async with site.working() as worker:
                    assert await asyncio.wait_for(worker.wait(), 60) != 0
                assert "ead-only" in site.worker.logs
                await stop(receiver)
                again = await site.start_receiver()
                assert (await again.communicate())[0] == b""
                assert again.returncode != 0
                assert "ead-only" in site.receiver_log
        async with site.receiving(), site.working() as worker:
            assert (await site.post(site.sender.notification())).status == 204
            assert worker.returncode is None


async def test_files_that_may_only_be_read_are_503_until_they_may_be_written(tmp_path: Path, peer: Peer) -> None:
    """As the second user of a group sees files that the first one made for itself alone."""
    folder = tmp_path / "store"
    folder.mkdir()
    async with site_in(folder, tmp_path, peer) as site, site.receiving(prefix=without_override()):
        assert (await site.post(site.sender.notification())).status == 204
        files = [path for path in folder.iterdir() if path.name.startswith("wakegate.db")]
        aside = folder.with_name("aside")
        aside.mkdir()
        for path in files:
            path.chmod(0o440)
        reopened = site.settings.database_path.rename(aside / "wakegate.db")
        assert (await site.post(site.sender.notification())).status == 503
        reopened.rename(site.settings.database_path)  # what is open is let go of, and opened once more
        answers = Answers()
        await flood(site, answers)
        assert (answers.acknowledged, answers.broken, answers.are_fair) == (set(), 0, True)
        assert await site.unready() == "store_read_only"
        for path in files:
            path.chmod(0o660)
        async with asyncio.timeout(60):  # what was opened meanwhile is let go of by its next read
            while await site.unready() is not None:
                await asyncio.sleep(0.05)
        await flood(site, answers)
        assert len(answers.acknowledged) == 24
        assert await site.recorded() >= answers.acknowledged


# Damaged


@pytest.mark.parametrize("where", ["the header", "the middle"])
async def test_a_database_that_is_overwritten_while_it_is_used(tmp_path: Path, peer: Peer, where: str) -> None:
    async with (
        site_in(tmp_path, tmp_path, peer) as site,
        site.receiving(),
        site.working(),
        approved_call(site, peer) as (saved, gate),
    ):
        answers = Answers()
        await flood(site, answers, 60)
        with closing(sqlite3.connect(site.settings.database_path, isolation_level=None)) as shell:
            assert shell.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
        with overwritten(site.settings.database_path, where):
            gate.opened.set()
            for _ in range(3):
                await flood(site, answers)
            assert answers.broken == 0
            assert answers.are_fair
            assert await site.unready() == "store_corrupt"
        for _ in range(2):
            await flood(site, answers)
        assert await site.unready() is None
        assert (await site.worker.settled(saved.execution_id)).state is State.SUCCEEDED
        assert site.worker.effects == [saved.execution_id]
        assert await site.recorded() >= answers.acknowledged


@contextlib.contextmanager
def overwritten(path: Path, where: str) -> Iterator[None]:
    """Overwrite part of a file in place, and put it right at the end.

    In a process of its own: one that opens and closes the file loses the locks that its SQLite has on it.
    """
    size = path.stat().st_size
    begin, end = {"the header": (0, 100), "the middle": (size // 4, size * 3 // 4)}[where]
    before = subprocess.run(
        [sys.executable, "-c", OVERWRITER, str(path), str(begin)], input=b"\xa5" * (end - begin),
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    try:
        yield
    finally:
        subprocess.run(
            [sys.executable, "-c", OVERWRITER, str(path), str(begin)], input=before, capture_output=True, check=True
        )


async def test_a_damaged_database_at_rest_starts_nothing(tmp_path: Path, peer: Peer) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    async with site_in(folder, tmp_path, peer) as site:
        saved = await site.worker.save()
        await site.store.close()
        for where in ("the header", "the middle"):
            with overwritten(site.settings.database_path, where):
                receiver = await site.start_receiver()
                async with site.working() as worker:
                    assert (await asyncio.wait_for(receiver.communicate(), 60))[0] == b""
                    assert await asyncio.wait_for(worker.wait(), 60) != 0
                assert receiver.returncode != 0
        assert peer.submissions == []
        async with site.receiving(), site.working():
            assert (await site.post(site.sender.notification())).status == 204
            await peer.submitted()
        assert saved.execution_id not in site.worker.effects


# Gone, or another's


async def test_a_database_that_is_moved_away_runs_nothing_and_its_return_heals(tmp_path: Path, peer: Peer) -> None:
    async with (
        site_in(tmp_path, tmp_path, peer) as site,
        site.receiving(),
        site.working(),
        approved_call(site, peer) as (saved, gate),
    ):
        database, answers = site.settings.database_path, Answers()
        hidden = database.rename(tmp_path / "hidden.db")
        gate.opened.set()
        for _ in range(3):
            await flood(site, answers)
        await asyncio.sleep(0.5)
        assert (answers.acknowledged, answers.broken, answers.are_fair) == (set(), 0, True)
        assert await site.unready() is not None
        assert not database.exists(), "nobody makes a new one"
        assert site.worker.effects == []
        hidden.rename(database)
        await flood(site, answers)
        assert len(answers.acknowledged) == 24
        assert (await site.worker.settled(saved.execution_id)).state is State.SUCCEEDED
        assert site.worker.effects == [saved.execution_id]
        assert await site.recorded() >= answers.acknowledged


async def test_a_wal_that_vanished_acknowledges_nothing_and_a_restart_of_all_saves_it(
    tmp_path: Path, peer: Peer
) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    async with site_in(folder, tmp_path, peer) as site:
        answers = Answers()
        async with site.receiving() as receiver, site.working() as worker:
            async with approved_call(site, peer) as (saved, gate):
                await flood(site, answers)
                before = set(answers.acknowledged)
                for suffix in ("-wal", "-shm"):
                    (folder / f"wakegate.db{suffix}").unlink()
                gate.opened.set()
                for _ in range(3):
                    await flood(site, answers)
                assert (answers.acknowledged, answers.broken, answers.are_fair) == (before, 0, True)
                assert await site.unready() == "store_vanished"
                await until_true(lambda: "store_vanished" in site.worker.logs)
                assert site.worker.effects == []
            await site.store.close()
            assert await stop(receiver) == 0
            assert await stop(worker) == 0
        async with await open_store(site.settings.database, mode="use") as store, site.receiving(), site.working():
            site.store = site.worker.store = store
            await flood(site, answers)
            assert len(answers.acknowledged) == len(before) + 24
            assert (await site.worker.settled(saved.execution_id)).state is State.SUCCEEDED
            assert len(site.worker.effects) == 1
            assert await site.recorded() >= answers.acknowledged


async def test_a_database_that_is_put_in_anothers_place_takes_nothing_in(tmp_path: Path, peer: Peer) -> None:
    async with site_in(tmp_path, tmp_path, peer) as site:
        copy = tmp_path / "copy.db"
        with closing(sqlite3.connect(site.settings.database_path)) as raw, closing(sqlite3.connect(copy)) as other:
            raw.backup(other)
        async with site.receiving(), site.working():
            await until_true(lambda: bool(lines_of(site.worker.logs, "ready")))  # it has the file open too
            answers = Answers()
            await flood(site, answers)
            before = set(answers.acknowledged)
            copy.rename(site.settings.database_path)
            for _ in range(3):
                await flood(site, answers)
            assert (answers.acknowledged, answers.broken, answers.are_fair) == (before, 0, True)
            assert await site.unready() == "store_vanished"
