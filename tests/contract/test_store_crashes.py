"""Processes that are killed, stopped or forked, and writers that fail: what was acknowledged stays, nobody hangs."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.desk import Desk, new_id
from support.raw import open_raw
from wakegate_schema.records import Execution, Suspension
from wakegate_schema.store import InvariantViolated, Store, StoreUnavailable, UnstorableValue, group_commit, open_store
from wakegate_schema.store.dialects import SQLITE

HERE = Path(__file__).parent
KILLS = 6
HELD_S = {"sqlite": 5, "postgresql": 10}
"""How long who has died may keep the turn; PostgreSQL waits for a word from the socket that a fork holds open."""


@contextmanager
def process(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script beside this one; it does not outlive the block."""
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    command = [sys.executable, str(HERE / script), *arguments]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as running:
        try:
            yield running
        finally:
            running.kill()


def line(running: subprocess.Popen[str]) -> str:
    """The next line that the process prints."""
    assert running.stdout is not None
    return running.stdout.readline()


async def test_what_was_acknowledged_before_a_kill_is_on_record(desk: Desk, database: str) -> None:
    acknowledged: set[str] = set()
    for _ in range(KILLS):
        with process("acknowledger.py", database, desk.instance_id, desk.registration_id) as writer:
            assert line(writer).startswith("saved ")
            await asyncio.sleep(random.random() * 0.05)
            writer.kill()
            assert writer.stdout is not None
            out = writer.stdout.read()  # `communicate` would begin behind what `line` has read ahead, perhaps in a line
        words = [text.split() for text in out.splitlines(keepends=True) if text.endswith("\n")]
        assert {kind for kind, _ in words} <= {"saved"}
        acknowledged |= {event_id for _, event_id in words}
        assert (await desk.store.record(desk.arrival(new_id()))).kind == "saved"
    with closing(open_raw(database)) as raw:
        assert acknowledged <= {event_id for (event_id,) in raw.rows("SELECT event_id FROM notification")}
        if raw.dialect is SQLITE:
            assert raw.rows("PRAGMA integrity_check") == [("ok",)]


async def test_a_stopped_process_that_holds_the_turn_makes_nobody_hang(
    desk: Desk, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "PATIENCE_S", 0.2)
    given_up, left, kept = desk.arrival(new_id()), desk.arrival(new_id()), desk.arrival(new_id())
    with process("holder.py", database) as holder:
        assert line(holder) == "held\n"
        holder.send_signal(signal.SIGSTOP)
        leaving = asyncio.ensure_future(desk.store.record(left))
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await desk.store.record(given_up)
        leaving.cancel()
        holder.send_signal(signal.SIGCONT)
        holder.communicate("\n")
    assert (await desk.store.record(kept)).kind == "saved"
    assert [n.event_id for _, n in await desk.store.notifications()] == [kept.event_id], "who gave up gets nothing"


async def test_a_store_whose_writer_hangs_can_be_closed(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "PATIENCE_S", 0.1)
    store = await open_store(database, mode="service")
    with process("holder.py", database) as holder:
        assert line(holder) == "held\n"
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await store.probe()
        async with asyncio.timeout(5):
            await store.close()
        holder.communicate("\n")
    await asyncio.to_thread(_join_writers)


def _join_writers() -> None:
    for thread in threading.enumerate():
        if thread.name == "wakegate-writer":
            thread.join(5)


async def test_a_fork_is_told_to_open_a_store_of_its_own(database: str) -> None:
    await (await open_store(database, mode="service")).close()
    with process("forking.py", database) as parent:
        out, _ = await asyncio.to_thread(parent.communicate, timeout=20)
    assert out.splitlines() == [f"child: {' '.join(['other_process'] * 4)}", "parent: works"]


async def test_a_fork_does_not_keep_the_turn_of_its_dead_parent(database: str) -> None:
    async with await open_store(database, mode="service") as store:
        with process("orphan.py", database) as parent:
            assert line(parent)
            parent.send_signal(signal.SIGKILL)
            parent.wait()
            async with asyncio.timeout(HELD_S[database.partition(":")[0]]):
                await store.probe()
            assert parent.stdin is not None
            parent.stdin.close()


async def test_event_loops_in_several_threads_share_one_writer(desk: Desk, store: Store, database: str) -> None:
    begin = threading.Barrier(4)
    answers: list[list[str]] = []

    async def save(shared: Store, suspensions: list[Suspension]) -> list[str]:
        saved = await asyncio.gather(*(shared.save(s) for s in suspensions))
        return [execution.execution_id for execution in saved]

    async with await open_store(database, mode="use") as shared:

        def work() -> None:
            suspensions = [desk.suspension() for _ in range(50)]
            begin.wait()
            assert asyncio.run(save(shared, suspensions)) == [s.execution_id for s in suspensions]
            answers.append([s.execution_id for s in suspensions])

        before = {thread.ident for thread in threading.enumerate()}
        await asyncio.gather(*(asyncio.to_thread(work) for _ in range(4)))
        writers = [t for t in threading.enumerate() if t.name == "wakegate-writer" and t.ident not in before]
    assert len(writers) == 1
    assert len({execution_id for ids in answers for execution_id in ids}) == 200


async def test_a_writer_that_fails_tells_its_callers_and_is_replaced(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def exception(self, *_: object, **__: object) -> None:
            raise BrokenPipeError("standard error is closed")

    def fails(*_: object) -> None:
        raise ZeroDivisionError

    await store.probe()
    told = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: told.set())
    with monkeypatch.context() as patched:
        patched.setattr(group_commit, "_log", Broken())
        patched.setattr(group_commit.GroupCommit, "_apply", fails)
        with pytest.raises(StoreUnavailable):
            await store.probe()
    async with asyncio.timeout(5):
        await store.probe()
    assert told.wait(5)


async def test_where_no_thread_can_be_had_nothing_is_promised_and_the_next_try_works(
    desk: Desk, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name in refused:
            raise RuntimeError("can't start new thread")
        begin(thread)

    refused = {"wakegate-writer"}
    async with await open_store(database, mode="use") as store:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="no thread") as told:
                    await store.record(desk.arrival(new_id()))
                assert told.value.reason == "no_thread"
            refused.add("wakegate-reader")
            with pytest.raises(StoreUnavailable, match="no thread"):
                await open_store(database, mode="read")
        arrival = desk.arrival(new_id())
        assert (await store.record(arrival)).kind == "saved"
        assert [entry.event_id for _, entry in await store.notifications()] == [arrival.event_id]


async def test_a_value_that_cannot_be_stored_concerns_only_its_own_call(desk: Desk, store: Store) -> None:
    good = [desk.suspension() for _ in range(5)]
    bad = [desk.suspension(tool_version="\ud800"), desk.suspension(at=2**63)]
    answers = await asyncio.gather(
        *(store.record(desk.arrival("\ud800")) for _ in range(2)),
        *(store.mark_clock("host", at) for at in (2**63, 7)),
        *(store.save(s) for s in [*bad, *good]),
        return_exceptions=True,
    )
    assert [type(a) for a in answers[:3]] == [UnstorableValue] * 3
    assert answers[3] == 0
    assert all(isinstance(a, UnstorableValue) for a in answers[4:6])
    assert [a.execution_id for a in answers[6:] if isinstance(a, Execution)] == [s.execution_id for s in good]
    with pytest.raises(UnstorableValue):
        await store.execution("\ud800")
    with pytest.raises(InvariantViolated):
        await store.save(desk.suspension(tool=""))
