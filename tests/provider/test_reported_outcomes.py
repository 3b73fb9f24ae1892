"""What the worker tells a provider of consumed approvals, seen at the provider: whatever happens on the way, once."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from provider.process import Lives
from support.provider import Caller, provider, provider_settings
from support.workers import WorkerDesk
from wakegate_schema import clock, timestamps
from wakegate_schema.fault_points import TEST_FAULT
from wakegate_schema.records import Execution
from wakegate_schema.states import State
from wakegate_schema.store import Store

POLICY = """
consumption = true

[[rule]]
tool = "never_claimed"
decision = "approve"
approval_ttl = "1s"

[[rule]]
tool = "*"
decision = "approve"
"""
SECRETLY = "nobody at the provider reads this"


class Site(WorkerDesk):
    """A desk at the real provider."""

    async def told(self, execution: Execution) -> dict[str, Any] | None:
        """What the provider has on record of a call's outcome, without the time; it has been consumed here."""
        async with aiohttp.ClientSession() as session:
            caller = Caller(self.provider, self.token, session)
            read = await caller.call("GET", f"/v1/requests/{execution.request_id}")
        assert execution.consumed_at is not None
        assert "consumed_at" in read.body["consumption"], read.body
        outcome: dict[str, Any] | None = read.body["consumption"].get("outcome")
        if outcome is not None:
            del outcome["reported_at"]
        return outcome

    async def reported(self, execution_id: str) -> Execution:
        """Wait until a final word owes no report any more."""
        return await self.when(
            execution_id, lambda execution: execution.finished_at is not None and execution.report_due_at is None
        )


async def site(store: Store, folder: Path, url: str, provisioner_token: str) -> Site:
    """Create an instance at the provider, and put it on record."""
    async with aiohttp.ClientSession() as session:
        made = (await Caller(url, provisioner_token, session).provision()).body
    desk = Site(store, folder, url, instance_id=made["instance"]["id"], token=made["credential"]["token"])
    await desk.open()
    return desk


async def test_every_end_of_a_consumed_call_is_told_and_a_doubt_only_once_it_is_settled(
    store: Store, tmp_path: Path
) -> None:
    settings = provider_settings(tmp_path, POLICY)
    async with provider(settings) as at:
        desk = await site(store, tmp_path, at.url, at.token)
        async with desk.worker():
            paid = await desk.save(tool="issue_refund")
            refused = await desk.save(tool="refuse")
            happened, did_not = [await desk.save(tool="break_down") for _ in range(2)]
            left = await desk.save(tool="left", runs="harness")
            lapsed = await desk.save(tool="never_claimed", runs="harness")
            for doubtful in (happened, did_not):
                await desk.until(doubtful.execution_id, State.IN_DOUBT)
            await desk.until(left.execution_id, State.PERMITTED)
            await store.abandon(left.execution_id, "conversation closed", "harness", clock.now())
            for ended in (paid, refused, left, lapsed):
                await desk.reported(ended.execution_id)
            for doubtful in (happened, did_not):
                doubt = await store.execution(doubtful.execution_id)
                assert (doubt.report_due_at, await desk.told(doubt)) == (None, None)
                is_true = doubtful is happened
                await store.settle(doubt.execution_id, happened=is_true, by="ann", note=SECRETLY, at=clock.now())
            found = [
                await desk.reported(saved.execution_id) for saved in (paid, refused, happened, did_not, left, lapsed)
            ]
        told = [(execution.state, await desk.told(execution)) for execution in found]
    not_run = {"status": "failed", "note": "not run"}
    assert told == [
        (State.SUCCEEDED, {"status": "succeeded"}),
        (State.FAILED, {"status": "failed"}),
        (State.SUCCEEDED, {"status": "succeeded"}),
        (State.FAILED, {"status": "failed"}),
        (State.ABANDONED, not_run),
        (State.LAPSED, not_run),
    ]
    assert await store.anomalies() == []


async def test_a_provider_that_dies_before_and_after_its_commit_is_told_once(store: Store, tmp_path: Path) -> None:
    lives = Lives(tmp_path, POLICY)
    async with lives.life("written:report") as first:
        desk = await site(store, tmp_path, lives.url, lives.provisioner_token)
        async with desk.worker():
            saved = await desk.save(tool="issue_refund")
            assert await first.wait() == -9
            async with lives.life("committed:report") as second:
                assert await second.wait() == -9
            by_then = clock.now()
            owing = await store.execution(saved.execution_id)
            async with lives.life():
                await store.report_retry(saved.execution_id, clock.now())  # pauses have grown on a slow machine
                done = await desk.reported(saved.execution_id)
                told = await desk.told(done)
                async with aiohttp.ClientSession() as session:
                    read = await Caller(lives.url, desk.token, session).call("GET", f"/v1/requests/{done.request_id}")
    assert (owing.state, owing.report_due_at is None) == (State.SUCCEEDED, False)
    assert told == {"status": "succeeded"}
    assert timestamps.parse(read.body["consumption"]["outcome"]["reported_at"]) <= by_then, (
        "the word that was committed before it died is the one that counts"
    )
    assert await store.anomalies() == []
    assert desk.effects == [saved.execution_id]


async def test_a_provider_that_dies_before_and_after_it_consumes_is_asked_until_it_is_known(
    store: Store, tmp_path: Path
) -> None:
    lives = Lives(tmp_path, POLICY)
    async with lives.life("written:consume") as first:
        desk = await site(store, tmp_path, lives.url, lives.provisioner_token)
        async with desk.worker():
            saved = await desk.save(tool="issue_refund")
            assert await first.wait() == -9
            assert (await store.execution(saved.execution_id)).state is State.WAITING
            async with lives.life("committed:consume") as second:
                assert await second.wait() == -9
            assert (desk.effects, (await store.execution(saved.execution_id)).state) == ([], State.WAITING)
            async with lives.life():
                done = await desk.reported(saved.execution_id)
                told = await desk.told(done)
    assert (done.state, told, desk.effects) == (State.SUCCEEDED, {"status": "succeeded"}, [saved.execution_id])


@pytest.mark.parametrize("point", ["work.begin:report", "http_out.answered:report"])
async def test_a_worker_killed_before_or_after_it_told_leaves_it_to_the_next(
    store: Store, tmp_path: Path, point: str
) -> None:
    async with provider(provider_settings(tmp_path, POLICY)) as at:
        desk = await site(store, tmp_path, at.url, at.token)
        async with desk.process(**{TEST_FAULT: f"{point}=kill"}) as dying:
            saved = await desk.save(tool="issue_refund")
            assert await dying.wait() == -9
        owing = await store.execution(saved.execution_id)
        assert (owing.state, owing.report_due_at is None) == (State.SUCCEEDED, False)
        await store.report_retry(saved.execution_id, clock.now())  # its lease is two minutes long
        async with desk.worker():
            done = await desk.reported(saved.execution_id)
        assert await desk.told(done) == {"status": "succeeded"}
    assert (await store.anomalies(), desk.effects) == ([], [saved.execution_id])
