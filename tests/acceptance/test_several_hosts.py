"""Several hosts: two receivers, two workers, PostgreSQL and its standby, Redis, the provider and who pushes for it.

Each is on a host of its own, and cables are cut silently. Every test ends by counting: what was acknowledged is on
record, no call has two effects, every call has ended, and what nobody knows is said to be in doubt. Effects are counted
in a file that the tools write to, which no server knows of.
"""

import asyncio
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from statistics import median

import pytest
from aiohttp import web

from support import warm
from support.branch import PATIENCE_S, Branch, branch_on
from support.console import run
from support.network import Network
from support.processes import clean_environment
from support.workers import eventually
from wakegate_schema import clock
from wakegate_schema.records import Execution
from wakegate_schema.states import OLDER_EPOCH, State

TESTS = Path(__file__).parents[1]
UNCOMMITTED = """SELECT count(*) FROM pg_stat_activity
WHERE state = 'idle in transaction' AND clock_timestamp() - state_change > interval '0.5 s'"""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
CANCELLED = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    """The hosts, which all tests here share."""
    with Network() as made:
        yield made


@pytest.fixture
async def branch(network: Network, tmp_path: Path) -> AsyncIterator[Branch]:
    """A store of the test's own, with nothing that works on it yet."""
    async with branch_on(network, tmp_path) as made:
        yield made


async def everybody(branch: Branch) -> None:
    """Run both receivers and both workers."""
    for name in ("east", "west"):
        await branch.receiver(name)
    for name in ("north", "south"):
        await branch.worker(name)


async def decided(branch: Branch, calls: list[Execution], every_s: float = 0.15) -> None:
    """Decide calls one after the other, each delivered until it is acknowledged."""
    async with asyncio.TaskGroup() as deliveries:
        for each in calls:
            deliveries.create_task(branch.decide(each))
            await asyncio.sleep(every_s)


async def test_a_worker_that_is_cut_off_with_a_lease_and_with_a_running_tool(branch: Branch) -> None:
    network, peer = branch.network, branch.peer
    await branch.receiver("east")
    await branch.worker("north")
    (leased,) = await branch.calls(1)
    (running,) = await branch.calls(1, tool="wait_for_word")
    asked, answer = asyncio.Event(), asyncio.Event()
    north, held = network.hosts["north"].address, peer.keys[leased.idempotency_key]

    async def hold(request: web.Request) -> None:
        if request.remote == north and request.method == "GET" and request.path.endswith(held):
            asked.set()
            await answer.wait()

    peer.interference = hold
    await branch.decide(leased)
    await branch.decide(running)
    await asyncio.wait_for(asked.wait(), PATIENCE_S)
    await eventually(lambda: branch.desk.effects == [running.execution_id], PATIENCE_S)
    network.cut("north")
    await branch.worker("south")
    doubt = await branch.until(running, State.IN_DOUBT)
    assert doubt.reason == "lease_lost"
    await branch.until(leased, State.SUCCEEDED)
    network.heal("north")
    (branch.folder / "word").touch()
    answer.set()  # the approval reaches the worker that has lost its lease
    settled = await branch.until(running, State.SUCCEEDED)
    assert settled.attempt_number == doubt.attempt_number, "settled by the attempt's own late word"
    assert await branch.desk.passed(running.execution_id) == [
        "saved", "submitting", "waiting", "permitted", "started", "in_doubt", "succeeded",
    ]  # fmt: skip
    await branch.stop("south")
    (last,) = await branch.calls(1)  # by now the healed worker has done whatever it was about to do
    await branch.decide(last)
    assert await branch.ended([leased, running, last]) == {State.SUCCEEDED: 3}


async def test_a_worker_without_its_provider_and_a_receiver_without_its_database(branch: Branch) -> None:
    network = branch.network
    await everybody(branch)
    calls = await branch.calls(16)
    network.cut("north", "provider")
    network.cut("east", network.primary_on)
    await decided(branch, calls)
    statuses = {each.status for each in branch.tries if each.receiver == "east"}
    assert 503 in statuses
    assert 204 not in statuses
    network.heal("east", network.primary_on)
    await eventually(lambda: branch.attempt("east", branch.notification(calls[0])), PATIENCE_S)
    assert await branch.ended(calls) == {State.SUCCEEDED: 16}
    network.heal("north", "provider")


