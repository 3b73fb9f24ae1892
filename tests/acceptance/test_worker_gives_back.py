"""A store that fails in the middle of a call costs a moment, not the rest of a lease."""

import pytest

from support.aap_peer import Peer
from support.workers import WorkerDesk
from wakegate_schema.states import State

LONG_LEASE = "3600"
"""Seconds: nothing here may wait for its end."""


@pytest.mark.parametrize(
    "point",
    [
        "store.read:instances.one",
        "store.begin:leases.begin_submission",
        "store.committed:leases.begin_submission",
        "store.commit:leases.attach",
        "store.committed:leases.attach",
        "store.begin:clocks.mark",
        "store.committed:leases.release",
    ],
)
async def test_a_lease_is_given_back_once_the_store_answers_again(desk: WorkerDesk, peer: Peer, point: str) -> None:
    saved = await desk.save()
    trouble = {"WAKEGATE_TEST_FAULT": f"{point}=raise", "WAKEGATE_LEASE_SECONDS": LONG_LEASE}
    async with desk.process(**trouble):
        waiting = await desk.when(saved.execution_id, lambda found: found.request_id is not None, seconds=30)
        peer.approve(peer.only())
        await desk.notify(waiting.request_id or "")
        assert (await desk.settled(saved.execution_id, seconds=30)).state is State.SUCCEEDED
    assert desk.effects == [saved.execution_id]
    assert len(peer.requests) == 1
    assert f"fault point {point}" in desk.logs or "the store cannot be used" in desk.logs
