"""Consumption at a provider that knows it, and at one that does not: spent once, before the start, under one key."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web

from support.aap_peer import Peer, refusal
from support.tables import each_row
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock, timestamps
from wakegate_schema.downstream import consumption_key
from wakegate_schema.records import Execution
from wakegate_schema.states import State

Interference = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@pytest.fixture
def peer(peer: Peer) -> Peer:
    """A peer that knows consumption and approves everything at once."""
    peer.consumes = True
    peer.at_submission = lambda peer, request: peer.approve(request)
    return peer


def key_of(execution: Execution) -> str:
    return consumption_key(execution.execution_id, execution.epoch)


def at_consume(answer: Callable[[web.Request], web.StreamResponse | None]) -> Interference:
    """Answer consumptions, and nothing else."""

    async def interfere(request: web.Request) -> web.StreamResponse | None:
        return answer(request) if request.path.endswith("/consume") else None

    return interfere


async def told(peer: Peer, count: int = 1) -> list[tuple[str, dict[str, object]]]:
    """The outcomes the peer was told, once there are so many."""
    await eventually(lambda: len(peer.outcomes) >= count)
    return peer.outcomes


async def test_an_approval_is_consumed_before_the_start_and_its_outcome_told(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
        assert await told(peer) == [(done.request_id, {"status": "succeeded"})]
        await desk.when(done.execution_id, lambda execution: execution.report_due_at is None)
    assert peer.consumptions == [(done.request_id, key_of(done))]
    assert done.consumed_at == timestamps.parse(peer.only()["consumption"]["consumed_at"])
    assert (done.state, len(desk.effects)) == (State.SUCCEEDED, 1)
    assert await desk.store.consumes(peer.url)


async def test_a_call_that_its_harness_runs_is_consumed_at_the_permission(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        permitted = await desk.until((await desk.save(runs="harness")).execution_id, State.PERMITTED)
    assert peer.consumptions == [(permitted.request_id, key_of(permitted))]
    assert permitted.consumed_at is not None
    assert peer.outcomes == []


async def test_what_is_not_approved_is_not_consumed(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.decide(request, "denied")
    async with desk.worker():
        await desk.until((await desk.save()).execution_id, State.DENIED)
    assert peer.consumptions == []


async def test_nothing_is_consumed_that_cannot_run_here(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        saved = await desk.save(tool="decline", arguments=b"{}")
        await desk.when(saved.execution_id, lambda execution: execution.problem is not None)
    assert peer.consumptions == []


async def test_a_lost_answer_is_asked_for_again_under_the_same_key(desk: WorkerDesk, peer: Peer) -> None:
    lost: list[web.Request] = []

    async def lose(request: web.Request) -> web.StreamResponse | None:
        if request.path.endswith("/consume") and len(lost) < 2:
            lost.append(request)
            await peer.spend(request)
            return refusal(503, "dependency", "unavailable")
        return None

    peer.interference = lose
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, len(desk.effects)) == (State.SUCCEEDED, 1)
    assert [key for _, key in peer.consumptions] == [key_of(done)] * 3


Answer = Callable[[], web.Response | None]
ENDS = [
    ("auto", lambda: refusal(404, "not_found", "not_found"), State.SUCCEEDED, "returned", 1),
    ("auto", lambda: web.Response(status=405), State.SUCCEEDED, "returned", 1),
    ("auto", lambda: refusal(409, "conflict", "already_consumed"), State.REFUSED, "already_consumed", 0),
    ("auto", lambda: refusal(409, "conflict", "approval_expired"), State.LAPSED, "approval_expired", 0),
    ("always", lambda: refusal(409, "conflict", "already_consumed"), State.REFUSED, "already_consumed", 0),
    ("never", lambda: None, State.SUCCEEDED, "returned", 1),
]


@pytest.mark.parametrize(("mode", "answer", "state", "reason", "effects"), ENDS)
async def test_answers_that_end_it(
    desk: WorkerDesk,
    peer: Peer,
    mode: str,
    answer: Callable[[], web.Response | None],
    state: State,
    reason: str,
    effects: int,
) -> None:
    peer.interference = at_consume(lambda _: answer())
    async with desk.worker(consumption=mode):
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.reason, len(desk.effects)) == (state, reason, effects)
    assert peer.consumptions == []
    assert done.consumed_at is None


PUT_OFF = [
    ("always", lambda peer: refusal(404, "not_found", "not_found"), "consumption_unsupported"),
    ("auto", lambda peer: refusal(409, "conflict", "not_approved"), "consumption_disagrees"),
    ("auto", lambda peer: web.json_response(peer.only()), "consumption_disagrees"),
    ("auto", lambda peer: refusal(409, "conflict", "another_word"), "http_409"),
    ("auto", lambda peer: refusal(500, "internal", "internal"), "http_500"),
    ("auto", lambda peer: web.Response(text="<html>", content_type="text/html"), "invalid_answer"),
]


@pytest.mark.parametrize(("mode", "answer", "problem"), PUT_OFF)
async def test_answers_after_which_nothing_starts_yet(
    desk: WorkerDesk, peer: Peer, mode: str, answer: Callable[[Peer], web.Response], problem: str
) -> None:
    peer.interference = at_consume(lambda _: answer(peer))
    async with desk.worker(consumption=mode):
        saved = await desk.save()
        found = await desk.when(saved.execution_id, lambda execution: execution.tries >= 2)
        assert (found.state, found.problem, desk.effects) == (State.WAITING, problem, [])
        assert found.expires_at is not None, "no other approval is taken from now on"
        peer.interference = None
        done = await desk.settled(saved.execution_id, seconds=30)
    assert (done.state, len(desk.effects)) == (State.SUCCEEDED, 1)


async def test_a_provider_that_was_seen_to_consume_is_never_gone_around(desk: WorkerDesk, peer: Peer) -> None:
    await desk.store.note_consuming(peer.url, clock.now())
    peer.consumes = False
    peer.at_submission = lambda peer, request: peer.approve(request, lasting=2)
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.reason, desk.effects) == (State.LAPSED, "approval_expired", [])


async def test_what_somebody_else_has_consumed_does_not_start(desk: WorkerDesk, peer: Peer) -> None:
    def taken(peer: Peer, request: dict[str, object]) -> None:
        peer.approve(request)
        peer.spent_by[str(request["id"])] = "another key"
        request["consumption"] = {"consumed_at": timestamps.render(clock.now())}

    peer.at_submission = taken
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
        other = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.reason, desk.effects) == (State.REFUSED, "already_consumed", [])
    assert other.reason == "already_consumed"


@each_row(
    "changes",
    [
        {"arguments": {"amount": 1}},
        {"tool": "delete_everything"},
        {"agent_reasoning": "another"},
        {"decision": {"expires_at": "2099-01-01T00:00:00Z"}},
        {"consumption": {"outcome": {"status": "failed", "reported_at": "2026-01-01T00:00:01Z"}}},
    ],
)
async def test_the_answer_to_a_consumption_is_checked_like_every_other(
    desk: WorkerDesk, peer: Peer, changes: dict[str, dict[str, object]]
) -> None:
    peer.outcomes.clear()
    before = len(desk.effects)

    def other(request: web.Request) -> web.Response:
        known = peer.requests[request.path.rsplit("/", 2)[1]]
        spent = known | {"consumption": {"consumed_at": timestamps.render(clock.now())}}
        return web.json_response(spent | {name: _merged(spent.get(name), value) for name, value in changes.items()})

    peer.interference = at_consume(other)
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, len(desk.effects)) == (State.REFUSED, before)
    assert done.consumed_at is not None, "the provider is to hear that it never ran"


async def test_a_call_abandoned_while_it_is_consumed_is_reported_as_not_run(desk: WorkerDesk, peer: Peer) -> None:
    saved = await desk.save()

    async def abandon(request: web.Request) -> None:
        if request.path.endswith("/consume"):
            await desk.store.abandon(saved.execution_id, reason="closed", actor="harness", at=clock.now())

    peer.interference = abandon
    async with desk.worker():
        assert await told(peer) == [(peer.only()["id"], {"status": "failed", "note": "not run"})]
    assert (await desk.store.execution(saved.execution_id)).state is State.ABANDONED
    assert desk.effects == []


async def test_a_call_abandoned_after_its_consumption_was_lost_is_reported_as_not_run(
    desk: WorkerDesk, peer: Peer
) -> None:
    async def lose(request: web.Request) -> web.StreamResponse | None:
        if request.path.endswith("/consume") and not peer.consumptions:
            await peer.spend(request)
            return refusal(503, "dependency", "unavailable", **{"Retry-After": "60"})
        return None

    peer.interference = lose
    async with desk.worker():
        saved = await desk.save()
        await desk.when(saved.execution_id, lambda execution: execution.problem is not None)
        await desk.store.abandon(saved.execution_id, "abandoned", "app:shop", clock.now())
        assert await told(peer) == [(peer.only()["id"], {"status": "failed", "note": "not run"})]
    assert desk.effects == []


async def test_a_call_abandoned_after_a_lost_answer_is_reported_as_not_run(desk: WorkerDesk, peer: Peer) -> None:
    saved = await desk.save()

    async def lose(request: web.Request) -> web.StreamResponse | None:
        if not request.path.endswith("/consume") or peer.consumptions:
            return None
        await peer.spend(request)
        await desk.store.abandon(saved.execution_id, reason="closed", actor="harness", at=clock.now())
        return refusal(503, "dependency", "unavailable")

    peer.interference = lose
    async with desk.worker():
        assert await told(peer) == [(peer.only()["id"], {"status": "failed", "note": "not run"})]
        await desk.when(saved.execution_id, lambda found: found.cancel_due_at is None and found.report_due_at is None)
    assert desk.effects == []


async def test_an_approval_that_ends_while_answers_are_lost_is_reported_as_not_run(
    desk: WorkerDesk, peer: Peer
) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request, lasting=2)

    async def lose(request: web.Request) -> web.StreamResponse | None:
        if not request.path.endswith("/consume"):
            return None
        answer = await peer.spend(request)
        over = timestamps.parse(peer.only()["decision"]["expires_at"]) <= clock.now()
        return answer if over else refusal(503, "dependency", "unavailable")

    peer.interference = lose
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
        assert (await told(peer))[0][1] == {"status": "failed", "note": "not run"}
    assert (done.state, done.reason, desk.effects) == (State.LAPSED, "approval_expired", [])


async def test_an_approval_that_is_over_by_the_providers_clock_alone_is_reported_as_not_run(
    desk: WorkerDesk, peer: Peer
) -> None:
    """This host's clock is behind; what was consumed from here, and its answer lost, is found out all the same."""

    async def lose(request: web.Request) -> web.StreamResponse | None:
        if request.path.endswith("/consume") and not peer.consumptions:
            await peer.spend(request)
            return refusal(503, "dependency", "unavailable")
        if request.method == "GET":
            ahead = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
            return web.json_response(peer.only(), headers={"Date": ahead})
        return None

    peer.interference = lose
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
        assert (await told(peer))[0][1] == {"status": "failed", "note": "not run"}
    assert (done.state, done.reason, desk.effects) == (State.LAPSED, "approval_expired", [])