async def test_redis_is_cut_off_from_all_then_from_the_receivers_and_loses_everything(branch: Branch) -> None:
    network = branch.network
    await everybody(branch)
    calls = await branch.calls(18)
    await decided(branch, calls[:3])
    assert await branch.ended(calls[:3]) == {State.SUCCEEDED: 3}
    with network.redis.client() as client:
        assert client.keys("rq:*"), "hints go through Redis"
    network.cut("queue")
    await decided(branch, calls[3:8])
    assert await branch.ended(calls[:8]) == {State.SUCCEEDED: 8}
    network.heal("queue")
    network.redis.flush()
    for name in ("east", "west"):
        network.cut("queue", name)
    await decided(branch, calls[8:13])
    network.redis.flush()
    assert await branch.ended(calls[:13]) == {State.SUCCEEDED: 13}
    for name in ("east", "west"):
        network.heal("queue", name)
    await decided(branch, calls[13:])
    assert await branch.ended(calls) == {State.SUCCEEDED: 18}
    assert {each.status for each in branch.tries} == {204}, "nobody waits for Redis"
    assert median(each.took_s for each in branch.tries) < 1


async def test_who_falls_silent_while_it_holds_the_turn_loses_it(branch: Branch) -> None:
    await everybody(branch)
    calls = await branch.calls(6)
    await silent(branch, calls[:3], is_stopped=True)
    await silent(branch, calls[3:], is_stopped=False)
    assert await branch.ended(calls) == {State.SUCCEEDED: 6}


async def silent(branch: Branch, calls: list[Execution], *, is_stopped: bool) -> None:
    """Stop a process that holds the turn, or cut it off, and have calls decided meanwhile."""
    network = branch.network
    host = network.hosts["client"]
    holder = await warm.start(
        "script", str(TESTS / "contract" / "holder.py"), network.url(branch.database),
        env=clean_environment() | {"PYTHONPATH": str(TESTS)}, stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
        namespaces=host.namespaces,
    )  # fmt: skip
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    if is_stopped:
        holder.send_signal(signal.SIGSTOP)
    else:
        network.cut("client", network.primary_on)
    await decided(branch, calls)
    network.heal_all()
    holder.send_signal(signal.SIGCONT)
    await holder.communicate(b"\n")
    assert holder.returncode != 0, "what it was about to commit was refused"


async def test_a_start_that_no_standby_has_is_not_run_before_one_has_it(branch: Branch) -> None:
    network, primary = branch.network, branch.network.primary
    await branch.receiver("east")
    delayed = {"WAKEGATE_TEST_FAULT": "store.commit:attempts.start=delay:4", "WAKEGATE_LEASE_SECONDS": "30"}
    await branch.worker("north", **delayed)
    (call,) = await branch.calls(1)
    await branch.decide(call)
    await eventually(lambda: primary.ask(UNCOMMITTED) == 1, PATIENCE_S)
    network.cut(network.primary_on, network.standby_on)
    await eventually(lambda: primary.ask(CANCELLED) >= 1, PATIENCE_S)
    await eventually(lambda: "the start's answer is lost" in branch.log("north"), PATIENCE_S)
    assert (await branch.store.execution(call.execution_id)).state is State.STARTED, "it can be read"
    await eventually(lambda: primary.ask(WAITING) >= 1, PATIENCE_S)
    assert branch.desk.effects == []
    network.heal(network.primary_on, network.standby_on)
    counted = await branch.ended([call])
    assert counted[State.SUCCEEDED] + counted[State.LAPSED] == 1, counted  # it lapses if that took too long


