"""Calls that wait and are approved already, put on record and at the provider before the clock starts."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from benchmarks.peers.processes import serving
from benchmarks.scale.desks import desk_on
from benchmarks.scale.grounds import Ground, Service
from support.deliveries import Sender, new_id
from support.desk import Desk
from support.ports import free_port
from wakegate_schema import clock, timestamps
from wakegate_schema.records import Execution, RequestIdentity
from wakegate_worker.aap import submission

TOOL = "leave_a_line"
_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that waits."""

    request_id: str
    """Which its effect is known by too."""
    body: str
    """The provider's answer: approved."""


@dataclass
class Office:
    """A desk, what waits there, and the provider that knows it."""

    desk: Desk
    sender: Sender
    provider: Service
    calls: list[Waiting]

    def take(self, count: int) -> Sequence[Waiting]:
        """So many of the calls; nobody gets them again."""
        taken, self.calls = self.calls[:count], self.calls[count:]
        if len(taken) < count:
            raise LookupError("not enough calls were made")
        return taken


@asynccontextmanager
async def office(at: Ground, count: int) -> AsyncIterator[Office]:
    """Put so many waiting calls into a store, and serve their approvals; no worker may run yet."""
    port = free_port()
    async with desk_on(at, f"http://127.0.0.1:{port}") as (desk, sender):
        calls = await _waiting(desk, count)
        file = at.folder / "approvals.json"
        file.write_text(json.dumps({each.request_id: each.body for each in calls}), encoding="utf-8")
        async with serving("-m", "benchmarks.peers.provider", "{port}", str(file), port=port) as provider:
            yield Office(desk, sender, provider, calls)


async def _waiting(desk: Desk, count: int) -> list[Waiting]:
    await asyncio.gather(*(desk.save(tool=TOOL, arguments=b"{}") for _ in range(count)))
    done: list[Waiting] = []
    while len(done) < count:
        now = clock.now()
        leased = await desk.store.lease_due("benchmark", _AT_ONCE, now, now + clock.HOUR)
        done += await asyncio.gather(*(_attach(desk, each) for each in leased))
    return done


async def _attach(desk: Desk, leased: Execution) -> Waiting:
    """Submit it as a worker would, but for the provider: its answer is made here, and nobody looks for an hour."""
    now = clock.now()
    request = RequestIdentity(new_id(), now, now + 30 * clock.MINUTE)
    await desk.store.begin_submission(leased.lease, "1", now)
    await desk.store.attach(leased.execution_id, request, now)
    await desk.store.release(leased.lease, now + clock.HOUR, None, now)
    decided = clock.now()
    answer = json.loads(submission(leased)) | {
        "id": request.request_id,
        "status": "approved",
        "created_at": timestamps.render(request.created_at),
        "deadline_at": timestamps.render(request.deadline_at),
        "decision": {
            "status": "approved",
            "decided_at": timestamps.render(decided),
            "expires_at": timestamps.render(decided + clock.HOUR),
        },
    }
    return Waiting(request.request_id, json.dumps(answer))
