"""A provider that hangs keeps nobody else's calls waiting."""

import asyncio
import time
from pathlib import Path

from aiohttp import web

from support.aap_peer import Peer
from support.desk import new_id
from support.workers import WorkerDesk
from wakegate_schema.states import State
from wakegate_schema.store import Store

SLOTS = 4
CALLS = 40


async def test_the_calls_of_a_healthy_provider_run_at_once_beside_those_of_one_that_hangs(
    store: Store, tmp_path: Path, desk: WorkerDesk, peer: Peer
) -> None:
    async def hang(request: web.Request) -> web.StreamResponse | None:
        await asyncio.Event().wait()
        return None

    healthy = Peer(at_submission=lambda peer, request: peer.approve(request))
    peer.interference = hang
    async with healthy.serving():
        other = await WorkerDesk(store, tmp_path, healthy.url, name="other-desk").open()
        hanging = [await desk.save(idempotency_key=new_id()) for _ in range(CALLS)]
        async with desk.worker(worker_concurrency=SLOTS):
            await peer.submitted(SLOTS)
            for _ in range(3):
                begun = time.monotonic()
                saved = await other.save(idempotency_key=new_id())
                assert (await other.settled(saved.execution_id)).state is State.SUCCEEDED
                assert time.monotonic() - begun < 3
            found = [await store.execution(execution.execution_id) for execution in hanging]
    assert len(peer.submissions) <= SLOTS + SLOTS // 2
    busy = [execution for execution in found if execution.problem == "provider_busy"]
    assert len(busy) >= CALLS // 2
    assert all(execution.state is State.SAVED for execution in busy)
