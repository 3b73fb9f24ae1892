"""Calls whose tool no living worker has: they wait, and what needs no tool is done for them all the same."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.aap_peer import Peer
from support.desk import new_id
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock
from wakegate_schema.records import Execution, MissingTool
from wakegate_schema.states import State

OTHER = ("support.other_build",)
"""Tools of a worker that lacks the desk's."""


async def submitted(desk: WorkerDesk, peer: Peer, **changes: Any) -> Execution:
    """A call that a worker with its tool has submitted, before that worker ended."""
    async with desk.worker():
        saved = await desk.save(**changes)
        return await desk.until(saved.execution_id, State.WAITING)


@pytest.mark.parametrize(("tool", "version"), [("issue_refund", None), ("take_a_tenth", "1")])
async def test_nobody_is_asked_to_approve_what_nobody_can_run(
    desk: WorkerDesk, peer: Peer, tool: str, version: str | None
) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    async with desk.worker(tools=OTHER):
        saved = await desk.save(tool=tool, tool_version=version)
        done = await desk.save(tool="anything", runs="harness")
        await desk.until(done.execution_id, State.PERMITTED)
        assert await desk.store.missing_tools(clock.now()) == [MissingTool(tool, version, 1)]
        await asyncio.sleep(1.5)  # a look at orphans
        assert (await desk.store.execution(saved.execution_id)).state is State.SAVED
        async with desk.worker():
            assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
    assert len(peer.submissions) == 2
    assert desk.effects == [saved.execution_id]


@pytest.mark.parametrize(("status", "state"), [("denied", State.DENIED), ("cancelled", State.CANCELLED)])
async def test_a_decision_against_a_call_does_not_wait_for_its_tool(
    desk: WorkerDesk, peer: Peer, status: str, state: State
) -> None:
    waiting = await submitted(desk, peer)
    async with desk.worker(tools=OTHER):
        peer.decide(peer.only(), status)
        await desk.notify(waiting.request_id or "")
        assert (await desk.settled(waiting.execution_id)).state is state


async def test_an_approval_that_nobody_can_use_lapses_and_says_why_meanwhile(desk: WorkerDesk, peer: Peer) -> None:
    waiting = await submitted(desk, peer)
    async with desk.worker(tools=OTHER):
        peer.approve(peer.only(), lasting=3)
        await desk.notify(waiting.request_id or "")
        found = await desk.when(waiting.execution_id, lambda execution: execution.problem is not None)
        assert (found.state, found.problem) == (State.WAITING, "no_worker_has_the_tool")
        done = await desk.settled(waiting.execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "approval_expired")
    assert desk.effects == []


async def test_an_approval_is_used_by_the_worker_that_comes_with_the_tool(desk: WorkerDesk, peer: Peer) -> None:
    waiting = await submitted(desk, peer)
    async with desk.worker(tools=OTHER):
        peer.approve(peer.only(), lasting=60)
        await desk.notify(waiting.request_id or "")
        await desk.when(waiting.execution_id, lambda execution: execution.problem is not None)
        async with desk.worker():
            assert (await desk.settled(waiting.execution_id, seconds=30)).state is State.SUCCEEDED
    assert desk.effects == [waiting.execution_id]


async def test_a_call_that_no_worker_ever_had_the_tool_for_is_given_up(desk: WorkerDesk, peer: Peer) -> None:
    long_ago = clock.now() - 8 * clock.DAY - clock.MINUTE
    soon = await desk.save(at=long_ago, timeout="30m", idempotency_key=new_id())
    over = await desk.save(at=long_ago, timeout="1s", idempotency_key=new_id())
    async with desk.worker(tools=OTHER):
        done = await desk.settled(over.execution_id)
        assert (done.state, done.reason) == (State.UNOBTAINED, "no_worker_has_the_tool")
        left = await desk.when(soon.execution_id, lambda execution: execution.problem is not None)
        assert (left.state, left.problem) == (State.SAVED, "no_worker_has_the_tool")
        async with desk.worker():
            await desk.until(soon.execution_id, State.WAITING)
    assert len(peer.submissions) == 1


async def test_what_others_have_the_tool_for_is_left_to_them(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker(tools=OTHER):
        saved = await desk.save()
        async with desk.worker():
            waiting = await desk.until(saved.execution_id, State.WAITING)
            peer.approve(peer.only())
            await desk.notify(waiting.request_id or "")
            done = await desk.settled(saved.execution_id)
    assert done.lease_number == 2  # for the submission, and for the start


async def test_the_log_tells_of_a_missing_tool_once(desk: WorkerDesk, peer: Peer) -> None:
    with capture_logs() as lines:
        async with desk.worker(tools=OTHER):
            await desk.save(idempotency_key=new_id())
            await desk.save(idempotency_key=new_id())
            await eventually(lambda: any(line.get("action") == "orphans" for line in lines))
            await asyncio.sleep(1.5)
    (line,) = [line for line in lines if line.get("action") == "orphans"]
    assert (line["log_level"], line["tool"], line["version"]) == ("warning", "issue_refund", None)


async def test_a_worker_is_on_record_for_as_long_as_it_lives(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker(tools=OTHER, pool="billing"):
        (worker,) = await desk.store.workers()
        assert (worker.pool, worker.lease_seconds, worker.tools) == ("billing", 2, {"take_a_tenth": "2"})
        assert await desk.store.living_pools(clock.now()) == {"billing"}
    assert await desk.store.workers() == []


async def test_a_worker_that_stops_is_given_nothing_while_its_tool_runs_on(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    async with desk.worker():
        running = await desk.save(tool="take_a_second", idempotency_key=new_id())
        await desk.until(running.execution_id, State.STARTED)
        ending = asyncio.create_task(eventually(_nobody_has_tools(desk), seconds=5))
    await ending
    assert (await desk.store.execution(running.execution_id)).state is State.SUCCEEDED


def _nobody_has_tools(desk: WorkerDesk) -> Any:
    async def holds() -> bool:
        workers = await desk.store.workers()
        return len(workers) == 1 and not workers[0].tools

    return holds
