"""Two builds of the worker side by side: the one that can run a call gets it while its approval is good."""

import pytest

from support.aap_peer import Peer
from support.desk import new_id
from support.workers import WorkerDesk
from wakegate_schema import clock
from wakegate_schema.states import State

LASTING = 15
CALLS = 20


@pytest.fixture
def peer(peer: Peer) -> Peer:
    """A peer that approves at once, and not for long."""
    peer.at_submission = lambda peer, request: peer.approve(request, lasting=LASTING)
    return peer


@pytest.mark.parametrize("tool", ["issue_refund", "take_a_tenth"])
async def test_the_build_that_can_run_a_call_gets_it_in_time(desk: WorkerDesk, peer: Peer, tool: str) -> None:
    async with desk.process(WAKEGATE_TOOLS="support.other_build"):
        saved = [
            (await desk.save(tool=tool, tool_version="1", idempotency_key=new_id())).execution_id for _ in range(CALLS)
        ]
        (missing,) = await desk.store.missing_tools(clock.now())
        assert (missing.tool, missing.version, missing.calls) == (tool, "1", CALLS)
        assert peer.submissions == []
        async with desk.process():
            for execution_id in saved:
                done = await desk.settled(execution_id, seconds=LASTING)
                assert done.state is State.SUCCEEDED
    assert sorted(desk.effects) == sorted(saved)
