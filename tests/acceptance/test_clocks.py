"""Clocks that are slow, fast, set back or standing still, in real receivers, workers and harnesses.

Whatever a clock shows: nothing starts after its approval has ended by this host's clock or the provider's, and
nothing starts twice. What a wrong clock keeps from going on is held and not lost.
"""

import asyncio
import os
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from agentapprovalprotocol.receiver import sign
from aiohttp import web

from support import warm
from support.aap_peer import Peer
from support.clocks import SetApart
from support.console import Ran, run
from support.deliveries import Delivery
from support.desk import new_id
from support.services import Site, lines_of, site_in
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock, timestamps
from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND
from wakegate_schema.records import Execution
from wakegate_schema.states import State

HARNESS = Path(__file__).parents[1] / "support" / "harness.py"


@pytest.fixture
async def site(tmp_path: Path, peer: Peer) -> AsyncIterator[Site]:
    """Receiver and worker to be, on one store."""
    async with site_in(tmp_path, tmp_path, peer) as made:
        yield made


@pytest.fixture
def apart(tmp_path: Path) -> SetApart:
    """The clock of the processes that are given its environment; right until it is set."""
    return SetApart(tmp_path)


async def wakegate(directory: Path, *arguments: str, **settings: str) -> Ran:
    return await asyncio.to_thread(run, directory, *arguments, settings=settings)


async def held(desk: WorkerDesk, execution_id: str, problem: str) -> Execution:
    """Wait until a problem keeps the execution from going on, and see that it has not run."""
    found = await desk.when(execution_id, lambda execution: execution.problem == problem)
    assert found.state is State.WAITING
    assert desk.effects == []
    return found


async def stir(desk: WorkerDesk) -> None:
    """Commit something: whoever sleeps until a time looks at its clock again."""
    await desk.store.probe()


def approving(lasting: float) -> Any:
    """Approve each request in the answer to its submission, for so many seconds."""
    return lambda peer, request: peer.approve(request, lasting=lasting)


# Receipt


async def test_the_receiver_takes_five_minutes_either_way_to_the_second(site: Site, apart: SetApart) -> None:
    at = clock.now() // SECOND
    apart.frozen(at * SECOND)
    async with site.receiving(**apart.environment):
        answers = {
            off: (await site.post(site.sender.notification(at=at + off))).status for off in (-301, -300, 0, 300, 301)
        }
        in_milliseconds = await site.post(stamped(site, site.sender.notification(at=at), at * 1000))
    assert answers == {-301: 401, -300: 204, 0: 204, 300: 204, 301: 401}
    assert in_milliseconds.status == 401


def stamped(site: Site, delivery: Delivery, timestamp: int) -> Delivery:
    """Sign a delivery for another time."""
    signature = sign(site.registered.secret.reveal(), delivery.headers["webhook-id"], timestamp, delivery.body)
    return delivery.with_headers(webhook_timestamp=str(timestamp), webhook_signature=signature)


@pytest.mark.parametrize(("offset", "status"), [(-6, 401), (-4, 204), (4, 204), (6, 401)])
async def test_a_receiver_whose_clock_is_off_by_more_than_five_minutes_acknowledges_nothing(
    site: Site, apart: SetApart, offset: int, status: int
) -> None:
    apart.apart(offset * MINUTE)
    async with site.receiving(**apart.environment):
        reply = await site.post(site.sender.notification())
        assert reply.status == status
        apart.right()
        assert (await site.post(site.sender.notification())).status == 204
    assert len(await site.recorded()) == 1 + (status == 204)


@pytest.mark.parametrize("name", ["TOLERANCE", "TOLERANCE_SECONDS", "TIMESTAMP_TOLERANCE"])
async def test_a_tolerance_that_somebody_sets_stops_the_start(tmp_path: Path, name: str) -> None:
    ran = await wakegate(tmp_path, "receiver", **{f"WAKEGATE_{name}": "300"})
    assert ran.code == 2
    assert f"WAKEGATE_{name}: unknown setting" in ran.err


