"""Workers that hear of work through Redis: real receivers and workers, and a Redis that does all it can do wrong."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import redis.asyncio
from rq.job import Job

from support.aap_peer import Peer
from support.desk import new_id
from support.servers import RedisServer
from support.services import Answers, Site, lines_of, site_in
from support.workers import WorkerDesk, eventually
from wakegate_adapter import Adapter, Call
from wakegate_schema.queue.job import hint_id
from wakegate_schema.records import Execution
from wakegate_schema.states import State
from wakegate_schema.store import Store, open_store

LONG_SWEEP = "30"
"""Seconds between two sweeps where a test is to see hints alone."""


@pytest.fixture
def server() -> Iterator[RedisServer]:
    """A Redis of the test's own, with a password that nothing may show."""
    with RedisServer(password="PLANTED-redis-password") as started:
        yield started


@pytest.fixture
def queue(server: RedisServer, tmp_path: Path) -> dict[str, str]:
    """The settings of the queue."""
    password = tmp_path / "redis.password"
    password.write_text(f"{server.password}\n")
    password.chmod(0o600)
    return {"WAKEGATE_QUEUE": server.url(), "WAKEGATE_QUEUE_PASSWORD_FILE": str(password)}


@pytest.fixture
async def site(tmp_path: Path, peer: Peer) -> AsyncIterator[Site]:
    """A folder in which receivers and workers are started."""
    for name in ("store", "outside"):
        (tmp_path / name).mkdir()
    async with site_in(tmp_path / "store", tmp_path / "outside", peer) as made:
        yield made


@asynccontextmanager
async def ringing(site: Site, queue: dict[str, str], **changes: Any) -> AsyncIterator[Store]:
    """The store as a trusted harness has it, ringing."""
    values = {"queue": queue["WAKEGATE_QUEUE"], "queue_password_file": queue["WAKEGATE_QUEUE_PASSWORD_FILE"]}
    async with await open_store(site.worker.settings(**values, **changes).store, mode="use") as store:
        yield store


async def wait_for(site: Site, saved: list[Execution], *states: State) -> list[Execution]:
    return [await site.worker.until(each.execution_id, *states, seconds=60) for each in saved]


async def save(site: Site, store: Store, count: int, **changes: Any) -> list[Execution]:
    return [await store.save(site.worker.desk.suspension(idempotency_key=new_id(), **changes)) for _ in range(count)]


async def approve(site: Site, peer: Peer, waiting: list[Execution], answers: Answers) -> None:
    """Decide all, then notify of each at once."""
    for execution in waiting:
        peer.approve(peer.requests[execution.request_id or ""])
    await asyncio.gather(*(answers.post(site, site.sender.notification(each.request_id)) for each in waiting))


async def are_ready(site: Site, workers: int) -> None:
    await eventually(lambda: len(lines_of(site.worker.logs, "ready")) == workers, 60)


async def no_hint_lies_there(server: RedisServer) -> None:
    """Wait for the end of a hint that the killed had in its hands: up to five seconds, in which others are none."""
    async with redis.asyncio.Redis.from_url(server.url(), password=server.password) as client:
        async with asyncio.timeout(60):
            while await client.exists(Job.key_for(hint_id("gpu"))):
                await asyncio.sleep(0.05)


async def test_hints_alone_carry_a_call_from_its_save_to_its_end(
    site: Site, peer: Peer, queue: dict[str, str], server: RedisServer
) -> None:
    """In another pool than the receiver's, past a worker that was killed, to the next one; no sweep is near."""
    answers, took = Answers(), []
    async with site.receiving(**queue), ringing(site, queue) as store:
        for workers in (1, 2):
            async with site.working(**queue, WAKEGATE_POOL="gpu", WAKEGATE_SWEEP_SECONDS=LONG_SWEEP) as worker:
                await are_ready(site, workers)
                for _ in range(3):
                    saved = await save(site, store, 1)
                    waiting = await wait_for(site, saved, State.WAITING)
                    began = time.monotonic()
                    await approve(site, peer, waiting, answers)
                    await wait_for(site, saved, State.SUCCEEDED)
                    took.append(time.monotonic() - began)
                worker.kill()
            await no_hint_lies_there(server)
    assert max(took) < 20, took
    assert len(answers.acknowledged) == len(site.worker.effects) == 6


