"""Workers killed by SIGKILL at the worst moments, and several at once: no effect is lost twice or had twice."""

import asyncio
import functools
import random
import resource
import signal
from pathlib import Path

import pytest
from aiohttp import web

from support.aap_peer import Peer
from support.desk import new_id
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock
from wakegate_schema.states import State
from wakegate_schema.store import Store


async def kill(process: asyncio.subprocess.Process) -> None:
    process.send_signal(signal.SIGKILL)
    await process.wait()


async def test_a_worker_killed_between_submission_and_attachment_makes_one_request(
    desk: WorkerDesk, peer: Peer
) -> None:
    silent = asyncio.Event()

    async def say_nothing(request: web.Request) -> web.StreamResponse | None:
        await silent.wait()
        return None

    peer.interference = say_nothing
    saved = await desk.save()
    async with desk.process() as process:
        await peer.submitted()
        await kill(process)
    peer.interference = None
    silent.set()
    assert (await desk.store.execution(saved.execution_id)).state is State.SUBMITTING
    async with desk.process():
        await desk.until(saved.execution_id, State.WAITING)
    assert peer.submissions == [saved.idempotency_key] * 2
    assert len(peer.requests) == 1


async def test_a_worker_killed_while_a_call_waits_loses_nothing(desk: WorkerDesk, peer: Peer) -> None:
    saved = await desk.save()
    async with desk.process() as process:
        waiting = await desk.until(saved.execution_id, State.WAITING)
        await kill(process)
    peer.approve(peer.only())
    await desk.notify(waiting.request_id or "")
    async with desk.process():
        assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
    assert desk.effects == [saved.execution_id]


async def test_a_worker_killed_in_a_long_poll_is_replaced_after_a_lease(
    store: Store, tmp_path: Path, peer: Peer
) -> None:
    desk = await WorkerDesk(store, tmp_path, peer.url, delivery="none").open()
    saved = await desk.save()
    async with desk.process() as process:
        await eventually(lambda: any("?wait=" in read for read in peer.reads))
        await kill(process)
    peer.approve(peer.only())
    async with desk.process():
        assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
    assert desk.effects == [saved.execution_id]


@pytest.mark.parametrize("name", ["hang", "die_before_returning", "die_after_returning"])
async def test_a_call_whose_worker_died_is_in_doubt_and_never_run_again(
    desk: WorkerDesk, peer: Peer, name: str
) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    saved = await desk.save(tool=name)
    async with desk.process() as process:
        await eventually(lambda: desk.effects == [saved.execution_id])
        await kill(process) if name == "hang" else await process.wait()
    assert (await desk.store.execution(saved.execution_id)).state is State.STARTED
    async with desk.process(), desk.process():
        doubtful = await desk.settled(saved.execution_id)
        assert (doubtful.state, doubtful.reason) == (State.IN_DOUBT, "lease_lost")
        await asyncio.sleep(1.0)
    assert desk.effects == [saved.execution_id]
    assert (await desk.store.execution(saved.execution_id)).state is State.IN_DOUBT