async def test_an_old_event_is_taken_when_its_attempt_is_new(site: Site) -> None:
    long_ago = timestamps.render(clock.now() - 7 * DAY)
    async with site.receiving():
        assert (await site.post(site.sender.notification(created_at=long_ago))).status == 204


@pytest.mark.parametrize(("lasting", "state"), [(2 * 3600, State.SUCCEEDED), (1800, State.LAPSED)])
async def test_an_accepted_event_is_acted_on_an_hour_later_if_its_approval_still_holds(
    site: Site, peer: Peer, apart: SetApart, lasting: float, state: State
) -> None:
    desk = site.worker
    saved = await desk.save()
    async with site.receiving():
        async with site.working():
            waiting = await desk.until(saved.execution_id, State.WAITING)
        peer.approve(peer.only(), lasting=lasting)
        assert (await site.post(site.sender.notification(waiting.request_id))).status == 204
    apart.apart(HOUR)
    async with site.working(**apart.environment):
        assert (await desk.settled(saved.execution_id)).state is state
    assert len(desk.effects) == (state is State.SUCCEEDED)


async def test_a_process_that_does_not_go_by_its_hosts_clock_says_so(site: Site, apart: SetApart) -> None:
    async with site.receiving(**apart.environment), site.working(**apart.environment):
        await eventually(lambda: bool(lines_of(site.worker.logs, "ready")))
    for log in (site.receiver_log, site.worker.logs):
        assert [line["level"] for line in lines_of(log, "test_clock")] == ["warning"]


# A slow clock


