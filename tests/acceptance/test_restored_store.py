"""A store restored from before a start: real workers start nothing again by themselves, whoever repeats what."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from support.aap_peer import Peer
from support.console import Ran, run
from support.desk import new_id
from support.workers import WorkerDesk, eventually
from wakegate_adapter import Adapter, Call, WaitTimeout
from wakegate_schema.records import Execution
from wakegate_schema.states import State
from wakegate_schema.store import open_store

KEY = "run-7:call-2"


@asynccontextmanager
async def opened(directory: Path, peer: Peer, desk: WorkerDesk | None = None) -> AsyncIterator[WorkerDesk]:
    """The desk with its store open, for as long as nothing is to be restored."""
    async with await open_store(f"sqlite:///{directory}/wakegate.db", mode="service") as store:
        if desk is None:
            yield await WorkerDesk(store, directory, peer.url).open()
        else:
            desk.store = desk.desk.store = store
            yield desk


async def console(directory: Path, *arguments: str) -> Ran:
    """Run a command in a process of its own."""
    return await asyncio.to_thread(run, directory, *arguments)


async def backed_up(directory: Path) -> None:
    """Make a backup while the services run."""
    ran = await console(directory, "db", "backup", "backup.db")
    assert ran.code == 0, ran.err
    assert f"the key files are not in it; keep a copy of each somewhere else: {directory}/receiver.key" in ran.out


async def restored(directory: Path, held: int) -> None:
    """Restore the backup."""
    ran = await console(directory, "db", "restore", "backup.db")
    assert ran.code == 0, ran.err
    assert "this is epoch 2" in ran.out
    assert ("had not started and may have run since" in ran.out) == bool(held)


async def kill(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def run_once(desk: WorkerDesk, peer: Peer, execution: Execution) -> str:
    """Have a waiting call approved and run; return the event id that told of it."""
    event_id = new_id()
    waiting = await desk.until(execution.execution_id, State.WAITING)
    peer.approve(peer.only())
    await desk.notify(waiting.request_id or "", event_id=event_id)
    assert (await desk.settled(execution.execution_id)).state is State.SUCCEEDED
    assert desk.effects == [execution.execution_id]
    return event_id


async def nothing_runs(desk: WorkerDesk, effects: int) -> None:
    """Give the second worker, once it works, time for whatever it would do: it sweeps 20 times a second."""
    await eventually(lambda: desk.logs.replace(" ", "").count('"action":"ready"') == 2)
    await asyncio.sleep(1.0)
    assert len(desk.effects) == effects


async def test_what_ran_after_the_backup_does_not_run_again_by_itself(tmp_path: Path, peer: Peer) -> None:
    async with opened(tmp_path, peer) as desk:
        saved = await desk.save(idempotency_key=KEY)
        async with desk.process() as process:
            waiting = await desk.until(saved.execution_id, State.WAITING)
            await backed_up(tmp_path)
            event_id = await run_once(desk, peer, saved)
            await kill(process)
    await restored(tmp_path, held=1)
    async with opened(tmp_path, peer, desk), desk.process():
        await nothing_runs(desk, 1)
        assert "calls of an older epoch wait for a release" in desk.logs
        await desk.notify(waiting.request_id or "", event_id=event_id)  # the provider has not heard our 2xx, perhaps
        await desk.notify(waiting.request_id or "")
        again = await desk.save(idempotency_key=KEY)
        assert (again.execution_id, again.problem) == (saved.execution_id, "older_epoch")
        await nothing_runs(desk, 1)
        held = await desk.store.execution(saved.execution_id)
        assert (held.state, held.problem) == (State.WAITING, "older_epoch")

        ran = await console(tmp_path, "execution", "release", KEY, "--by", "mika", "--note", "the bank has no refund")
        assert (ran.code, ran.out) == (0, f"{saved.execution_id}: waiting, released into epoch 2\n")
        assert "may run again, and you answer for that" in ran.err
        assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
        assert desk.effects == [saved.execution_id] * 2, "which is what a release means"


async def test_a_key_that_the_restore_has_lost_starts_nothing_that_the_provider_knows(
    tmp_path: Path, peer: Peer
) -> None:
    async with opened(tmp_path, peer) as desk:
        await backed_up(tmp_path)
        first = await desk.save(idempotency_key=KEY)
        async with desk.process() as process:
            await run_once(desk, peer, first)
            await kill(process)
    await restored(tmp_path, held=0)
    async with opened(tmp_path, peer, desk), desk.process():
        second = await desk.save(idempotency_key=KEY)
        assert second.execution_id != first.execution_id
        held = await desk.when(second.execution_id, lambda execution: execution.problem is not None)
        assert (held.state, held.problem, held.epoch) == (State.WAITING, "older_epoch", 1)
        assert peer.submissions == [KEY, KEY]
        assert len(peer.requests) == 1
        await desk.notify(held.request_id or "")
        await nothing_runs(desk, 1)
        assert '"problem": "older_epoch"' in desk.logs
        ran = await console(tmp_path, "execution", "release", "--all", "--note", "I know")
        assert ran.code == 0
        assert (await desk.settled(second.execution_id)).state is State.SUCCEEDED
        assert desk.effects == [first.execution_id, second.execution_id]


async def test_a_permission_that_was_claimed_after_the_backup_is_not_claimed_again(tmp_path: Path, peer: Peer) -> None:
    """A call that the harness runs: it claims, runs, and repeats its claim on the restored store."""
    async with opened(tmp_path, peer) as desk:
        saved = await desk.save(runs="harness", wake="none")
        async with desk.process() as process:
            waiting = await desk.until(saved.execution_id, State.WAITING)
            peer.approve(peer.only())
            await desk.notify(waiting.request_id or "")
            await desk.until(saved.execution_id, State.PERMITTED)
            await kill(process)
        await backed_up(tmp_path)
        async with (
            await Adapter.open(tmp_path / "wakegate.db") as adapter,
            adapter.claim(saved.execution_id) as attempt,
        ):
            assert attempt.permitted
            attempt.succeed(1)
    await restored(tmp_path, held=1)
    async with await Adapter.open(tmp_path / "wakegate.db") as adapter:
        async with adapter.claim(saved.execution_id) as attempt:
            assert not attempt.permitted
            assert attempt.refusal == "older_epoch"
            assert "may have been started before" in attempt.explanation
        with pytest.raises(WaitTimeout):
            await adapter.wait(saved.execution_id, timeout=0.2)
        assert (await console(tmp_path, "execution", "release", "--all", "--note", "x")).code == 0
        async with adapter.claim(saved.execution_id) as attempt:
            assert attempt.permitted
            attempt.succeed(2)


async def test_a_store_in_use_is_not_restored(tmp_path: Path, peer: Peer) -> None:
    async with opened(tmp_path, peer) as desk:
        await backed_up(tmp_path)
    async with opened(tmp_path, peer, desk):
        pass
    async with desk.process() as process:
        await eventually(lambda: '"action":"ready"' in desk.logs.replace(" ", ""))
        ran = await console(tmp_path, "db", "restore", "backup.db")
        assert ran.code == 1
        assert "is in use" in ran.err
        assert "stop the services and every harness that has it open" in ran.err
        await kill(process)
    async with await Adapter.open(tmp_path / "wakegate.db") as adapter:
        assert (await console(tmp_path, "db", "restore", "backup.db")).code == 1
        call = Call("issue_refund", {}, key=KEY, instance="refund-desk")
        await adapter.suspend(call)
    assert (await console(tmp_path, "db", "restore", "backup.db")).code == 0


@pytest.mark.parametrize("service", ["receiver", "worker"])
async def test_no_service_starts_on_a_backup_that_was_copied_into_place(
    tmp_path: Path, peer: Peer, service: str
) -> None:
    async with opened(tmp_path, peer):
        await backed_up(tmp_path)
    (tmp_path / "wakegate.db").write_bytes((tmp_path / "backup.db").read_bytes())
    ran = await console(tmp_path, service)
    assert (ran.code, ran.out) == (2, "")
    assert f"run `wakegate db restore {tmp_path}/wakegate.db`" in ran.err
