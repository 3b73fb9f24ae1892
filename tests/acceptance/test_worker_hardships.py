"""Tools, probes, providers and log readers that misbehave: the worker stays up, and says what is the matter."""

import asyncio
import contextlib
import fcntl
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.aap_peer import Peer
from support.desk import new_id
from support.hard_tools import PROBES
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock, clock_mark, timestamps
from wakegate_schema.states import State

TOOLS = {"tools": ("support.hard_tools", "support.worker_tools")}
ENVIRONMENT = {"WAKEGATE_TOOLS": "support.hard_tools,support.worker_tools"}


@pytest.fixture
def peer(peer: Peer) -> Peer:
    """A peer that approves at once."""
    peer.at_submission = lambda peer, request: peer.approve(request)
    return peer


@pytest.fixture
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where probes are counted."""
    monkeypatch.setenv(PROBES, str(tmp_path / "probes"))
    return tmp_path / "probes"


def count(path: Path) -> int:
    return len(path.read_text().split()) if path.exists() else 0


async def test_a_provider_that_takes_longer_than_a_lease_is_waited_for(desk: WorkerDesk, peer: Peer) -> None:
    async def slowly(request: web.Request) -> web.StreamResponse | None:
        await asyncio.sleep(3.0)
        return None

    peer.interference = slowly
    async with desk.worker():
        saved = await desk.save()
        done = await desk.settled(saved.execution_id)
    assert done.state is State.SUCCEEDED
    assert (len(peer.submissions), peer.reads, done.lease_number) == (1, [], 1)


@pytest.mark.parametrize("tool", ["fail_without_a_word", "fail_without_a_word_sync"])
async def test_a_declared_failure_without_a_text_is_a_failure(desk: WorkerDesk, tool: str) -> None:
    async with desk.worker(**TOOLS):
        saved = await desk.save(tool=tool)
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason, done.error) == (State.FAILED, "tool_failed", "Speechless")


async def test_a_probe_that_wants_to_end_the_process_does_not(desk: WorkerDesk, probes: Path) -> None:
    async with desk.process(**ENVIRONMENT, **{PROBES: str(probes)}) as process:
        lost = await desk.save(tool="lose_with_a_leaving_probe")
        await desk.settled(lost.execution_id)
        await eventually(lambda: count(probes) == 1)
        saved = await desk.save(idempotency_key=new_id())
        assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
        assert process.returncode is None


async def test_a_probe_that_hangs_is_not_asked_again_meanwhile_and_takes_no_tool_its_thread(
    desk: WorkerDesk, probes: Path
) -> None:
    async with desk.worker(**TOOLS, worker_concurrency=1):
        lost = [await desk.save(tool="lose_with_a_hanging_probe", idempotency_key=new_id()) for _ in range(4)]
        for execution in lost:
            await desk.settled(execution.execution_id)
        await asyncio.sleep(4.0)
        asked = count(probes)
        saved = await desk.save(tool="pay_in_a_thread", idempotency_key=new_id())
        assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
    assert 1 <= asked <= len(lost)


@pytest.mark.parametrize("tool", ["stay", "stay_in_a_thread"])
async def test_a_tool_that_does_not_end_does_not_keep_the_process(desk: WorkerDesk, tool: str) -> None:
    async with desk.process(**ENVIRONMENT) as process:
        saved = await desk.save(tool=tool)
        await eventually(lambda: desk.effects == [saved.execution_id])
        if tool == "stay":
            await desk.until(saved.execution_id, State.IN_DOUBT)
        process.send_signal(signal.SIGTERM)
        if tool == "stay_in_a_thread":
            await asyncio.sleep(0.6)
            process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
    assert '"stopped"' in desk.logs


async def test_a_worker_held_up_by_its_log_starts_nothing_after_the_approval_has_ended(
    desk: WorkerDesk, peer: Peer
) -> None:
    peer.at_submission = None
    pipe = Pipe()
    async with desk.process(pipe.end, WAKEGATE_LEASE_SECONDS="60"):
        pipe.close_end()
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
        await eventually(lambda: b"submitted" in pipe.read())
        pipe.fill()
        peer.approve(peer.only(), lasting=2)
        await desk.notify(waiting.request_id or "")
        await desk.until(saved.execution_id, State.STARTED)
        await asyncio.sleep(2.5)
        async with asyncio.timeout(10):
            while (await desk.store.execution(saved.execution_id)).state is State.STARTED:
                pipe.read()
                await asyncio.sleep(0.01)
    done = await desk.store.execution(saved.execution_id)
    assert desk.effects == []
    assert (done.state, done.reason) == (State.LAPSED, "approval_expired")


class Pipe:
    """A process's output that is only read when the test reads it."""

    def __init__(self) -> None:
        self._reading, self.end = os.pipe()
        fcntl.fcntl(self.end, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(self._reading, False)
        self._writing = os.open(f"/proc/self/fd/{self.end}", os.O_WRONLY | os.O_NONBLOCK)
        self._read = b""

    def close_end(self) -> None:
        """Leave the end to the process."""
        os.close(self.end)

    def read(self) -> bytes:
        """Read what is there, and return all that was read so far."""
        with contextlib.suppress(BlockingIOError):
            self._read += os.read(self._reading, 65536)
        return self._read

    def fill(self) -> None:
        """Leave no room."""
        try:
            while True:
                os.write(self._writing, b"x" * 1)
        except BlockingIOError:
            pass


@pytest.mark.parametrize("early", [True, False], ids=["with the submission's answer", "by a later read"])
async def test_a_clock_known_to_be_behind_refuses_nothing_for_good(desk: WorkerDesk, peer: Peer, early: bool) -> None:
    """The host has shown a later time before, so that what looks like the future may be the present."""
    await desk.store.mark_clock(clock_mark.host_name(), clock.now() + clock.HOUR)
    ahead = 20 * clock.MINUTE

    def approve(peer: Peer, request: dict[str, Any]) -> None:
        peer.approve(request, lasting=3600)
        request["decision"]["decided_at"] = timestamps.render(clock.now() + ahead)

    peer.at_submission = approve if early else None
    async with desk.worker():
        saved = await desk.save()
        if not early:
            waiting = await desk.until(saved.execution_id, State.WAITING)
            approve(peer, peer.only())
            await desk.notify(waiting.request_id or "")
        left = await desk.when(
            saved.execution_id, lambda execution: execution.problem is not None or execution.resolved
        )
    assert (left.state, left.problem) == (State.WAITING, "clock_behind")
    assert desk.effects == []