async def test_two_workers_run_fifty_due_calls_once_each(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    saved = [await desk.save(tool="take_a_tenth", idempotency_key=new_id()) for _ in range(50)]
    few = {"WAKEGATE_WORKER_CONCURRENCY": "3"}
    async with desk.process(**few), desk.process(**few):
        for execution in saved:
            assert (await desk.settled(execution.execution_id, seconds=60)).state is State.SUCCEEDED
    assert sorted(desk.effects) == sorted(execution.execution_id for execution in saved)
    assert all('"started"' in path.read_text() for path in desk.directory.glob("worker-*.log"))


async def test_workers_killed_at_any_moment_run_no_call_twice_and_lose_none(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    moments, saved = random.Random(61), []
    for _ in range(3):
        saved += [await desk.save(tool=name) for name in ("issue_refund", "take_a_tenth") * 15]
        enough = len(desk.effects) + 3
        async with desk.process() as one, desk.process() as other:
            await eventually(functools.partial(has_effects, desk, enough))
            await asyncio.sleep(moments.random() * 0.1)
            await asyncio.gather(kill(one), kill(other))
    async with desk.process():
        done = [await desk.settled(execution.execution_id, seconds=30) for execution in saved]
    assert {execution.state for execution in done} <= {State.SUCCEEDED, State.IN_DOUBT}
    assert len(desk.effects) == len(set(desk.effects))
    assert {one.execution_id for one in done if one.state is State.SUCCEEDED} <= set(desk.effects)


def has_effects(desk: WorkerDesk, count: int) -> bool:
    return len(desk.effects) >= count


async def test_a_worker_stopped_for_longer_than_its_lease_settles_the_doubt_when_it_goes_on(
    desk: WorkerDesk, peer: Peer
) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    saved = await desk.save(tool="take_a_second")
    async with desk.process() as stopped:
        await eventually(lambda: desk.effects == [saved.execution_id])
        stopped.send_signal(signal.SIGSTOP)
        async with desk.process():
            doubtful = await desk.settled(saved.execution_id)
        assert (doubtful.state, doubtful.reason) == (State.IN_DOUBT, "lease_lost")
        stopped.send_signal(signal.SIGCONT)
        await desk.until(saved.execution_id, State.SUCCEEDED)
    assert desk.effects == [saved.execution_id]


async def test_a_full_disk_starts_nothing_until_there_is_room(desk: WorkerDesk, peer: Peer) -> None:
    saved = await desk.save()
    async with desk.process() as process:
        waiting = await desk.until(saved.execution_id, State.WAITING)
        limits = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, limits[1]))
        peer.approve(peer.only())
        await desk.notify(waiting.request_id or "")
        await asyncio.sleep(0.5)
        assert (await desk.store.execution(saved.execution_id)).state is State.WAITING
        assert desk.effects == []
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limits)
        assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
    assert desk.effects == [saved.execution_id]


async def test_a_stop_waits_for_the_tool_and_records_its_outcome(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    saved = await desk.save(tool="take_a_second")
    async with desk.process() as process:
        await eventually(lambda: desk.effects == [saved.execution_id])
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 20) == 0
    assert (await desk.store.execution(saved.execution_id)).state is State.SUCCEEDED
    assert '"tools": "take_a_second"' in desk.logs


async def test_a_stop_gives_long_polls_back_at_once(store: Store, tmp_path: Path, peer: Peer) -> None:
    desk = await WorkerDesk(store, tmp_path, peer.url, delivery="none").open()
    saved = await desk.save()
    async with desk.process(WAKEGATE_LEASE_SECONDS="60") as process:
        await eventually(lambda: any("?wait=" in read for read in peer.reads))
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
    left = await desk.store.execution(saved.execution_id)
    assert (left.lease_until, left.state) == (None, State.WAITING)
    assert left.due_at is not None
    assert left.due_at <= clock.now()


async def test_a_second_signal_stops_at_once(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    saved = await desk.save(tool="hang")
    async with desk.process() as process:
        await eventually(lambda: desk.effects == [saved.execution_id])
        process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.6)
        assert process.returncode is None
        process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 10) == 0
    async with desk.process():
        assert (await desk.settled(saved.execution_id)).state is State.IN_DOUBT
    assert desk.effects == [saved.execution_id]


async def test_a_signal_while_nothing_runs_ends_the_process(desk: WorkerDesk) -> None:
    async with desk.process() as process:
        await eventually(lambda: '"action":"ready"' in desk.logs.replace(" ", ""))
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 10) == 0
    assert '"action":"stopped"' in desk.logs.replace(" ", "")


async def test_no_log_line_shows_an_argument_or_a_credential(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request, note="N0TE")
    names = ("issue_refund", "break_down", "decline", "no_such_tool")
    async with desk.process():
        for name in names:
            saved = await desk.save(tool=name, idempotency_key=new_id(), arguments=b'{"amount": 490017}')
            if name != "no_such_tool":
                await desk.settled(saved.execution_id)
    for planted in ("490017", desk.token, "N0TE", "s3cr3t", "insufficient funds"):
        assert planted not in desk.logs


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"WAKEGATE_TOOLS": "no_such_module"}, "no_such_module"),
        ({"WAKEGATE_TOOLS": "support.desk"}, "support.desk"),
    ],
)
async def test_a_worker_without_its_tools_does_not_start(desk: WorkerDesk, changes: dict[str, str], named: str) -> None:
    async with desk.process(**changes) as process:
        assert await asyncio.wait_for(process.wait(), 10) != 0
    assert named in desk.logs