async def test_never_refuses_what_shows_a_consumption(desk: WorkerDesk, peer: Peer) -> None:
    def taken(peer: Peer, request: dict[str, object]) -> None:
        peer.approve(request)
        request["consumption"] = {"consumed_at": timestamps.render(clock.now())}

    peer.at_submission = taken
    async with desk.worker(consumption="never"):
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.reason, desk.effects) == (State.REFUSED, "already_consumed", [])


async def test_a_worker_killed_after_the_consumption_is_followed_by_one_that_starts_it_once(
    desk: WorkerDesk, peer: Peer
) -> None:
    saved = await desk.save()
    async with desk.process(WAKEGATE_TEST_FAULT="http_out.answered:consume=kill") as first:
        await first.wait()
    assert (peer.consumptions, desk.effects) == ([(peer.only()["id"], key_of(saved))], [])
    async with desk.worker():
        done = await desk.settled(saved.execution_id)
        await told(peer)
    assert (done.state, len(desk.effects), len(peer.outcomes)) == (State.SUCCEEDED, 1, 1)
    assert {key for _, key in peer.consumptions} == {key_of(saved)}


async def test_after_a_restore_the_consumption_of_the_lost_history_is_not_ours(desk: WorkerDesk, peer: Peer) -> None:
    saved = await desk.save()
    async with desk.process(WAKEGATE_TEST_FAULT="http_out.answered:consume=kill") as first:
        await first.wait()
    await desk.store.raise_epoch("restored", "operator:anna", clock.now())
    await desk.store.release_held(saved.execution_id, actor="operator:anna", note=None, at=clock.now())
    async with desk.worker():
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason, desk.effects) == (State.REFUSED, "already_consumed", [])


async def test_two_workers_consume_and_start_each_call_once(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.process(), desk.process():
        saved = await asyncio.gather(*(desk.save() for _ in range(20)))
        done = [await desk.settled(each.execution_id) for each in saved]
        await told(peer, 20)
    assert {each.state for each in done} == {State.SUCCEEDED}
    assert sorted(desk.effects) == sorted(each.execution_id for each in saved)
    assert len({request_id for request_id, _ in peer.outcomes}) == 20
    assert json.dumps(sorted(peer.spent_by.values())) == json.dumps(sorted(map(key_of, saved)))


def _merged(old: object, new: dict[str, object]) -> object:
    return {**old, **new} if isinstance(old, dict) else new
