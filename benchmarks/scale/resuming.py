"""Calls on their way through the workers: waiting, approved, ended. `make bench` measures how fast they are."""

import asyncio

from support.aap_peer import Peer
from support.desk import Desk
from wakegate_schema.states import State

_PATIENCE_S = 300.0
_LOOK_S = 0.03
"""Between two looks whether all have ended, which the database is charged with too."""


async def waiting(desk: Desk, peer: Peer, count: int) -> None:
    """Save so many calls and let the workers submit them."""
    await asyncio.gather(*(desk.save(tool="nothing", arguments=b"{}") for _ in range(count)))
    await _none(desk, State.SAVED, State.SUBMITTING)
    if sum(request["status"] == "pending" for request in peer.requests.values()) != count:
        raise RuntimeError("not all calls were submitted")


def approve(peer: Peer) -> list[str]:
    """Approve whatever waits, and return the requests' ids."""
    asked = [request for request in peer.requests.values() if request["status"] == "pending"]
    for request in asked:
        peer.approve(request)
    return [request["id"] for request in asked]


async def ended(desk: Desk) -> None:
    """Wait until every call has ended."""
    await _none(desk, State.WAITING, State.STARTED)  # in the order in which calls pass through them


async def _none(desk: Desk, *states: State) -> None:
    """Wait until no call is in one of these states."""
    async with asyncio.timeout(_PATIENCE_S):
        for state in states:
            while await desk.store.executions(limit=1, state=state):
                await asyncio.sleep(_LOOK_S)
