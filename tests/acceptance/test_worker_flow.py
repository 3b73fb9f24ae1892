"""From a saved call to its outcome: every way a decision can go, with a real store and real HTTP."""

import asyncio
import functools
from email.utils import formatdate
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from support.aap_peer import Peer, refusal
from support.desk import new_id
from support.provider import provider, provider_settings
from support.workers import WorkerDesk, eventually
from wakegate_provider.review import decide
from wakegate_schema import clock, timestamps
from wakegate_schema.downstream import downstream_key
from wakegate_schema.states import State
from wakegate_schema.store import Store


async def test_a_call_approved_by_policy_runs_once(store: Store, tmp_path: Path) -> None:
    policy = '[[rule]]\ntool = "issue_*"\ndecision = "approve"\nnote = "small amount"\n'
    async with provider(provider_settings(tmp_path, policy)) as caller:
        created = await caller.provision()
        desk = await WorkerDesk(
            store, tmp_path, caller.url, created.body["instance"]["id"], created.body["credential"]["token"]
        ).open()
        async with desk.worker():
            saved = await desk.save(arguments=b'{"amount": 4900, "rate": 0.10}')
            done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason, done.note) == (State.SUCCEEDED, "returned", "small amount")
    key = downstream_key(saved.execution_id)
    assert done.result == f'{{"refunded":4900,"key":"{key}","rate":0.1}}'.encode()
    assert desk.effects == [saved.execution_id]
    assert await desk.passed(saved.execution_id) == [
        "saved",
        "submitting",
        "waiting",
        "permitted",
        "started",
        "succeeded",
    ]


@pytest.mark.parametrize(("word", "state"), [("approve", State.SUCCEEDED), ("deny", State.DENIED)])
async def test_a_reviewed_call_goes_on_at_its_notification(
    store: Store, tmp_path: Path, word: Any, state: State
) -> None:
    settings = provider_settings(tmp_path)
    async with provider(settings) as caller:
        created = await caller.provision()
        desk = await WorkerDesk(
            store, tmp_path, caller.url, created.body["instance"]["id"], created.body["credential"]["token"]
        ).open()
        async with desk.worker():
            saved = await desk.save()
            waiting = await desk.until(saved.execution_id, State.WAITING)
            decide(settings, waiting.request_id or "", word, note="I looked at it")
            await desk.notify(waiting.request_id or "")
            done = await desk.settled(saved.execution_id)
    assert (done.state, done.note) == (state, "I looked at it")
    assert desk.effects == ([saved.execution_id] if state is State.SUCCEEDED else [])


async def test_without_a_webhook_the_request_is_long_polled(store: Store, tmp_path: Path, peer: Peer) -> None:
    desk = await WorkerDesk(store, tmp_path, peer.url, delivery="none").open()
    async with desk.worker():
        saved = await desk.save()
        await eventually(lambda: any("?wait=" in read for read in peer.reads))
        peer.approve(peer.only())
        done = await desk.settled(saved.execution_id, seconds=5)
    assert done.state is State.SUCCEEDED


async def test_long_polls_leave_room_for_other_calls(store: Store, tmp_path: Path, peer: Peer) -> None:
    desk = await WorkerDesk(store, tmp_path, peer.url, delivery="none").open()
    async with desk.worker(worker_concurrency=1):
        for count in range(1, 5):
            await desk.save(idempotency_key=new_id())
            await eventually(functools.partial(has_polls, peer, count), seconds=0.9)
        peer.at_submission = lambda peer, request: peer.approve(request)
        saved = await desk.save(idempotency_key=new_id())
        assert (await desk.settled(saved.execution_id, seconds=2)).state is State.SUCCEEDED


def has_polls(peer: Peer, count: int) -> bool:
    return sum("?wait=" in read for read in peer.reads) == count


