"""A worker inside a program's own process: it works there, leaves as it is told, and touches nothing else."""

import asyncio
import functools
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvloop

from support import worker_tools
from support.aap_peer import Peer
from support.provider import provider, provider_settings
from support.workers import WorkerDesk, eventually
from wakegate_adapter import Adapter, Call, State
from wakegate_schema.errors import WakegateError
from wakegate_schema.records import Execution
from wakegate_schema.store import Store, open_store
from wakegate_worker import Attempt, Settings, running, tool

APPROVE = '[[rule]]\ntool = "*"\ndecision = "approve"\n'


@tool()
async def refund(attempt: Attempt, amount: int) -> dict[str, int]:
    """Pay."""
    return {"refunded": amount}


def settings_in(folder: Path, **changes: Any) -> Settings:
    """Settings of a program that keeps everything in one folder."""
    values = {"database": f"sqlite:///{folder}/wakegate.db", "lease_seconds": 2, "sweep_seconds": 0.05}
    return Settings.model_validate(values | changes)


class Slow:
    """A tool that takes as long as its test says, async or in a thread, and counts what it did."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = self.ended = 0
        self.end = threading.Event()
        self._loop = asyncio.get_running_loop()

    def in_the_loop(self) -> Callable[..., Any]:
        @tool(name="issue_refund")
        async def slow(attempt: Attempt, amount: int) -> str:
            self.begun.set()
            try:
                while not self.end.is_set():
                    await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
            self.ended += 1
            return "done"

        return slow

    def in_a_thread(self) -> Callable[..., Any]:
        @tool(name="issue_refund")
        def slow(attempt: Attempt, amount: int) -> str:
            self._loop.call_soon_threadsafe(self.begun.set)
            self.end.wait(30)
            self.ended += 1
            return "done"

        return slow


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    """A tool that ends at the end of its test at the latest."""
    made = Slow()
    yield made
    made.end.set()


@asynccontextmanager
async def started(desk: WorkerDesk, peer: Peer, slow: Slow) -> AsyncIterator[Execution]:
    """Save a call that is approved at once; when it has begun the block runs."""
    peer.at_submission = Peer.approve
    saved = await desk.save()
    async with asyncio.timeout(15):
        await slow.begun.wait()
    yield saved


# It works


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_with_it_and_an_adapter_a_program_needs_no_service(tmp_path: Path, loop: Callable[[], Any]) -> None:
    async def program() -> None:
        settings = settings_in(tmp_path)
        async with provider(provider_settings(tmp_path, APPROVE)) as caller, running(settings, tools=[refund]):
            created = (await caller.provision()).body
            async with await open_store(settings.database, mode="use") as store:
                instance, token = created["instance"]["id"], created["credential"]["token"]
                await WorkerDesk(store, tmp_path, caller.url, instance, token, delivery="none").open()
            async with await Adapter.open(settings.database) as adapter:
                held = await adapter.hold(Call("pay_out", {"amount": 1}), run=pay_out)
                saved = await adapter.suspend(Call("refund", {"amount": 2}))
                ran = await adapter.wait(saved.execution_id, timeout=15)
        assert (held.state, held.result) == (State.SUCCEEDED, {"paid": 1})
        assert (ran.state, ran.result) == (State.SUCCEEDED, {"refunded": 2})

    async def pay_out(amount: int) -> dict[str, int]:
        return {"paid": amount}

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(program())


async def test_what_one_block_saw_begun_the_next_goes_on_with(desk: WorkerDesk, peer: Peer) -> None:
    async with running(desk.settings(tools=()), tools=[worker_tools.issue_refund]):
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
    peer.approve(peer.only())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(worker_tools.VARIABLE, str(desk.effects_path))
        async with running(desk.settings(tools=()), tools=[worker_tools.issue_refund]):
            await desk.notify(waiting.request_id or "")
            done = await desk.settled(saved.execution_id)
    assert done.state is State.SUCCEEDED
    assert desk.effects == [saved.execution_id]
    assert len(peer.submissions) == 1


async def test_tools_given_are_beside_those_of_the_modules(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = Peer.approve
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(worker_tools.VARIABLE, str(desk.effects_path))
        async with running(desk.settings(), tools=[refund, worker_tools.issue_refund]):
            one, two = await desk.save(tool="refund"), await desk.save(tool="issue_refund_sync")
            assert (await desk.settled(one.execution_id)).state is State.SUCCEEDED
            assert (await desk.settled(two.execution_id)).state is State.SUCCEEDED


# It leaves


@pytest.mark.parametrize("kind", [Slow.in_the_loop, Slow.in_a_thread])
async def test_leaving_waits_for_a_call_that_has_started(
    desk: WorkerDesk, peer: Peer, slow: Slow, kind: Callable[[Slow], Any]
) -> None:
    async with running(desk.settings(tools=()), tools=[kind(slow)]), started(desk, peer, slow) as saved:
        asyncio.get_running_loop().call_later(0.3, slow.end.set)
    found = await desk.store.execution(saved.execution_id)
    assert (found.state, slow.ended) == (State.SUCCEEDED, 1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("kind", [Slow.in_the_loop, Slow.in_a_thread])
async def test_what_runs_longer_than_leaving_may_take_is_in_doubt_and_not_run_again(
    desk: WorkerDesk, peer: Peer, slow: Slow, kind: Callable[[Slow], Any], caplog: pytest.LogCaptureFixture
) -> None:
    began = time.monotonic()
    async with (
        running(desk.settings(tools=()), tools=[kind(slow)], leave_within=0.2),
        started(desk, peer, slow) as saved,
    ):
        pass
    await asyncio.sleep(0)
    assert time.monotonic() - began < 20
    assert slow.cancelled == (kind is Slow.in_the_loop)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert "left running" in caplog.text
    slow.end.set()  # the word of a thread, now that nobody hears it
    async with running(desk.settings(tools=()), tools=[kind(slow)]):
        found = await desk.until(saved.execution_id, State.IN_DOUBT)
    assert (found.state, found.reason) == (State.IN_DOUBT, "lease_lost")
    assert slow.ended == (kind is Slow.in_a_thread)


async def test_the_late_word_of_a_tool_that_outlives_its_timeout_and_its_worker_is_dropped_with_a_line(
    desk: WorkerDesk, peer: Peer, slow: Slow, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(name="issue_refund", timeout=0.1)
    def overrun(attempt: Attempt, amount: int) -> str:
        slow._loop.call_soon_threadsafe(slow.begun.set)
        slow.end.wait(30)
        return "late"

    async with running(desk.settings(tools=()), tools=[overrun]), started(desk, peer, slow) as saved:
        await desk.until(saved.execution_id, State.IN_DOUBT)
    slow.end.set()
    await eventually(lambda: "the worker has ended" in caplog.text)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert (await desk.store.execution(saved.execution_id)).state is State.IN_DOUBT


async def test_a_cancellation_in_the_block_is_honoured_and_the_running_call_is_recorded(
    desk: WorkerDesk, peer: Peer, slow: Slow
) -> None:
    saved = await desk.save()
    peer.at_submission = Peer.approve

    async def program() -> None:
        async with running(desk.settings(tools=()), tools=[slow.in_the_loop()]):
            await asyncio.sleep(60)

    task = asyncio.create_task(program())
    async with asyncio.timeout(15):
        await slow.begun.wait()
    task.cancel()
    await asyncio.sleep(0.2)
    assert not task.done()
    slow.end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await desk.store.execution(saved.execution_id)).state is State.SUCCEEDED


async def test_a_second_cancellation_waits_for_nothing(desk: WorkerDesk, peer: Peer, slow: Slow) -> None:
    peer.at_submission = Peer.approve
    await desk.save()

    async def program() -> None:
        async with running(desk.settings(tools=()), tools=[slow.in_the_loop()], leave_within=600):
            await asyncio.sleep(60)

    task = asyncio.create_task(program())
    async with asyncio.timeout(15):
        await slow.begun.wait()
        task.cancel()
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.sleep(0)
    assert (slow.cancelled, slow.ended) == (1, 0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_timeout_around_the_block_is_that_and_no_error_is_changed_on_the_way(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2), running(settings_in(tmp_path), tools=[refund]):
            await asyncio.sleep(60)
    with pytest.raises(ZeroDivisionError):
        async with running(settings_in(tmp_path), tools=[refund]):
            _ = 1 / 0


@pytest.mark.parametrize("pause", [0, 0.004, 0.008, 0.016, 0.03])
async def test_cancelled_while_it_begins_it_leaves_nothing(tmp_path: Path, pause: float) -> None:
    async def program() -> None:
        async with running(settings_in(tmp_path), tools=[refund]):
            await asyncio.sleep(60)

    task = asyncio.create_task(program())
    await asyncio.sleep(pause)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert asyncio.all_tasks() == {asyncio.current_task()}


# It touches nothing


async def test_signals_logging_and_standard_output_stay_the_programs_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def standing() -> list[object]:
        root = logging.getLogger()
        return [
            *map(signal.getsignal, signal.valid_signals()),
            *(list(root.handlers), root.level, structlog.is_configured()),
            *(thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)),
        ]

    before = standing()
    async with running(settings_in(tmp_path)):
        assert standing() == before
    assert standing() == before, "and no timer is left that would end the process"
    assert tuple(capfd.readouterr()) == ("", "")


async def test_its_lines_go_where_the_programs_own_logging_sends_them(
    desk: WorkerDesk, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "wakegate_worker")
    peer.at_submission = Peer.approve
    async with running(desk.settings(tools=()), tools=[refund]):
        saved = await desk.save(tool="refund")
        await desk.settled(saved.execution_id)
    lines = {record.getMessage() for record in caplog.records if record.name == "wakegate_worker"}
    assert any(line.startswith("wakegate: started (") and saved.execution_id in line for line in lines)


# It cannot start


def no_tool(attempt: Attempt) -> None:
    """Lacks its decorator."""


@functools.wraps(refund)
async def wrapped(*arguments: Any, **named: Any) -> Any:
    """Would run under a permission that it walks around."""
    return await refund(*arguments, **named)


@tool(name="refund")
async def another(attempt: Attempt) -> None:
    """Has the name of another tool."""


@pytest.mark.parametrize(
    ("tools", "told"),
    [
        ([no_tool], "no_tool is no tool; decorate the function with @tool()"),
        ([functools.partial(no_tool)], "a partial is no tool"),
        (refund, "refund is no list of functions"),
        ([wrapped], "make @tool the outermost one"),
        ([refund, another], "'refund' is registered twice"),
    ],
)
async def test_a_tool_that_is_none_is_named(tmp_path: Path, tools: Any, told: str) -> None:
    with pytest.raises(WakegateError, match="tool") as caught:
        async with running(settings_in(tmp_path), tools=tools):
            pass
    assert told in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tools": ("missing_tools",)}, "'missing_tools'"),
        ({"database": "sqlite:////nowhere/at/all/wakegate.db"}, "/nowhere/at/all"),
        ({"worker_key_file": "missing.key"}, "missing.key"),
        ({"wake_secret_file": "odd.secret"}, "odd.secret"),
        ({"database": "odd.db"}, "odd.db"),
    ],
)
async def test_what_keeps_it_from_starting_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("odd.secret", "odd.db"):
        (tmp_path / name).touch(mode=0o600)
        (tmp_path / name).write_text("neither a secret nor a database\n" * 50)
    if "database" in changes and "://" not in changes["database"]:
        changes = {"database": f"sqlite:///{tmp_path}/{changes['database']}"}
    with pytest.raises(WakegateError) as caught:
        async with running(settings_in(tmp_path, **changes)):
            pass
    assert told in str(caught.value)


@pytest.mark.parametrize("leave_within", [-1, float("nan")])
async def test_a_time_to_leave_that_is_none_is_refused(tmp_path: Path, leave_within: float) -> None:
    with pytest.raises(WakegateError, match="leave_within"):
        async with running(settings_in(tmp_path), leave_within=leave_within):
            pass


async def test_a_lost_key_is_not_replaced(desk: WorkerDesk, store: Store) -> None:
    desk.settings().worker_key_path.unlink()
    with pytest.raises(WakegateError, match=r"worker\.key"):
        async with running(desk.settings()):
            pass
