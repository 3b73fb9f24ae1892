"""Nothing but a valid approval of exactly the saved call, for a tool that can take it, ever runs anything."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from aiohttp import web

from support.aap_peer import Peer, refusal
from support.workers import WorkerDesk
from wakegate_schema import clock, timestamps
from wakegate_schema.states import State


@pytest.fixture
def peer(peer: Peer) -> Peer:
    """A peer that approves everything at once, if nothing interferes."""
    peer.at_submission = lambda peer, request: peer.approve(request)
    return peer


def raw(body: bytes, status: int = 200, content_type: str = "application/json") -> Callable[[Peer], web.Response]:
    return lambda peer: web.Response(status=status, body=body, content_type=content_type)


def changed(**changes: Any) -> Callable[[Peer], web.Response]:
    return lambda peer: web.json_response(peer.only() | changes)


def decided(**changes: Any) -> Callable[[Peer], web.Response]:
    def answer(peer: Peer) -> web.Response:
        decision = {k: v for k, v in (peer.only()["decision"] | changes).items() if v is not None}
        return web.json_response(peer.only() | {"decision": decision})

    return answer


NO_ANSWERS: dict[str, Callable[[Peer], web.Response]] = {
    "401": lambda peer: refusal(401, "authentication", "invalid_credential"),
    "403": lambda peer: refusal(403, "authorization", "not_yours"),
    "404": lambda peer: refusal(404, "not_found", "not_found"),
    "429": lambda peer: refusal(429, "rate_limit", "slow_down", **{"Retry-After": "3600"}),
    "500": lambda peer: refusal(500, "internal", "internal"),
    "503": lambda peer: refusal(503, "dependency", "unavailable"),
    "a redirect": lambda peer: web.Response(status=307, headers={"Location": f"{peer.url}/v1/requests"}),
    "an HTML page": raw(b"<html>approved</html>", content_type="text/html"),
    "no body": raw(b""),
    "truncated JSON": lambda peer: web.Response(body=json.dumps(peer.only()).encode()[:-20]),
    "another status": changed(status="authorised"),
    "no decision": changed(decision=None),
    "an unknown field": changed(trusted=True),
    "approved without expires_at": decided(expires_at=None),
    "expires when it was decided": lambda peer: decided(expires_at=peer.only()["decision"]["decided_at"])(peer),
    "a decision that says otherwise": decided(status="denied", expires_at=None),
    "half a pair in the note": decided(note="\ud800"),
    "a number that is none": changed(arguments={"amount": float("nan")}),
    "a number beyond all numbers": lambda peer: web.Response(
        body=json.dumps(peer.only()).replace("4900", "1e400000").encode(), content_type="application/json"
    ),
}
REFUSED: dict[str, tuple[Callable[[Peer], web.Response], str]] = {
    "other arguments": (changed(arguments={"amount": 82_000}), "arguments_differ"),
    "a number as a string": (changed(arguments={"amount": "4900"}), "arguments_differ"),
    "another tool": (changed(tool="issue_refund_sync"), "tool_differs"),
    "other reasoning": (changed(agent_reasoning="because"), "reasoning_differs"),
    "a NUL in the note": (decided(note="go\0ahead"), "note_malformed"),
    "a longer deadline": (changed(deadline_at="2999-01-01T00:00:00Z"), "deadline_too_late"),
}


def always(answer: Callable[[Peer], web.Response], peer: Peer) -> None:
    async def interfere(request: web.Request) -> web.StreamResponse | None:
        beside = request.method == "DELETE" or request.path.endswith("/consume")
        return None if beside else answer(peer)

    peer.interference = interfere


@pytest.mark.parametrize("name", NO_ANSWERS)
async def test_an_answer_that_is_none_runs_nothing(desk: WorkerDesk, peer: Peer, name: str) -> None:
    always(NO_ANSWERS[name], peer)
    async with desk.worker():
        saved = await desk.save()
        found = await desk.when(saved.execution_id, lambda execution: execution.problem is not None)
    assert found.state is State.SUBMITTING
    assert desk.effects == []


@pytest.mark.parametrize("name", NO_ANSWERS)
async def test_an_answer_that_is_none_runs_nothing_after_a_notification_either(
    desk: WorkerDesk, peer: Peer, name: str
) -> None:
    peer.at_submission = None
    async with desk.worker():
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
        peer.approve(peer.only())
        always(NO_ANSWERS[name], peer)
        await desk.notify(waiting.request_id or "")
        found = await desk.when(saved.execution_id, lambda execution: execution.problem is not None)
    assert found.state is State.WAITING
    assert desk.effects == []


async def test_a_note_of_any_characters_is_kept_as_it_was_written(desk: WorkerDesk, peer: Peer) -> None:
    note = "go ahead \u2028 \u202e \ufeff 🎉"
    always(decided(note=note), peer)
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.note) == (State.SUCCEEDED, note)
    assert len(desk.effects) == 1


async def test_retry_after_is_respected_however_long(desk: WorkerDesk, peer: Peer) -> None:
    always(NO_ANSWERS["429"], peer)
    async with desk.worker():
        saved = await desk.save()
        found = await desk.when(saved.execution_id, lambda execution: execution.problem is not None)
    assert found.problem == "http_429"
    assert found.due_at is not None
    assert found.due_at >= found.changed_at + clock.HOUR


@pytest.mark.parametrize("name", REFUSED)
async def test_an_approval_of_anything_else_is_refused(desk: WorkerDesk, peer: Peer, name: str) -> None:
    answer, reason = REFUSED[name]
    always(answer, peer)
    async with desk.worker():
        done = await desk.settled((await desk.save()).execution_id)
    assert (done.state, done.reason) == (State.REFUSED, reason)
    assert desk.effects == []


async def test_an_answer_about_another_request_is_refused(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = None
    async with desk.worker():
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
        peer.approve(peer.only())
        always(changed(id="7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71"), peer)
        await desk.notify(waiting.request_id or "")
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason) == (State.REFUSED, "request_id_differs")
    assert desk.effects == []


async def test_arguments_altered_in_the_store_are_refused(desk: WorkerDesk, peer: Peer) -> None:
    saved = await desk.save()
    with sqlite3.connect(desk.directory / "wakegate.db") as database:
        database.execute("DROP TRIGGER execution_call_is_fixed")
        database.execute("UPDATE execution SET arguments = ?", (b'{"amount": 82000}',))
    database.close()
    async with desk.worker():
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason) == (State.REFUSED, "digest_differs")
    assert peer.submissions == []
    assert desk.effects == []


async def test_arguments_altered_after_the_submission_are_refused(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = None
    async with desk.worker():
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
        with sqlite3.connect(desk.directory / "wakegate.db") as database:
            database.execute("DROP TRIGGER execution_call_is_fixed")
            database.execute("UPDATE execution SET arguments = ?", (b'{"amount": 82000}',))
        database.close()
        peer.approve(peer.only())
        await desk.notify(waiting.request_id or "")
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason) == (State.REFUSED, "digest_differs")
    assert desk.effects == []


async def test_a_decision_a_little_ahead_of_this_clock_is_waited_for(desk: WorkerDesk, peer: Peer) -> None:
    def approve_ahead(peer: Peer, request: dict[str, Any]) -> None:
        at = clock.now() + clock.SECOND
        ends = timestamps.render(at + clock.MINUTE)
        peer.decide(request, "approved", decided_at=timestamps.render(at), expires_at=ends)

    peer.at_submission = approve_ahead
    async with desk.worker():
        saved = await desk.save()
        await desk.when(saved.execution_id, lambda execution: execution.problem == "time_ahead")
        assert desk.effects == []
        done = await desk.settled(saved.execution_id)
    assert done.state is State.SUCCEEDED


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"tool": "decline", "arguments": b'{"amount": 1, "currency": "EUR"}'}, "arguments_do_not_fit"),
        ({"tool": "decline", "arguments": b"{}"}, "arguments_do_not_fit"),
        ({"arguments": b'{"attempt": 1}'}, "arguments_do_not_fit"),
    ],
)
async def test_a_call_that_this_build_cannot_run_waits_for_one_that_can_until_it_lapses(
    desk: WorkerDesk, peer: Peer, changes: dict[str, Any], problem: str
) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request, lasting=1.5)
    async with desk.worker():
        saved = await desk.save(**changes)
        found = await desk.when(saved.execution_id, lambda execution: execution.problem is not None)
        assert (found.state, found.problem) == (State.WAITING, problem)
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "approval_expired")
    assert desk.effects == []


async def test_another_build_takes_a_call_that_this_one_cannot_run(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker(tools=()):
        saved = await desk.save()
        assert (await desk.store.execution(saved.execution_id)).state is State.SAVED
    async with desk.worker():
        done = await desk.settled(saved.execution_id)
    assert done.state is State.SUCCEEDED
    assert desk.effects == [saved.execution_id]


async def test_the_tools_version_is_kept_with_the_call_when_it_is_submitted(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = None
    async with desk.worker():
        saved = await desk.save()
        waiting = await desk.until(saved.execution_id, State.WAITING)
    assert (saved.tool_version, waiting.tool_version) == (None, "1")


async def test_a_credential_altered_in_the_store_is_sent_nowhere(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        with closing(sqlite3.connect(desk.directory / "wakegate.db")) as database, database:
            database.execute("UPDATE instance SET sealed_credential = ?", (desk.sealed("x")[:-8] + b"AAAAAAA=",))
        saved = await desk.save()
        found = await desk.when(saved.execution_id, lambda execution: execution.problem is not None)
    assert (found.state, found.problem) == (State.SAVED, "cannot_unseal")
    assert peer.submissions == []