async def test_a_provider_that_holds_no_polls_is_not_asked_without_pause(
    store: Store, tmp_path: Path, peer: Peer
) -> None:
    async def at_once(request: Any) -> Any:
        return web.json_response(peer.only()) if request.method == "GET" else None

    peer.interference = at_once
    desk = await WorkerDesk(store, tmp_path, peer.url, delivery="none").open()
    async with desk.worker():
        saved = await desk.save()
        await eventually(lambda: len(peer.reads) == 1)
        found = await desk.when(saved.execution_id, lambda execution: execution.lease_until is None)
    assert len(peer.reads) == 1
    assert found.due_at is not None
    assert found.due_at > clock.now() + 50 * clock.SECOND


async def test_a_notification_that_came_first_is_not_lost(desk: WorkerDesk, peer: Peer, store: Store) -> None:
    saved = await desk.save()
    leased = await desk.desk.lease(saved.execution_id)
    await store.begin_submission(leased.lease, "1", clock.now())
    async with aiohttp.ClientSession() as session:
        body = {
            "tool": saved.tool,
            "arguments": {"amount": 4900},
            "timeout": saved.timeout,
            "agent_reasoning": saved.reasoning,
        }
        await session.post(f"{peer.url}/v1/requests", json=body, headers={"Idempotency-Key": saved.idempotency_key})
    request = peer.only()
    await desk.notify(request["id"])
    await store.release(leased.lease, clock.now(), None, clock.now())
    async with desk.worker():
        await desk.until(saved.execution_id, State.WAITING)
        peer.approve(request)
        done = await desk.settled(saved.execution_id, seconds=5)
    assert done.state is State.SUCCEEDED
    assert peer.submissions == [saved.idempotency_key] * 2
    assert [found.state for _, found in await store.notifications()] == ["handled"]


async def test_several_events_about_one_request_start_its_call_once(desk: WorkerDesk, peer: Peer, store: Store) -> None:
    async with desk.worker():
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
        peer.approve(peer.only())
        await asyncio.gather(*(desk.notify(waiting.request_id or "") for _ in range(5)))
        assert (await desk.settled(saved.execution_id, seconds=5)).state is State.SUCCEEDED
        await desk.notify(waiting.request_id or "")
    assert desk.effects == [saved.execution_id]
    assert {found.state for _, found in await store.notifications()} == {"handled"}


async def test_a_request_still_pending_at_its_notification_is_looked_at_again_soon(
    desk: WorkerDesk, peer: Peer
) -> None:
    async with desk.worker():
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
        await desk.notify(waiting.request_id or "")
        await desk.when(saved.execution_id, lambda execution: execution.problem == "pending_after_notification")
        peer.decide(peer.only(), "denied", note="no")
        done = await desk.settled(saved.execution_id, seconds=5)
    assert done.state is State.DENIED


async def test_an_old_notification_counts_as_much_as_a_new_one(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: None
    async with desk.worker():
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
    peer.approve(peer.only())
    hour_ago = clock.now() - clock.HOUR
    await desk.notify(waiting.request_id or "", created_at=hour_ago, received_at=hour_ago)
    async with desk.worker():
        assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        ("denied", State.DENIED, "denied"),
        ("expired", State.EXPIRED, "deadline_passed"),
        ("cancelled", State.CANCELLED, "cancelled_at_provider"),
    ],
)
async def test_a_decision_may_come_with_the_submission(
    desk: WorkerDesk, peer: Peer, status: str, state: State, reason: str
) -> None:
    peer.at_submission = lambda peer, request: peer.decide(request, status)
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.reason) == (state, reason)
    assert done.request_id == peer.only()["id"]
    assert peer.reads == []
    assert desk.effects == []


async def test_an_approval_that_is_over_lapses(desk: WorkerDesk, peer: Peer) -> None:
    past = timestamps.render(clock.now() - clock.SECOND)

    def approve_long_ago(peer: Peer, request: dict[str, Any]) -> None:
        request["created_at"] = timestamps.render(clock.now() - clock.MINUTE)
        request["deadline_at"] = timestamps.render(clock.now() + clock.MINUTE)
        peer.decide(request, "approved", decided_at=timestamps.render(clock.now() - 2 * clock.SECOND), expires_at=past)

    peer.at_submission = approve_long_ago
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "approval_expired")
    assert desk.effects == []


