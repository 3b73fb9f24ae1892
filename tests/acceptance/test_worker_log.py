"""The worker's log: what it can run, and one line, not two a second, about a call that cannot run."""

import json
from collections.abc import MutableMapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from support.aap_peer import Peer
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock, timestamps
from wakegate_schema.states import State

Line = MutableMapping[str, Any]


@pytest.fixture
def peer(peer: Peer) -> Peer:
    """A peer that approves at once."""
    peer.at_submission = lambda peer, request: peer.approve(request)
    return peer


async def cannot_run(desk: WorkerDesk, tries: int, **changes: Any) -> list[Line]:
    """What is logged while an approved call is tried so many times in vain."""
    with capture_logs() as lines:
        async with desk.worker():
            saved = await desk.save(**changes)
            await desk.when(saved.execution_id, lambda execution: execution.tries >= tries)
    return [line for line in lines if line["log_level"] in ("warning", "error") or "problem" in line]


async def test_a_call_that_cannot_run_is_told_of_once(desk: WorkerDesk, peer: Peer) -> None:
    (line,) = await cannot_run(desk, 3, tool="decline", arguments=b'{"amount": 1, "currency": "EUR"}')
    assert (line["log_level"], line["problem"], line["tries"]) == ("warning", "arguments_do_not_fit", 1)
    assert (
        line["hint"] == "the saved arguments do not fit tool 'decline': 1 that it does not take; correct the tool and"
        " restart the worker"
    )
    assert 0 <= clock.now() - timestamps.parse(line["due_at"]) < clock.MINUTE


async def test_a_missing_argument_is_named(desk: WorkerDesk, peer: Peer) -> None:
    (line,) = await cannot_run(desk, 1, tool="decline", arguments=b"{}")
    assert line["problem"] == "arguments_do_not_fit"
    assert "missing amount" in line["hint"]


async def test_a_start_does_not_read_as_a_second_one(desk: WorkerDesk, peer: Peer) -> None:
    with capture_logs() as lines:
        async with desk.worker():
            saved = await desk.save()
            assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
    (line,) = [line for line in lines if line["event"] == "started"]
    assert line == {"event": "started", "action": "start", "tool": "issue_refund", "log_level": "info"}


async def ready_lines(desk: WorkerDesk, tools: str) -> list[dict[str, Any]]:
    async with desk.process(WAKEGATE_TOOLS=tools):
        await eventually(lambda: '"action":"ready"' in desk.logs.replace(" ", ""))
        return [json.loads(line) for line in desk.logs.splitlines()]


async def test_a_worker_says_what_it_can_run(desk: WorkerDesk) -> None:
    (line,) = await ready_lines(desk, "support.other_build")
    assert (line["event"], line["tools"]) == ("ready", "take_a_tenth@2")


async def test_a_worker_without_tools_warns(desk: WorkerDesk) -> None:
    warning, ready = await ready_lines(desk, "")
    assert (warning["level"], warning["event"]) == (
        "warning",
        "no tools registered: only harness-run calls can run",
    )
    assert (ready["event"], ready["tools"]) == ("ready", "none")