async def test_with_a_clock_some_minutes_slow_a_decision_is_held_until_its_time_and_then_runs(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    peer.at_submission = approving(1800)
    apart.apart(-4 * MINUTE)
    saved = await site.worker.save(at=clock.now() - 4 * MINUTE)
    async with site.working(**apart.environment):
        await held(site.worker, saved.execution_id, "time_ahead")
        apart.right()
        await stir(site.worker)
        assert (await site.worker.settled(saved.execution_id)).state is State.SUCCEEDED
    assert site.worker.effects == [saved.execution_id]


async def test_with_a_clock_an_hour_slow_nothing_runs_and_nothing_is_refused(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    peer.at_submission = approving(1800)
    apart.apart(-HOUR)
    saved = await site.worker.save(at=clock.now() - HOUR)
    async with site.receiving(**apart.environment), site.working(**apart.environment):
        left = await held(site.worker, saved.execution_id, "clock_behind")
        assert (await site.post(site.sender.notification(left.request_id))).status == 401
        apart.right()
        await stir(site.worker)
        assert (await site.worker.settled(saved.execution_id)).state is State.SUCCEEDED
    assert site.worker.effects == [saved.execution_id]


async def test_with_a_slow_clock_an_approval_ends_by_the_providers(site: Site, peer: Peer, apart: SetApart) -> None:
    peer.at_submission = approving(3)
    apart.apart(-HOUR)
    saved = await site.worker.save(at=clock.now() - HOUR)
    async with site.working(**apart.environment):
        await held(site.worker, saved.execution_id, "clock_behind")
        done = await site.worker.until(saved.execution_id, State.LAPSED, seconds=40)
    assert done.reason == "approval_expired"
    assert site.worker.effects == []


# A fast clock


async def test_with_a_fast_clock_an_approval_that_has_ended_by_it_does_not_run(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    peer.at_submission = approving(300)
    apart.apart(10 * MINUTE)
    saved = await site.worker.save()
    async with site.working(**apart.environment):
        done = await site.worker.settled(saved.execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "approval_expired")
    assert site.worker.effects == []


async def test_with_a_fast_clock_an_approval_that_holds_by_both_clocks_runs_once(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    apart.apart(4 * MINUTE)
    saved = await site.worker.save(at=clock.now() + 4 * MINUTE)
    async with site.receiving(**apart.environment), site.working(**apart.environment):
        waiting = await site.worker.until(saved.execution_id, State.WAITING)
        peer.approve(peer.only(), lasting=1800)
        assert (await site.post(site.sender.notification(waiting.request_id))).status == 204
        assert (await site.worker.settled(saved.execution_id)).state is State.SUCCEEDED
    assert site.worker.effects == [saved.execution_id]


async def test_a_receiver_whose_clock_is_fast_puts_nothing_off_for_a_worker_whose_clock_is_right(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    apart.apart(4 * MINUTE)
    saved = await site.worker.save()
    async with site.receiving(**apart.environment), site.working():
        waiting = await site.worker.until(saved.execution_id, State.WAITING)
        peer.approve(peer.only(), lasting=1800)
        event = site.sender.notification(waiting.request_id, created_at=peer.only()["decision"]["decided_at"])
        assert (await site.post(event)).status == 204
        assert (await site.worker.settled(saved.execution_id)).state is State.SUCCEEDED
    assert site.worker.effects == [saved.execution_id]


# A clock that is set


async def test_a_clock_set_back_starts_nothing_until_it_has_caught_up(site: Site, peer: Peer, apart: SetApart) -> None:
    desk = site.worker
    peer.at_submission = approving(1800)
    async with site.working(**apart.environment):
        first = await desk.save(idempotency_key=new_id())
        assert (await desk.settled(first.execution_id)).state is State.SUCCEEDED
        apart.apart(-MINUTE)
        second = await desk.save(idempotency_key=new_id(), at=clock.now() - MINUTE)
        peer.at_submission = lambda peer, request: approve_as_of(peer, request, clock.now() - MINUTE)
        found = await desk.when(second.execution_id, lambda execution: execution.problem is not None)
        assert (found.state, found.problem) == (State.WAITING, "clock_behind")
        assert desk.effects == [first.execution_id]
        behind = await wakegate(desk.directory, "clock", "show", **apart.environment)
        assert behind.code == 1
        apart.right()
        await stir(desk)
        assert (await desk.settled(second.execution_id)).state is State.SUCCEEDED
    assert desk.effects == [first.execution_id, second.execution_id]


def approve_as_of(peer: Peer, request: dict[str, Any], at: int) -> None:
    """Approve, decided at a time."""
    peer.approve(request, lasting=1800)
    request["created_at"] = timestamps.render(at - SECOND)
    request["deadline_at"] = timestamps.render(at - SECOND + timestamps.duration(request["timeout"]))
    request["decision"]["decided_at"] = timestamps.render(at)


async def test_after_a_clock_that_was_a_day_ahead_a_reset_lets_everything_go_on_without_a_restart(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    desk = site.worker
    apart.apart(DAY)
    async with site.working(**apart.environment):
        peer.at_submission = approving(2 * 86_400)
        first = await desk.save(idempotency_key=new_id())
        assert (await desk.settled(first.execution_id)).state is State.SUCCEEDED  # in time by both clocks
        peer.at_submission = None
        undecided = await desk.save(idempotency_key=new_id())
        await desk.when(
            undecided.execution_id, lambda one: one.lease_until is None and (one.due_at or 0) > clock.now() + HOUR
        )
        apart.right()
        peer.at_submission = approving(1800)
        approved = await desk.save(idempotency_key=new_id())
        found = await desk.when(approved.execution_id, lambda execution: execution.problem is not None)
        assert (found.state, found.problem) == (State.WAITING, "clock_behind")
        for request in peer.requests.values():
            if request["status"] == "pending":
                peer.approve(request, lasting=1800)
        assert desk.effects == [first.execution_id]
        reset = await wakegate(desk.directory, "clock", "reset", "--by", "Ada", **apart.environment)
        assert reset.code == 0, reset.err
        for execution in (undecided, approved):
            assert (await desk.settled(execution.execution_id, seconds=30)).state is State.SUCCEEDED
    assert sorted(desk.effects) == sorted(one.execution_id for one in (first, undecided, approved))


async def test_a_clock_that_steps_forward_while_a_call_runs_starts_it_nowhere_else(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    desk = site.worker
    peer.at_submission = approving(3600)
    saved = await desk.save(tool="take_three_seconds")
    async with site.working(**apart.environment):
        await eventually(lambda: desk.effects == [saved.execution_id])
        async with site.working(**apart.environment):
            apart.apart(10 * MINUTE)
            await desk.until(saved.execution_id, State.IN_DOUBT)
            done = await desk.until(saved.execution_id, State.SUCCEEDED, State.FAILED)
    assert (done.state, done.reason) == (State.SUCCEEDED, "returned")
    assert (await desk.passed(saved.execution_id))[-3:] == ["started", "in_doubt", "succeeded"]
    assert desk.effects == [saved.execution_id]


async def test_two_workers_whose_clocks_are_ten_minutes_apart_start_no_call_twice(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    desk = site.worker
    peer.at_submission = approving(3600)
    apart.apart(10 * MINUTE)
    saved = [await desk.save(tool="take_a_tenth", idempotency_key=new_id()) for _ in range(20)]
    few = {"WAKEGATE_WORKER_CONCURRENCY": "2"}
    async with site.working(**few), site.working(**few, **apart.environment):
        for execution in saved:
            done = await desk.until(
                execution.execution_id, State.SUCCEEDED, State.FAILED, State.LAPSED, State.REFUSED, seconds=60
            )
            assert done.state is State.SUCCEEDED
    assert sorted(desk.effects) == sorted(execution.execution_id for execution in saved)


# A clock that stands still


async def test_with_a_clock_that_stands_still_a_call_runs_once_and_others_wait_for_their_time(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    desk = site.worker
    apart.frozen(clock.now() + 5 * SECOND)
    peer.at_submission = approving(1800)
    runs = await desk.save(idempotency_key=new_id())
    async with site.working(**apart.environment):
        assert (await desk.settled(runs.execution_id)).state is State.SUCCEEDED
        apart.frozen(clock.now() - MINUTE)
        peer.at_submission = lambda peer, request: approve_as_of(peer, request, clock.now() - 2 * MINUTE)
        waits = await desk.save(idempotency_key=new_id(), at=clock.now() - 2 * MINUTE)
        found = await desk.when(waits.execution_id, lambda execution: execution.problem is not None)
        assert found.problem == "clock_behind"
        await asyncio.sleep(1.0)
        assert desk.effects == [runs.execution_id]
        apart.right()
        await stir(desk)
        assert (await desk.settled(waits.execution_id, seconds=30)).state is State.SUCCEEDED
    assert desk.effects == [runs.execution_id, waits.execution_id]


async def test_with_a_clock_that_stands_still_an_approval_ends_by_the_providers(
    site: Site, peer: Peer, apart: SetApart
) -> None:
    desk = site.worker
    still = clock.now() + 4 * SECOND
    apart.frozen(still)
    saved = await desk.save()
    async with site.working(**apart.environment):
        waiting = await desk.until(saved.execution_id, State.WAITING)
        peer.approve(peer.only(), lasting=max(0, still - clock.now()) / SECOND + 1.5)
        expires_at = timestamps.parse(peer.only()["decision"]["expires_at"])
        assert expires_at > still  # by the worker's clock it never ends
        while clock.now() < expires_at + SECOND:
            await asyncio.sleep(0.05)
        changes = {"registration_id": site.registered.registration_id, "created_at": still, "received_at": still}
        await desk.notify(waiting.request_id or "", **changes)
        done = await desk.settled(saved.execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "approval_expired")
    assert desk.effects == []


# The provider's clock


def dating(peer: Peer, offset: float) -> None:
    """Let the peer's answers have a Date that is off by so many seconds."""

    async def answer(request: web.Request) -> web.StreamResponse | None:
        if request.path.endswith("/consume"):
            return None
        known = peer.requests.get(request.path.rpartition("/")[2]) or peer.only()
        return web.json_response(known, headers={"Date": formatdate(clock.now() / SECOND + offset, usegmt=True)})

    peer.interference = answer


@pytest.mark.parametrize(
    ("offset", "state"),
    [(600, State.LAPSED), (240, State.SUCCEEDED), (-240, State.SUCCEEDED), (-86_400, State.SUCCEEDED)],
)
async def test_a_provider_whose_date_is_off_can_only_end_an_approval_sooner(
    site: Site, peer: Peer, offset: float, state: State
) -> None:
    peer.at_submission = approving(300)
    dating(peer, offset)
    saved = await site.worker.save()
    async with site.working():
        assert (await site.worker.settled(saved.execution_id)).state is state
    assert len(site.worker.effects) == (state is State.SUCCEEDED)


async def test_a_later_end_in_a_later_answer_is_not_taken(site: Site, peer: Peer) -> None:
    desk = site.worker
    peer.at_submission = approving(20)
    saved = await desk.save(tool="decline", arguments=b"{}")
    async with site.working():
        left = await held(desk, saved.execution_id, "arguments_do_not_fit")
        assert left.expires_at == timestamps.parse(peer.only()["decision"]["expires_at"])
        peer.only()["decision"]["expires_at"] = timestamps.render(clock.now() + DAY)
        done = await desk.settled(saved.execution_id, seconds=30)
    assert (done.state, done.reason) == (State.REFUSED, "decision_differs")
    assert done.expires_at == left.expires_at


# A harness's clock


@asynccontextmanager
async def harness(site: Site, apart: SetApart, *words: object) -> AsyncIterator[Process]:
    """Run a harness in a process of its own."""
    process = await warm.start(
        "script", str(HARNESS), site.settings.database, *map(str, words),
        stdin=PIPE, stdout=PIPE, env={**os.environ, **apart.environment},
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: Process) -> str:
    """The next line that a harness says."""
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()


async def last_word(process: Process) -> str:
    """What a harness says at its end: the state of its call."""
    return (await asyncio.wait_for(process.communicate(), 30))[0].decode().split()[-1]


@pytest.mark.parametrize("step", [-10 * MINUTE, 10 * MINUTE])
async def test_a_hold_whose_clock_is_set_while_it_waits_is_given_up(
    site: Site, peer: Peer, apart: SetApart, step: int
) -> None:
    ledger = site.folder / "ledger"
    ledger.touch()
    async with site.working(), harness(site, apart, "hold", "run-1", ledger, "0") as holder:
        await peer.submitted()
        apart.apart(step)
        assert await last_word(holder) == State.ABANDONED
        peer.approve(peer.only(), lasting=1800)
        await asyncio.sleep(0.5)
    assert ledger.read_text() == ""


@pytest.mark.parametrize(("lasting", "state"), [(1800, State.SUCCEEDED), (120, State.LAPSED)])
async def test_a_hold_on_a_host_whose_clock_is_fast_runs_what_holds_by_both_clocks(
    site: Site, peer: Peer, apart: SetApart, lasting: float, state: State
) -> None:
    ledger = site.folder / "ledger"
    ledger.touch()
    peer.at_submission = approving(lasting)
    apart.apart(4 * MINUTE)
    async with site.working(**apart.environment), harness(site, apart, "hold", "run-1", ledger, "0") as holder:
        assert await last_word(holder) == state
    assert len(ledger.read_text().split()) == (state is State.SUCCEEDED)


@pytest.mark.parametrize(("lasting", "word"), [(3, "refused too_late"), (1800, "started")])
async def test_a_claim_on_a_host_whose_clock_is_slow_ends_by_the_providers(
    site: Site, peer: Peer, apart: SetApart, lasting: float, word: str
) -> None:
    desk, slow = site.worker, 4 * MINUTE

    def approve(peer: Peer, request: dict[str, Any]) -> None:
        approve_as_of(peer, request, clock.now() - slow - SECOND)
        request["decision"]["expires_at"] = timestamps.render(clock.now() + round(lasting * SECOND))

    peer.at_submission = approve
    apart.apart(-slow)
    ledger = site.folder / "ledger"
    ledger.touch()
    saved = await desk.save(runs="harness", at=clock.now() - slow)
    async with site.working(**apart.environment):
        await desk.until(saved.execution_id, State.PERMITTED)
        expires_at = timestamps.parse(peer.only()["decision"]["expires_at"])
        async with harness(site, apart, "claim", saved.execution_id, ledger, "0") as claimer:
            assert await said(claimer) == "ready"
            while lasting < 60 and clock.now() < expires_at:  # by this host's clock it lasts four minutes more
                await asyncio.sleep(0.05)
            assert claimer.stdin is not None
            claimer.stdin.write(b"go\n")
            assert await said(claimer) == word
    assert len(ledger.read_text().split()) == (word == "started")