async def test_the_providers_clock_alone_can_lapse_an_approval(desk: WorkerDesk, peer: Peer) -> None:
    async def later(request: Any) -> Any:
        return web.json_response(peer.only(), headers={"Date": formatdate(clock.now() / 1e6 + 600, usegmt=True)})

    peer.at_submission = lambda peer, request: peer.approve(request, lasting=300)
    peer.interference = later
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "approval_expired")
    assert desk.effects == []


async def test_an_answer_without_a_date_permits_nothing_yet(desk: WorkerDesk, peer: Peer) -> None:
    # aiohttp's server always sends a Date: this one is unreadable, which is none.
    async def undated(request: Any) -> Any:
        return web.json_response(peer.only(), headers={"Date": "soon"})

    peer.at_submission = lambda peer, request: peer.approve(request)
    peer.interference = undated
    async with desk.worker():
        saved = await desk.save()
        await desk.when(saved.execution_id, lambda execution: execution.problem == "no_server_date")
        assert desk.effects == []
        peer.interference = None
        done = await desk.settled(saved.execution_id)
    assert done.state is State.SUCCEEDED


async def test_a_call_that_the_harness_runs_is_permitted_and_no_more(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request, lasting=1.0)
    async with desk.worker():
        saved = await desk.save(runs="harness")
        await desk.until(saved.execution_id, State.PERMITTED)
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "not_claimed")
    assert desk.effects == []


@pytest.mark.parametrize(
    ("name", "state", "reason", "error"),
    [
        ("issue_refund_sync", State.SUCCEEDED, "returned", None),
        ("decline", State.FAILED, "tool_failed", "CardDeclined: insufficient funds"),
        ("refuse", State.FAILED, "tool_failed", "the payment is closed"),
    ],
)
async def test_a_tool_says_how_its_call_ended(
    desk: WorkerDesk, peer: Peer, name: str, state: State, reason: str, error: str | None
) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    async with desk.worker():
        done = await desk.settled((await desk.save(tool=name)).execution_id)
    assert (done.state, done.reason, done.error) == (state, reason, error)


