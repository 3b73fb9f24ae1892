"""Harnesses as processes of their own, killed and interrupted; effects are counted outside wakegate."""

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support import driving, warm
from support.desk import Desk
from support.harness import LEASE
from support.ways import NAMES, Way
from wakegate_adapter import Adapter, Call, State
from wakegate_schema import clock
from wakegate_schema.records import Execution
from wakegate_schema.store import Store

HARNESS = Path(__file__).parents[1] / "support" / "harness.py"


@pytest.fixture(params=NAMES)
async def where(
    request: pytest.FixtureRequest, store: Store, database: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    """Where the processes go: the store, or a receiver's control socket; there is one instance to use."""
    await Desk(store).open()
    async with Way(request.param, database, monkeypatch) as way:
        yield await way.where(LEASE)


@pytest.fixture
async def adapter(where: str) -> AsyncIterator[Adapter]:
    """An adapter in this process, which goes the same way."""
    async with await Adapter.open(where) as opened:
        yield opened


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """Where refunds leave a line each."""
    path = tmp_path / "ledger"
    path.touch()
    return path


@asynccontextmanager
async def harness(where: str, *args: object) -> AsyncIterator[Process]:
    """A harness process; killed at the end if it still runs."""
    words = (str(HARNESS), where, *map(str, args))
    process = await warm.start("script", *words, stdin=PIPE, stdout=PIPE, env=os.environ)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: Process) -> str:
    """The next line that a harness says; its stdout is its own."""
    assert process.stdout is not None
    async with asyncio.timeout(20):
        return (await process.stdout.readline()).decode().strip()


async def go(process: Process) -> None:
    """Give the word."""
    assert process.stdin is not None
    process.stdin.write(b"go\n")
    await process.stdin.drain()


async def permitted(adapter: Adapter, store: Store) -> str:
    """A call that a harness may run now."""
    ticket = await adapter.suspend(Call("issue_refund", {"amount": 4900}), runs="harness")
    await driving.approve(store, ticket.execution_id)
    return ticket.execution_id


async def swept_into(store: Store, execution_id: str, state: State) -> Execution:
    """Sweep until an execution is in this state."""
    async with asyncio.timeout(20):
        while (found := await store.execution(execution_id)).state is not state:
            await store.sweep(clock.now())
            await asyncio.sleep(0.05)
        return found


async def test_a_call_suspended_by_a_process_that_dies_at_once_is_saved(
    adapter: Adapter, store: Store, where: str
) -> None:
    async with harness(where, "suspend", "run-7:call-2") as process:
        execution_id = await said(process)
        assert await process.wait() == 9
    found = await store.execution(execution_id)
    assert (found.state, found.idempotency_key, found.arguments) == (
        State.SAVED, "run-7:call-2", b'{"amount":4900}',
    )  # fmt: skip


async def test_of_two_processes_that_claim_at_once_one_runs_the_call(
    adapter: Adapter, store: Store, where: str, ledger: Path
) -> None:
    execution_id = await permitted(adapter, store)
    async with (
        harness(where, "claim", execution_id, ledger, 0.5) as one,
        harness(where, "claim", execution_id, ledger, 0.5) as two,
    ):
        assert (await said(one), await said(two)) == ("ready", "ready")
        await asyncio.gather(go(one), go(two))
        assert sorted([await said(one), await said(two)]) == ["refused already_started", "started"]
        await asyncio.gather(one.wait(), two.wait())
    assert ledger.read_text() == "4900\n"
    assert (await adapter.get(execution_id)).state is State.SUCCEEDED


async def test_a_call_whose_process_is_killed_is_in_doubt_after_its_lease_and_never_runs_again(
    adapter: Adapter, store: Store, where: str, ledger: Path
) -> None:
    execution_id = await permitted(adapter, store)
    async with harness(where, "claim", execution_id, ledger, 60) as process:
        await said(process)
        await go(process)
        assert await said(process) == "started"
        await asyncio.sleep(1.5 * LEASE)
        await store.sweep(clock.now())
        assert (await store.execution(execution_id)).state is State.STARTED, "the lease is kept while it runs"
        process.kill()
        await process.wait()
    found = await swept_into(store, execution_id, State.IN_DOUBT)
    assert found.reason == "lease_lost"
    async with adapter.claim(execution_id) as attempt:
        assert not attempt.permitted
    assert ledger.read_text() == "4900\n"


async def test_a_held_call_whose_process_is_killed_while_it_waits_is_abandoned(
    adapter: Adapter, store: Store, where: str, ledger: Path
) -> None:
    async with harness(where, "hold", "k", ledger, 60) as process:
        execution = await driving.next_saved(store, "issue_refund")
        process.kill()
        await process.wait()
    found = await swept_into(store, execution.execution_id, State.ABANDONED)
    assert found.reason == "hold_lost"
    assert ledger.read_text() == ""


async def test_ctrl_c_while_a_hold_waits_abandons_the_call_at_once(
    adapter: Adapter, store: Store, where: str, ledger: Path
) -> None:
    async with harness(where, "hold", "k", ledger, 60) as process:
        assert await said(process) == "ready"
        execution = await driving.next_saved(store, "issue_refund")
        process.send_signal(signal.SIGINT)
        assert await said(process) == "interrupted"
    found = await store.execution(execution.execution_id)
    assert (found.state, found.reason) == (State.ABANDONED, "hold_interrupted")


async def test_ctrl_c_while_a_held_call_runs_leaves_it_in_doubt(
    adapter: Adapter, store: Store, where: str, ledger: Path
) -> None:
    async with harness(where, "hold", "k", ledger, 60) as process:
        assert await said(process) == "ready"
        execution = await driving.next_saved(store, "issue_refund")
        await driving.approve(store, execution.execution_id)
        assert await said(process) == "started"
        process.send_signal(signal.SIGINT)
        assert await said(process) == "interrupted"
    found = await store.execution(execution.execution_id)
    assert (found.state, found.reason) == (State.IN_DOUBT, "tool_cancelled")
    assert ledger.read_text() == "4900\n"


async def test_a_held_call_runs_in_its_process_once_it_is_approved(
    adapter: Adapter, store: Store, where: str, ledger: Path
) -> None:
    async with harness(where, "hold", "k", ledger, 0.1) as process:
        assert await said(process) == "ready"
        execution = await driving.next_saved(store, "issue_refund")
        await driving.approve(store, execution.execution_id)
        assert [await said(process), await said(process)] == ["started", "done succeeded"]
    assert ledger.read_text() == "4900\n"