async def test_the_network_parts_and_the_synchronous_standby_is_promoted(branch: Branch) -> None:
    network, lost = branch.network, branch.network.primary_on
    await everybody(branch)
    calls = await branch.calls(16)
    deciding = asyncio.create_task(decided(branch, calls))
    await eventually(lambda: len(branch.acknowledged) >= 4, PATIENCE_S)
    network.part([lost, "west", "north"], [network.standby_on, "east", "south"])
    await asyncio.sleep(1.0)
    old = network.promote()
    await branch.look()
    await deciding
    counted = await branch.ended(calls)
    assert counted[State.SUCCEEDED] + counted[State.IN_DOUBT] + counted[State.LAPSED] == 16, counted

    # The former primary was told nothing, and who was connected to it stays with it when all is whole again.
    network.heal_all()
    missing = branch.notification(calls[0])
    assert not await branch.attempt("west", missing), "nothing is promised that no standby has"
    await eventually(lambda: branch.attempt("east", branch.notification(calls[1])), PATIENCE_S)
    assert (await branch.ended(calls)).keys() <= counted.keys(), "and nothing has started again"

    # What an operator must never do: let it commit alone. There are two stores then, and this test would notice.
    await branch.stop("north")
    old.set_synchronous("")
    await eventually(lambda: branch.attempt("west", missing), PATIENCE_S)
    assert missing.headers["webhook-id"] not in await branch.on_record()

    # What an operator must do: end it. Who was connected to it finds the new one.
    old.kill()
    await eventually(lambda: branch.attempt("west", missing), PATIENCE_S)
    await branch.stop("south")
    await branch.worker("north")
    more = await branch.calls(2)
    await decided(branch, more)
    await branch.ended([*calls, *more])


async def test_a_standby_without_the_last_commits_is_promoted(branch: Branch) -> None:
    network, peer = branch.network, branch.peer
    network.primary.set_synchronous("")
    await everybody(branch)
    before, ran, told = await branch.calls(3)
    await branch.decide(before)
    assert await branch.ended([before]) == {State.SUCCEEDED: 1}
    assert network.standby is not None
    network.primary.wait_until_caught_up(network.standby)
    network.cut(network.primary_on, network.standby_on)
    event = branch.notification(ran)
    peer.approve(peer.requests[peer.keys[ran.idempotency_key]])
    await branch.deliver(event)
    await branch.deliver(branch.notification(told))  # a request that the provider says is pending yet
    (unknown,) = await branch.calls(1)
    await branch.decide(unknown)
    assert await branch.ended([before, ran, unknown]) == {State.SUCCEEDED: 3}
    network.cut(network.primary_on)
    await branch.stop()
    network.promote()
    network.primary.create_database("unraised", template=branch.database)

    # The operator raises the epoch before the services run again.
    there = {"WAKEGATE_DATABASE": network.primary.url(branch.database)}
    said = await asyncio.to_thread(run, branch.folder, "db", "promoted", "--yes", settings=there)
    assert (said.code, said.out.splitlines()[1][:18]) == (0, "2 calls had not st"), said
    await branch.look()
    lost = branch.acknowledged - await branch.on_record()
    assert len(lost) == 3, "the notifications that were acknowledged since are lost with the commits"
    await everybody(branch)
    peer.approve(peer.requests[peer.keys[told.idempotency_key]])
    await branch.deliver(event)  # the provider repeats it
    await branch.deliver(branch.notification(told))
    repeated = await branch.desk.save(idempotency_key=unknown.idempotency_key)  # and the harness its call
    assert repeated.execution_id != unknown.execution_id
    held = [
        await branch.desk.when(each.execution_id, lambda found: found.problem == OLDER_EPOCH, PATIENCE_S)
        for each in (ran, told, repeated)
    ]
    await asyncio.sleep(1.5)  # three sweeps of each worker
    assert [(await branch.store.execution(each.execution_id)).state for each in held] == [State.WAITING] * 3
    assert sorted(branch.desk.effects) == sorted(each.execution_id for each in (before, ran, unknown))

    # And releases what is known, from outside, not to have run; what has run is abandoned.
    now = clock.now()
    await branch.store.release_held(told.execution_id, actor="operator", note="the bank has no such refund", at=now)
    for each in (ran, repeated):
        await branch.store.abandon(each.execution_id, "it has run", "operator", now)
    await branch.until(told, State.SUCCEEDED)
    await branch.stop()
    once = [each.execution_id for each in (before, ran, unknown, told)]
    assert sorted(branch.desk.effects) == sorted(once)

    # The danger is real: in the same store without a new epoch, the repeated event starts the call again.
    await branch.look("unraised")
    await everybody(branch)
    await branch.deliver(event)
    await branch.until(ran, State.SUCCEEDED)
    assert sorted(branch.desk.effects) == sorted([*once, ran.execution_id])
