"""In doubt: shown first, counted, told at error level, settled in three ways, and touched by nothing else."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from support.aap_peer import Peer
from support.clocks import SetApart
from support.console import Ran, run
from support.desk import new_id
from support.doubtful_tools import GO_ON
from support.http_servers import http_server
from support.services import Site, lines_of, site_in
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock
from wakegate_schema.clock import DAY
from wakegate_schema.records import Execution
from wakegate_schema.states import State
from wakegate_worker.alarm import ALARM_EVERY_S

DOUBTFUL = {"WAKEGATE_TOOLS": "support.doubtful_tools,support.worker_tools"}


@pytest.fixture
def peer(peer: Peer) -> Peer:
    """A peer that approves at once."""
    peer.at_submission = lambda peer, request: peer.approve(request, note="go ahead")
    return peer


@pytest.fixture
async def site(tmp_path: Path, peer: Peer) -> AsyncIterator[Site]:
    """Receiver and worker to be, on one store."""
    async with site_in(tmp_path, tmp_path, peer) as made:
        yield made


async def wakegate(directory: Path, *arguments: str) -> Ran:
    return await asyncio.to_thread(run, directory, *arguments)


async def doubtful(desk: WorkerDesk, tool: str = "die_before_returning") -> Execution:
    """Put a call in doubt: its worker dies while it runs, and another finds out."""
    saved = await desk.save(tool=tool, idempotency_key=new_id())
    async with desk.process(**DOUBTFUL) as process:
        await process.wait()
    async with desk.process(**DOUBTFUL):
        return await desk.until(saved.execution_id, State.IN_DOUBT)


async def test_nothing_that_goes_on_around_it_moves_a_doubt_or_runs_it_again(desk: WorkerDesk, peer: Peer) -> None:
    left = await doubtful(desk)
    async with desk.process() as worker:
        await desk.notify(left.request_id or "")
        await desk.notify(left.request_id or "")
        peer.decide(peer.only(), "cancelled")
        await desk.store.set_credential(desk.provider, desk.instance_id, desk.sealed("tok-2"), None, clock.now())
        await desk.store.raise_epoch("copied", "operator:Ada", clock.now())
        assert (await wakegate(desk.directory, "db", "prune")).code == 0
        refused = await wakegate(desk.directory, "execution", "abandon", left.execution_id, "--reason", "old")
        assert refused.code == 1
        assert "cannot be abandoned" in refused.err
        await desk.store.prune(clock.now() + 40 * DAY, clock.now() + 40 * DAY)
        await desk.store.retire_instance(desk.provider, desk.instance_id, "operator:Ada", clock.now())
        await asyncio.sleep(1.0)
        assert worker.returncode is None
    async with desk.process():
        await asyncio.sleep(1.0)
    assert await desk.passed(left.execution_id) == [
        "saved", "submitting", "waiting", "permitted", "started", "in_doubt",
    ]  # fmt: skip
    assert desk.effects == [left.execution_id]


async def test_a_harness_is_woken_with_the_doubt_and_then_with_the_truth(desk: WorkerDesk, peer: Peer) -> None:
    told: list[tuple[str, str, str]] = []

    async def acknowledge(request: web.Request) -> web.Response:
        body = json.loads(await request.read())["data"]
        told.append((request.headers["webhook-id"], body["state"], body["reason"]))
        return web.Response(status=204)

    async with http_server(acknowledge) as harness:
        target = {"kind": "http", "url": f"{harness.url}/wake"}
        async with desk.worker(wake={"my-harness": target}):
            saved = await desk.save(tool="break_down", wake="my-harness")
            await eventually(lambda: len(told) == 1)
            settled = await wakegate(
                desk.directory, "execution", "resolve", saved.execution_id,
                "--did-not-happen", "--by", "Ada", "--note", "the bank has no such refund",
            )  # fmt: skip
            assert settled.code == 0, settled.err
            await eventually(lambda: len(told) == 2)
    assert [word[1:] for word in told] == [("in_doubt", "tool_raised"), ("failed", "resolved_did_not_happen")]
    assert told[0][0] != told[1][0]
    shown = (await wakegate(desk.directory, "execution", "show", saved.execution_id, "--json")).json
    assert shown["resolution_note"] == "the bank has no such refund"
    assert shown["transitions"][-1]["actor"] == "operator:Ada"


async def test_the_worker_tells_at_its_start_how_much_is_in_doubt_and_since_when(desk: WorkerDesk, peer: Peer) -> None:
    await doubtful(desk)
    await doubtful(desk)
    for log in desk.directory.glob("worker-*.log"):
        log.unlink()
    async with desk.process():
        await eventually(lambda: bool(lines_of(desk.logs, "in_doubt")))
        await asyncio.sleep(1.0)
    told = lines_of(desk.logs, "in_doubt")
    assert [(line["level"], line["count"]) for line in told] == [("error", 2)]
    assert 0 <= int(str(told[0]["oldest_s"])) < 120
    assert ALARM_EVERY_S == 3600


async def test_a_worker_with_nothing_in_doubt_says_nothing_of_it(desk: WorkerDesk) -> None:
    async with desk.process():
        await eventually(lambda: bool(lines_of(desk.logs, "ready")))
        await asyncio.sleep(0.5)
    assert lines_of(desk.logs, "in_doubt") == []


async def test_the_receiver_tells_how_much_is_in_doubt_and_stays_ready(site: Site) -> None:
    async with site.receiving():
        status, body = await site.ask("/readyz")
        assert (status, body["ready"], body["in_doubt"]) == (200, True, 0)
        await doubtful(site.worker)
        status, body = await site.ask("/readyz")
        assert (status, body["ready"], body["in_doubt"]) == (200, True, 1)


@pytest.mark.parametrize("tool", ["overrun_and_pay_at_the_end", "pay_at_the_end"])
async def test_no_other_worker_takes_a_call_that_still_runs_for_one_that_did_not_happen(
    desk: WorkerDesk, peer: Peer, tool: str
) -> None:
    ahead = SetApart(desk.directory)
    ahead.apart(DAY)  # to that clock every lease and every timeout is over
    saved = await desk.save(tool=tool)
    async with desk.process(**DOUBTFUL):
        await desk.until(saved.execution_id, State.STARTED, State.IN_DOUBT)
        async with desk.process(**DOUBTFUL, **ahead.environment):
            await desk.until(saved.execution_id, State.IN_DOUBT)
            done = await desk.until(saved.execution_id, State.SUCCEEDED, State.FAILED)
    assert (done.state, done.reason) == (State.SUCCEEDED, "returned")
    assert "failed" not in await desk.passed(saved.execution_id)
    assert desk.effects == [saved.execution_id]
    assert lines_of(desk.logs, "probe") == []


async def test_a_probe_is_asked_once_the_worker_of_a_hung_call_is_gone(desk: WorkerDesk, peer: Peer) -> None:
    saved = await desk.save(tool="overrun_for_ever")
    async with desk.process(**DOUBTFUL) as hung:
        left = await desk.until(saved.execution_id, State.IN_DOUBT)
        assert left.reason == "tool_still_running"
        async with desk.process(**DOUBTFUL):
            await asyncio.sleep(4.0)  # two leases
            assert (await desk.store.execution(saved.execution_id)).state is State.IN_DOUBT
            hung.send_signal(signal.SIGKILL)
            done = await desk.until(saved.execution_id, State.FAILED, seconds=30)
    assert done.reason == "probe_found_nothing"
    assert desk.effects == []


async def test_a_word_that_comes_after_a_persons_changes_nothing_and_is_shown(desk: WorkerDesk, peer: Peer) -> None:
    saved = await desk.save(tool="overrun_until_told")
    async with desk.process(**DOUBTFUL):
        await desk.until(saved.execution_id, State.IN_DOUBT)
        shown = (await wakegate(desk.directory, "execution", "show", saved.execution_id)).out
        assert "it went on when it was last heard of" in shown
        settled = await wakegate(
            desk.directory, "execution", "resolve", saved.execution_id,
            "--did-not-happen", "--by", "Ada", "--note", "not in the books",
        )  # fmt: skip
        assert settled.code == 0, settled.err
        (desk.directory / GO_ON).touch()
        await eventually(lambda: bool(lines_of(desk.logs, "late_word")))
    assert desk.effects == [saved.execution_id]
    (told,) = lines_of(desk.logs, "late_word")
    assert (told["level"], told["state"], told["outcome"]) == ("error", "failed", "succeeded")
    view = (await wakegate(desk.directory, "execution", "show", saved.execution_id, "--json")).json
    assert (view["state"], view["reason"]) == ("failed", "resolved_did_not_happen")
    assert [odd["kind"] for odd in view["anomalies"]] == ["late_word"]
