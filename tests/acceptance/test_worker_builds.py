"""Two builds of the worker side by side: the one that can run a call gets it while its approval is good."""

import pytest

from support.aap_peer import Peer
from support.desk import new_id
from support.workers import WorkerDesk
from wakegate_schema.states import State

LASTING = 15
CALLS = 20


@pytest.fixture
def peer(peer: Peer) -> Peer:
    """A peer that approves at once, and not for long."""
    peer.at_submission = lambda peer, request: peer.approve(request, lasting=LASTING)
    return peer


@pytest.mark.parametrize(
    ("tool", "problem"), [("issue_refund", "tool_unknown"), ("take_a_tenth", "tool_version_differs")]
)
async def test_the_build_that_can_run_a_call_gets_it_in_time(desk: WorkerDesk, tool: str, problem: str) -> None:
    async with desk.process(WAKEGATE_TOOLS="support.other_build"):
        saved = [
            (await desk.save(tool=tool, tool_version="1", idempotency_key=new_id())).execution_id for _ in range(CALLS)
        ]
        for execution_id in saved:
            await desk.when(execution_id, lambda execution: execution.problem == problem)
        async with desk.process():
            for execution_id in saved:
                done = await desk.settled(execution_id, seconds=LASTING)
                assert done.state is State.SUCCEEDED
    assert sorted(desk.effects) == sorted(saved)
