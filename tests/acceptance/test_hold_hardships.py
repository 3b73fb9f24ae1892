"""What may happen to a hold: each harness a process of its own, the embedded provider over HTTP, real workers.

Whatever happens, the refund is made at most once, counted in a file outside wakegate.
"""

import asyncio
import re
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support import warm
from support.clocks import SetApart
from support.front import Front, PassOn, cut
from support.house import House, house, house_with_site
from support.processes import clean_environment
from support.services import Site
from support.workers import eventually
from wakegate_adapter import State
from wakegate_schema import timestamps
from wakegate_schema.clock import MINUTE
from wakegate_schema.records import Execution

HOLDER = Path(__file__).parents[1] / "support" / "holder.py"
PATIENCE_S = 90.0


@pytest.fixture
async def polled(tmp_path: Path) -> AsyncIterator[House]:
    """A house whose instance has no webhook; at its end at most one refund was made."""
    async with house(tmp_path) as found:
        yield found
        assert len(found.ledger.lines) <= 1


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[tuple[House, Site]]:
    """A house whose instance has a webhook, with a receiver of its own process; at most one refund was made."""
    async with house_with_site(tmp_path) as found:
        yield found
        assert len(found[0].ledger.lines) <= 1


@asynccontextmanager
async def holder(
    house: House, *, where: str = "", seconds: float = 0, limit: float = 120, changes: dict[str, str] | None = None
) -> AsyncIterator[Process]:
    """Hold a call in a process, its environment changed so; killed at the end if it still runs."""
    words = (where or house.database, "run-1", house.ledger.path, seconds, limit)
    process = await warm.start(
        "script", str(HOLDER), *map(str, words),
        stdin=DEVNULL, stdout=PIPE, env=clean_environment() | (changes or {}),
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def said(process: Process) -> str:
    """The next line that a holder says; empty once it has ended."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        return (await process.stdout.readline()).decode().strip()


async def outcome(process: Process) -> str:
    """The state in which the holder's call ended."""
    while line := await said(process):
        if line.startswith("ended "):
            return line.split()[1]
    raise AssertionError("it ended without a word")


async def only(house: House, *states: State) -> Execution:
    """The one call, in one of these states."""
    ((_, found),) = await house.desk.store.executions()
    return await house.desk.until(found.execution_id, *states, seconds=PATIENCE_S)


async def given_up(house: House, request_id: str | None = None) -> Execution:
    """The one call once it is abandoned, and its request is cancelled."""
    found = await only(house, State.ABANDONED)
    if request_id is not None:
        await house.status(request_id, "cancelled", PATIENCE_S)
    return found


# The worker


async def test_a_worker_that_dies_during_the_wait_is_missed_only_until_another_is_there(polled: House) -> None:
    async with holder(polled) as harness:
        async with polled.desk.process() as worker:
            await polled.request()
            await only(polled, State.WAITING)
            worker.kill()
            await worker.wait()
        await polled.review("approve")
        await asyncio.sleep(0.5)
        assert polled.ledger.lines == []
        async with polled.desk.process():
            assert await outcome(harness) == State.SUCCEEDED
    assert len(polled.ledger.lines) == len(polled.requests) == 1


async def test_a_worker_that_dies_while_it_submits_submits_nothing_twice(polled: House) -> None:
    async with holder(polled) as harness:
        async with polled.desk.process(WAKEGATE_TEST_FAULT="http_out.answered:submit=kill") as worker:
            await worker.wait()
        assert len(polled.requests) == 1
        async with polled.desk.process():
            await only(polled, State.WAITING)
            await polled.review("approve")
            assert await outcome(harness) == State.SUCCEEDED
    assert len(polled.ledger.lines) == len(polled.requests) == 1


async def test_without_any_worker_the_approval_could_not_be_obtained_and_is_not_called_denied(polled: House) -> None:
    async with holder(polled, limit=1) as harness:
        line = await said(harness)
    assert re.match(r"ended abandoned wait_limit \| .*could not be obtained", line)
    assert "den" not in line.partition("|")[2].lower()
    async with polled.desk.worker():
        assert await polled.quiet() == []
    assert polled.front.asked == [], "what was given up before anybody heard of it is not submitted later"


# The provider


class Away:
    """A provider that cannot be reached while this says so."""

    def __init__(self, front: Front) -> None:
        self.away = True
        front.interference = self

    async def __call__(self, request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        return cut(request) if self.away else await pass_on()


@pytest.mark.parametrize("back", ["submission", "read"])
async def test_a_provider_that_is_down_is_waited_for(polled: House, back: str) -> None:
    away = Away(polled.front)
    away.away = back == "submission"
    async with holder(polled) as harness, polled.desk.worker():
        if back == "read":
            await only_saved(polled)
            await only(polled, State.WAITING)
            away.away = True
        await eventually(lambda: len(polled.front.asked) >= 2, PATIENCE_S)
        await asyncio.sleep(0.3)
        away.away = False
        await polled.review("approve")
        assert await outcome(harness) == State.SUCCEEDED
    assert len(polled.ledger.lines) == len(polled.requests) == 1


async def only_saved(house: House) -> None:
    """Wait until the call is on record."""

    async def is_there() -> bool:
        return bool(await house.desk.store.executions())

    await eventually(is_there, PATIENCE_S)


async def test_a_provider_that_stays_down_gives_no_decision_and_no_denial(polled: House) -> None:
    Away(polled.front)
    async with polled.desk.worker(), holder(polled, limit=2) as harness:
        line = await said(harness)
        assert await polled.quiet() == []
    assert re.match(r"ended abandoned wait_limit \| .*could not be obtained", line)
    assert "den" not in line.partition("|")[2].lower()


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_provider_that_asks_for_patience_gets_it(polled: House, method: str) -> None:
    told_at: list[float] = []
    again_at: list[float] = []

    async def busy(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        if request.method != method:
            return await pass_on()
        if not told_at:
            told_at.append(time.monotonic())
            body = {"error": {"type": "rate_limit", "code": "too_many", "message": "later", "request_id": "r"}}
            return web.json_response(body, status=429, headers={"Retry-After": "2"})
        again_at.append(time.monotonic())
        return await pass_on()

    polled.front.interference = busy
    async with holder(polled) as harness, polled.desk.worker():
        await polled.request(PATIENCE_S)
        await eventually(lambda: bool(told_at), PATIENCE_S)
        await polled.review("approve")
        assert await outcome(harness) == State.SUCCEEDED
    assert again_at[0] - told_at[0] >= 1.9
    assert len(polled.ledger.lines) == len(polled.requests) == 1


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_answers_that_are_lost_are_asked_for_again(polled: House, method: str) -> None:
    lost = 0

    async def lose(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        nonlocal lost
        answer = await pass_on()
        if request.method == method and lost < 2:
            lost += 1
            return cut(request)
        return answer

    polled.front.interference = lose
    async with holder(polled) as harness, polled.desk.worker():
        await polled.request(PATIENCE_S)
        await polled.review("approve")
        assert await outcome(harness) == State.SUCCEEDED
    assert (lost, len(polled.ledger.lines), len(polled.requests)) == (2, 1, 1)


# The harness


@pytest.mark.parametrize(("word", "reason"), [(signal.SIGKILL, "hold_lost"), (signal.SIGINT, "hold_interrupted")])
async def test_a_harness_that_ends_while_it_waits_gives_the_call_up_and_has_its_request_cancelled(
    polled: House, word: signal.Signals, reason: str
) -> None:
    async with polled.desk.worker(), holder(polled) as harness:
        request_id = (await polled.request(PATIENCE_S))["request_id"]
        await only(polled, State.WAITING)
        harness.send_signal(word)
        await harness.wait()
        assert (await given_up(polled, request_id)).reason == reason
    assert polled.ledger.lines == []


@pytest.mark.parametrize(
    ("fault", "state", "reason"),
    [
        ("store.begin:attempts.claim=kill", State.ABANDONED, "hold_lost"),
        ("store.committed:attempts.claim=kill", State.IN_DOUBT, "lease_lost"),
    ],
)
async def test_a_harness_that_is_killed_between_the_permission_and_the_call_makes_no_call(
    polled: House, fault: str, state: State, reason: str
) -> None:
    async with polled.desk.worker(), holder(polled, changes={"WAKEGATE_TEST_FAULT": fault}) as harness:
        await polled.review("approve")
        assert await said(harness) == ""
        assert await harness.wait() == -signal.SIGKILL
        found = await only(polled, state)
        assert found.reason == reason
        async with holder(polled) as again:
            assert await outcome(again) == state, "and the key says what became of it"
    assert polled.ledger.lines == []


@pytest.mark.parametrize(("word", "reason"), [(signal.SIGKILL, "lease_lost"), (signal.SIGINT, "tool_cancelled")])
async def test_a_harness_that_ends_while_the_call_runs_leaves_it_in_doubt_and_nobody_repeats_it(
    polled: House, word: signal.Signals, reason: str
) -> None:
    async with polled.desk.worker(), holder(polled, seconds=60) as harness:
        await polled.review("approve")
        assert await said(harness) == "started"
        harness.send_signal(word)
        await harness.wait()
        found = await only(polled, State.IN_DOUBT)
        assert found.reason == reason
        async with holder(polled) as again:
            assert await outcome(again) == State.IN_DOUBT
        assert len(await polled.quiet()) == 1


async def test_of_two_processes_that_hold_one_call_one_makes_it(polled: House) -> None:
    async with AsyncExitStack() as stack:
        holders = [await stack.enter_async_context(holder(polled)) for _ in range(2)]
        await stack.enter_async_context(polled.desk.worker())
        await polled.request(PATIENCE_S)
        ended = [asyncio.create_task(outcome(each)) for each in holders]
        done, waiting = await asyncio.wait(ended, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result() for each in done] == ["held_elsewhere"]
        await polled.review("approve")
        assert [await each for each in waiting] == [State.SUCCEEDED]
        async with holder(polled) as again:
            assert await outcome(again) == State.SUCCEEDED
    assert len(polled.ledger.lines) == len(polled.requests) == 1


async def test_a_second_holder_does_not_take_over_from_one_that_was_killed(polled: House) -> None:
    """The key's call is given up, and stays so: an attempt anew needs a new key."""
    async with polled.desk.worker():
        async with holder(polled) as first:
            await polled.request(PATIENCE_S)
            first.kill()
            await first.wait()
        request_id = polled.requests[0]["request_id"]
        await given_up(polled, request_id)
        async with holder(polled) as second:
            assert await outcome(second) == State.ABANDONED
    assert polled.ledger.lines == []


# The receiver


@pytest.mark.parametrize("way", ["over the store", "over the control socket"])
async def test_a_receiver_that_is_restarted_during_the_wait_is_missed_by_nobody(
    apart: tuple[House, Site], way: str
) -> None:
    house, site = apart
    listen = str(site.settings.listen)
    where = str(site.settings.control_address) if way == "over the control socket" else ""
    async with house.desk.worker(), AsyncExitStack() as stack:
        async with site.receiving(WAKEGATE_LISTEN=listen) as receiver:
            harness = await stack.enter_async_context(holder(house, where=where))
            await house.request(PATIENCE_S)
            await only(house, State.WAITING)
            receiver.kill()
            await receiver.wait()
        await house.review("approve")  # while nobody listens: it is delivered again
        async with site.receiving(WAKEGATE_LISTEN=listen):
            assert await outcome(harness) == State.SUCCEEDED
            await house.notified(PATIENCE_S)
    assert len(house.ledger.lines) == 1


# Time


@pytest.mark.parametrize("seconds", [1, 3, 5])
async def test_near_the_approvals_end_a_call_begins_before_it_or_not_at_all(polled: House, seconds: int) -> None:
    async with polled.desk.worker(), holder(polled) as harness:
        await polled.review("approve", expires_in=f"{seconds}s")
        state = await outcome(harness)
        expires_at = timestamps.parse(polled.requests[0]["expires_at"])
        effects: list[Any] = await polled.quiet()
    assert [effect["at"] < expires_at for effect in effects] == [True] * len(effects)
    assert (state == State.SUCCEEDED) == bool(effects)
    assert effects == [] or seconds > 2, "less than two seconds before the end nothing begins"
    assert state in (State.SUCCEEDED, State.LAPSED, State.ABANDONED)


@pytest.mark.parametrize(
    ("offset", "worker_too", "limit", "state"),
    [
        (-4 * MINUTE, False, 5, State.ABANDONED),  # to the worker, its hold has run out
        (4 * MINUTE, False, 5, State.ABANDONED),  # to the worker, it is not due yet
        (-4 * MINUTE, True, 12, State.ABANDONED),  # to both, the decision is of the future
        (4 * MINUTE, True, 120, State.SUCCEEDED),
    ],
)
async def test_while_clocks_are_apart_a_call_runs_once_or_is_given_up(
    polled: House, tmp_path: Path, offset: int, worker_too: bool, limit: float, state: State
) -> None:
    """A harness's clock, alone or with the worker's, is minutes off; the approval lasts long by every clock."""
    apart = SetApart(tmp_path)
    apart.apart(offset)
    environment = apart.environment if worker_too else {}
    async with polled.desk.process(**environment), holder(polled, limit=limit, changes=apart.environment) as harness:
        if worker_too:
            await polled.review("approve", expires_in="1h")
        assert await outcome(harness) == state
        assert len(await polled.quiet()) == (state is State.SUCCEEDED)


async def test_by_a_clock_past_the_approvals_end_nothing_begins(polled: House, tmp_path: Path) -> None:
    apart = SetApart(tmp_path)
    async with polled.desk.worker(), holder(polled, changes=apart.environment) as harness:
        await polled.request(PATIENCE_S)
        apart.apart(4 * MINUTE)
        await polled.review("approve", expires_in="2m")
        assert await outcome(harness) in (State.ABANDONED, State.LAPSED)
        assert await polled.quiet() == []
