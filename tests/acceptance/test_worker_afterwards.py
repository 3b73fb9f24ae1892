"""What the worker does beside the calls: cancels, wakes, sweeps, warnings and retention."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from support.aap_peer import Peer, refusal
from support.desk import new_id
from support.http_servers import http_server
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock
from wakegate_schema.states import State
from wakegate_schema.store import Store


async def owes_no_cancel(desk: WorkerDesk, execution_id: str) -> None:
    await desk.when(execution_id, lambda execution: execution.cancel_due_at is None)


async def test_an_abandoned_request_is_cancelled(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
        await desk.store.abandon(saved.execution_id, "conversation closed", "harness", clock.now())
        await owes_no_cancel(desk, saved.execution_id)
    assert peer.cancels == [waiting.request_id]
    assert peer.only()["status"] == "cancelled"


async def test_a_request_abandoned_while_it_was_submitted_is_found_by_its_key_and_cancelled(
    desk: WorkerDesk, peer: Peer, store: Store
) -> None:
    saved = await desk.save()
    leased = await desk.desk.lease(saved.execution_id)
    await store.begin_submission(leased.lease, "1", clock.now())
    await store.abandon(saved.execution_id, "conversation closed", "harness", clock.now())
    async with desk.worker():
        await owes_no_cancel(desk, saved.execution_id)
    found = await store.execution(saved.execution_id)
    assert peer.submissions == [saved.idempotency_key]
    assert peer.cancels == [found.request_id]
    assert found.state is State.ABANDONED


@pytest.mark.parametrize(("status", "kind", "code"), [(409, "conflict", "already_terminal"), (404, "not_found", "x")])
async def test_a_final_answer_settles_a_cancel(desk: WorkerDesk, peer: Peer, status: int, kind: str, code: str) -> None:
    async def answer(request: web.Request) -> web.StreamResponse | None:
        return refusal(status, kind, code) if request.method == "DELETE" else None

    peer.interference = answer
    async with desk.worker():
        saved = await desk.save()
        await desk.until(saved.execution_id, State.WAITING)
        await desk.store.abandon(saved.execution_id, "closed", "harness", clock.now())
        await owes_no_cancel(desk, saved.execution_id)
    assert len(peer.cancels) == 1


async def test_a_cancel_that_did_not_get_through_is_tried_again(desk: WorkerDesk, peer: Peer) -> None:
    async def unavailable(request: web.Request) -> web.StreamResponse | None:
        first = request.method == "DELETE" and len(peer.cancels) == 1
        return refusal(503, "dependency", "unavailable") if first else None

    peer.interference = unavailable
    async with desk.worker():
        saved = await desk.save()
        await desk.until(saved.execution_id, State.WAITING)
        await desk.store.abandon(saved.execution_id, "closed", "harness", clock.now())
        await owes_no_cancel(desk, saved.execution_id)
    assert len(peer.cancels) == 2


async def test_a_refused_pending_request_is_cancelled(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: request.update(tool="something_else")
    async with desk.worker():
        saved = await desk.save()
        done = await desk.until(saved.execution_id, State.REFUSED)
        await owes_no_cancel(desk, saved.execution_id)
    assert done.reason == "tool_differs"
    assert peer.only()["status"] == "cancelled"


async def test_a_lost_hold_is_abandoned_and_cancelled(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        saved = await desk.save(hold_id=new_id(), hold_until=clock.now() + clock.SECOND // 2)
        done = await desk.until(saved.execution_id, State.ABANDONED)
        await owes_no_cancel(desk, saved.execution_id)
    assert done.reason == "hold_lost"
    assert peer.only()["status"] == "cancelled"


async def test_every_resolution_wakes_the_harness(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    statuses = [503, 204]

    async def acknowledge(request: web.Request) -> web.Response:
        return web.Response(status=statuses.pop(0))

    async with http_server(acknowledge) as harness:
        target = {"kind": "http", "url": f"{harness.url}/wake"}
        async with desk.worker(wake={"my-harness": target}):
            saved = await desk.save(wake="my-harness")
            await eventually(lambda: len(harness.seen) == 2)
            await eventually(lambda: is_woken(desk, saved.execution_id))
    assert harness.seen[0].headers["webhook-id"] == harness.seen[1].headers["webhook-id"]
    assert b'"succeeded"' in harness.seen[1].body


async def is_woken(desk: WorkerDesk, execution_id: str) -> bool:
    return [wake.state for wake in await desk.store.wakes(execution_id)] == ["delivered"]


async def test_a_wake_that_one_worker_cannot_place_is_delivered_by_another(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)

    async def acknowledge(request: web.Request) -> web.Response:
        return web.Response(status=204)

    with capture_logs() as lines:
        async with desk.worker():
            saved = await desk.save(wake="new-harness")
            await desk.settled(saved.execution_id)
            await eventually(lambda: is_without_target(desk, saved.execution_id))
    warned = [line for line in lines if line["action"] == "submit" and line["log_level"] == "warning"]
    assert [line["target"] for line in warned] == ["new-harness"]
    async with http_server(acknowledge) as harness:
        async with desk.worker(wake={"new-harness": {"kind": "http", "url": harness.url}}):
            await eventually(lambda: is_woken(desk, saved.execution_id))
        assert len(harness.seen) == 1


async def is_without_target(desk: WorkerDesk, execution_id: str) -> bool:
    found = await desk.store.wakes(execution_id)
    return [(wake.state, wake.problem) for wake in found] == [("owed", "unknown_target")]


async def test_a_credential_that_expires_within_seven_days_is_warned_of_once_a_day(
    store: Store, tmp_path: Path, peer: Peer
) -> None:
    soon = clock.now() + 6 * clock.DAY + clock.HOUR
    desk = await WorkerDesk(store, tmp_path, peer.url, credential_expires_at=soon).open()
    with capture_logs() as lines:
        async with desk.worker():
            await eventually(lambda: bool(warnings(lines)))
            saved = await desk.save()
            await desk.until(saved.execution_id, State.WAITING)
    assert [(line["instance"], line["days"]) for line in warnings(lines)] == [("refund-desk", 6)]


def warnings(lines: Any) -> list[Any]:
    return [line for line in lines if line["action"] == "credential_expires"]


async def test_retention_runs_by_itself(desk: WorkerDesk, peer: Peer, store: Store) -> None:
    long_ago = clock.now() - 40 * clock.DAY
    saved = await desk.save(at=long_ago)
    await store.abandon(saved.execution_id, "closed", "harness", long_ago)
    async with desk.worker():
        erased = await desk.when(saved.execution_id, lambda execution: execution.erased_at is not None)
    assert (erased.arguments, erased.state, erased.digest) == (None, State.ABANDONED, saved.digest)


async def test_a_retired_instance_leaves_nothing_to_do(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        saved = await desk.save()
        await desk.until(saved.execution_id, State.WAITING)
        await desk.store.retire_instance(desk.provider, desk.instance_id, "operator:me", clock.now())
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason) == (State.ABANDONED, "instance_retired")


async def test_one_call_that_goes_wrong_does_not_stop_the_others(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    broken = await desk.save(idempotency_key=new_id(), timeout="soon")
    async with desk.worker():
        saved = await desk.save(idempotency_key=new_id())
        assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
        found = await desk.store.execution(broken.execution_id)
    assert (found.state, found.problem) == (State.SUBMITTING, "internal_error")
