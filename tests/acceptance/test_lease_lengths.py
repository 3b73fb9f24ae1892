"""Workers whose leases differ in length: each lease ends when it says, and silence is waited for by the longest."""

import asyncio

from support.aap_peer import Peer
from support.workers import WorkerDesk
from wakegate_schema import clock
from wakegate_schema.clock import SECOND
from wakegate_schema.records import RegisteredWorker
from wakegate_schema.states import State
from wakegate_worker.attempt import Attempt
from wakegate_worker.probing import Probing
from wakegate_worker.registry import tool, tool_of


async def test_a_lease_lasts_as_long_as_the_worker_that_took_it_says(desk: WorkerDesk, peer: Peer) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    async with desk.process(WAKEGATE_LEASE_SECONDS="6") as longer:
        saved = await desk.save(tool="hang")
        started = await desk.until(saved.execution_id, State.STARTED)
        longer.kill()
        await longer.wait()
    async with desk.worker():  # whose own lease is 2 seconds
        doubtful = await desk.until(saved.execution_id, State.IN_DOUBT, seconds=20)
    assert doubtful.changed_at - (started.started_at or 0) >= 6 * SECOND


async def test_a_probe_waits_for_the_longest_lease_of_the_workers_on_record(desk: WorkerDesk) -> None:
    asked = []

    @tool(timeout=0.01, probe=lambda attempt: asked.append(attempt.execution_id))
    async def issue_refund(attempt: Attempt, amount: int) -> None:
        """Never run here."""

    made = tool_of(issue_refund)
    assert made is not None
    await desk.desk.in_doubt()
    now, woken = clock.now(), asyncio.Event()
    await desk.store.show_worker(RegisteredWorker("far", "host", "default", "0", 5, 60, now, now), now)
    probing = Probing(
        desk.store, {"issue_refund": made}, alive=(), lease_s=0.05, now=lambda: clock.now() + 60 * SECOND, woken=woken
    )

    async def look(rounds: int) -> list[str]:
        for _ in range(rounds):
            await probing.round()
            await probing.watch_store()
            await asyncio.sleep(0.02)
        return asked

    assert await look(20) == []
    await desk.store.remove_worker("far")
    async with asyncio.timeout(10):
        while not await look(5):
            pass
    await probing.finish()