async def test_a_burst_costs_few_hints(site: Site, peer: Peer, queue: dict[str, str], server: RedisServer) -> None:
    answers, count = Answers(), 120
    async with site.receiving(**queue), ringing(site, queue) as store, site.working(**queue):
        saved = await save(site, store, count)
        waiting = await wait_for(site, saved, State.WAITING)
        with server.client() as client:
            client.config_resetstat()
            await approve(site, peer, waiting, answers)
            await wait_for(site, saved, State.SUCCEEDED)
            hints = client.info("commandstats")["cmdstat_rpush"]["calls"]
            assert client.llen("rq:queue:wakegate-default") <= 1
    assert len(answers.acknowledged) == count
    assert hints < count / 4
    assert sorted(site.worker.effects) == sorted(each.execution_id for each in saved)


async def test_whatever_becomes_of_redis_nobody_waits_and_every_call_runs_once(
    site: Site, peer: Peer, queue: dict[str, str], server: RedisServer
) -> None:
    answers: dict[str, Answers] = {}
    everything: list[Execution] = []

    async def under(trouble: str) -> None:
        saved = await save(site, store, 12)
        everything.extend(saved)
        waiting = await wait_for(site, saved, State.WAITING)
        answers[trouble] = Answers()
        await approve(site, peer, waiting, answers[trouble])
        await wait_for(site, saved, State.SUCCEEDED)

    async def told(reason: str) -> None:
        await eventually(lambda: reason in {line.get("reason") for line in lines_of(site.receiver_log, "ring")}, 30)

    quick = {"WAKEGATE_SWEEP_SECONDS": "0.2", "WAKEGATE_LEASE_SECONDS": "10"}
    async with site.receiving(**queue), ringing(site, queue) as store, site.working(**queue, **quick):
        await under("nothing")
        server.pause()
        await under("paused")
        await told("redis_timeout")
        server.resume()
        server.flush()
        await under("forgetful")
        server.configure(maxmemory="1", maxmemory_policy="noeviction")
        await under("full")
        await told("redis_full")
        server.configure(maxmemory="0")
        server.kill()
        await under("killed")
        await told("redis_unreachable")
        server.start()
        await under("back")
        metrics = await metrics_of(site)
    assert [len(each.acknowledged) for each in answers.values()] == [12] * 6
    slowest = {trouble: max(each.seconds) for trouble, each in answers.items()}
    assert max(slowest.values()) < 4 + 3 * slowest["nothing"], slowest
    assert sorted(site.worker.effects) == sorted(each.execution_id for each in everything)
    assert 'wakegate_hint_failures_total{reason="redis_timeout"}' in metrics
    everywhere = site.receiver_log + site.worker.logs + metrics
    assert "PLANTED" not in everywhere
    assert len(lines_of(site.receiver_log, "ring")) < 15


async def metrics_of(site: Site) -> str:
    connector = aiohttp.UnixConnector(str(site.settings.control_address))
    async with aiohttp.ClientSession(connector=connector) as session, session.get("http://receiver/metrics") as answer:
        return await answer.text()


async def test_what_is_too_much_for_one_worker_goes_to_the_others(
    site: Site, peer: Peer, queue: dict[str, str]
) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    alone = {"WAKEGATE_SWEEP_SECONDS": LONG_SWEEP, "WAKEGATE_WORKER_CONCURRENCY": "1", "WAKEGATE_LEASE_SECONDS": "30"}
    async with ringing(site, queue) as store, site.working(**queue, **alone), site.working(**queue, **alone):
        await are_ready(site, 2)
        await wait_for(site, await save(site, store, 1), State.SUCCEEDED)
        saved = await save(site, site.store, 6, tool="take_a_second", arguments=b'{"amount": 1}')  # rings nobody
        store.ring()
        done = await wait_for(site, saved, State.SUCCEEDED)
    assert len(site.worker.effects) == 7
    begun = sorted(each.started_at or 0 for each in done)
    assert any(later - sooner < 900_000 for sooner, later in itertools.pairwise(begun)), begun


async def test_a_worker_inside_a_program_hears_hints_of_a_harness_with_the_store(
    desk: WorkerDesk, peer: Peer, queue_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer.at_submission = lambda peer, request: peer.approve(request)
    monkeypatch.setenv("WAKEGATE_DATABASE", desk.settings().database)
    monkeypatch.setenv("WAKEGATE_QUEUE", queue_url)
    async with desk.worker(queue=queue_url, sweep_seconds=30), await Adapter.open() as adapter:
        for _ in range(2):
            ticket = await adapter.suspend(Call("issue_refund", {"amount": 4900}))
            assert (await desk.settled(ticket.execution_id)).state is State.SUCCEEDED
    assert len(desk.effects) == 2