async def test_an_undeclared_exception_leaves_the_call_in_doubt(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    async with desk.worker():
        done = await desk.settled((await desk.save(tool="break_down")).execution_id)
    assert (done.state, done.reason) == (State.IN_DOUBT, "tool_raised")
    assert done.error is not None
    assert done.error.startswith("ConnectionResetError at worker_tools.py:")
    assert "s3cr3t" not in done.error


async def test_the_late_word_of_a_thread_settles_its_doubt(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    async with desk.worker():
        saved = await desk.save(tool="overrun")
        doubtful = await desk.settled(saved.execution_id)
        assert (doubtful.state, doubtful.reason) == (State.IN_DOUBT, "tool_still_running")
        done = await desk.until(saved.execution_id, State.SUCCEEDED, State.FAILED)
    assert (done.state, done.result) == (State.SUCCEEDED, b'"late"')
    assert desk.effects == [saved.execution_id]


@pytest.mark.parametrize(("amount", "state"), [(1, State.SUCCEEDED), (0, State.FAILED)])
async def test_a_probe_settles_a_doubt(desk: WorkerDesk, peer: Peer, amount: int, state: State) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    async with desk.worker():
        saved = await desk.save(tool="lose_the_answer", arguments=b'{"amount": %d}' % amount)
        await desk.until(saved.execution_id, State.IN_DOUBT)
    async with desk.worker():
        done = await desk.until(saved.execution_id, State.SUCCEEDED, State.FAILED)
    assert done.state is state
    assert (await desk.store.transitions(saved.execution_id))[-1].actor == "probe"


async def test_a_lease_is_renewed_while_the_tool_runs(desk: WorkerDesk, peer: Peer) -> None:

    peer.at_submission = lambda peer, request: peer.approve(request)
    async with desk.worker():
        saved = await desk.save(tool="take_three_seconds")
        done = await desk.settled(saved.execution_id)
    assert done.state is State.SUCCEEDED


async def test_a_rejected_submission_is_refused(desk: WorkerDesk, peer: Peer) -> None:
    async def reject(request: Any) -> Any:
        return refusal(409, "conflict", "idempotency_conflict")

    peer.interference = reject
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.reason, done.cancel_due_at) == (State.REFUSED, "idempotency_conflict", None)
    assert len(peer.submissions) == 1


async def test_a_key_that_no_header_carries_is_refused(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        done = await desk.settled((await desk.save(idempotency_key="ключ")).execution_id)
    assert (done.state, done.reason) == (State.REFUSED, "idempotency_key_malformed")
    assert peer.submissions == []


async def test_a_refused_credential_parks_the_instance_until_it_has_a_new_one(
    desk: WorkerDesk, peer: Peer, store: Store
) -> None:
    async def unauthorised(request: Any) -> Any:
        return refusal(401, "authentication", "invalid_credential")

    peer.interference = unauthorised
    peer.at_submission = lambda peer, request: peer.approve(request)
    async with desk.worker():
        saved = await desk.save()
        parked = await desk.when(saved.execution_id, lambda execution: execution.problem == "instance_parked")
        assert parked.due_at is not None
        assert parked.due_at > clock.now() + 7 * clock.DAY
        assert (await store.instance(desk.provider, desk.instance_id)).state == "parked"
        other = await desk.save(idempotency_key=new_id())
        await desk.when(other.execution_id, lambda execution: execution.problem == "instance_parked")
        submissions = len(peer.submissions)
        peer.interference = None
        await store.set_credential(desk.provider, desk.instance_id, desk.sealed("another-token"), None, clock.now())
        for execution in (saved, other):
            assert (await desk.settled(execution.execution_id)).state is State.SUCCEEDED
    assert submissions == 1


async def test_an_unreachable_provider_is_asked_again(store: Store, tmp_path: Path) -> None:
    peer = Peer()
    async with peer.serving():
        url = peer.url
    desk = await WorkerDesk(store, tmp_path, url).open()
    async with desk.worker():
        saved = await desk.save()
        found = await desk.when(saved.execution_id, lambda execution: execution.problem is not None)
    assert (found.state, found.problem) == (State.SUBMITTING, "connection_refused")


@pytest.mark.parametrize("runs", ["worker", "harness"])
async def test_what_could_not_be_submitted_in_eight_days_is_unobtained(store: Store, tmp_path: Path, runs: str) -> None:
    peer = Peer()
    async with peer.serving():
        url = peer.url
    desk = await WorkerDesk(store, tmp_path, url).open()
    async with desk.worker():
        saved = await desk.save(runs=runs, at=clock.now() - 9 * clock.DAY)
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason) == (State.UNOBTAINED, "connection_refused")
    assert done.cancel_due_at is not None
    assert (await desk.passed(saved.execution_id))[-2:] == ["submitting", "unobtained"]


async def test_what_could_not_even_be_begun_in_eight_days_is_unobtained(desk: WorkerDesk, store: Store) -> None:
    sealed = (await store.instance(desk.provider, desk.instance_id)).sealed_credential or b""
    await store.park_instance(desk.provider, desk.instance_id, "credential_refused", sealed)
    saved = await desk.save(at=clock.now() - 9 * clock.DAY)
    async with desk.worker():
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason, done.cancel_due_at) == (State.UNOBTAINED, "instance_parked", None)
    assert await desk.passed(saved.execution_id) == ["saved", "unobtained"]


async def test_a_request_that_nobody_decides_in_eight_days_is_unobtained(desk: WorkerDesk, peer: Peer) -> None:
    def make_old(peer: Peer, request: dict[str, Any]) -> None:
        request["created_at"] = timestamps.render(clock.now() - 9 * clock.DAY)
        request["deadline_at"] = timestamps.render(clock.now() - 9 * clock.DAY + clock.MINUTE)

    peer.at_submission = make_old
    async with desk.worker():
        saved = await desk.save(at=clock.now() - 9 * clock.DAY)
        done = await desk.settled(saved.execution_id)
        assert (done.state, done.reason) == (State.UNOBTAINED, "still_pending")
        await eventually(lambda: peer.cancels == [done.request_id])
    assert (await desk.passed(saved.execution_id))[-2:] == ["waiting", "unobtained"]
