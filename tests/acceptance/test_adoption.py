"""Adoption: requests that a harness asked for by itself, and whose framework is resumed by its own resumer."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.aap_peer import Peer, refusal
from support.desk import new_id
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock
from wakegate_schema.records import Adoption
from wakegate_worker import adoption_rules, resuming, wake_programs

RESUMER = """
import asyncio, fcntl, json, os, pathlib, time, urllib.request
from contextlib import asynccontextmanager

HERE = pathlib.Path(__file__).parent
PLAN = json.loads((HERE / "plan.json").read_text())

def _consume(request):
    key = {"Idempotency-Key": f"{os.getpid()}"}
    asked = urllib.request.Request(f"{PLAN['url']}/v1/requests/{request.id}/consume", method="POST", headers=key)
    try:
        urllib.request.urlopen(asked).read()
    except OSError:
        pass

async def resume(handle, request):
    with (HERE / f"lock-{handle['thread_id']}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if another runs beside
        with (HERE / "runs").open("a") as file:
            file.write(json.dumps({"pid": os.getpid(), "thread": handle["thread_id"], "request": request.id,
                "status": request.status, "environment": sorted(os.environ)}) + "\\n")
        if PLAN.get("consumes"):
            await asyncio.to_thread(_consume, request)
        if (HERE / "die").exists():
            (HERE / "die").unlink()
            os.kill(os.getpid(), 9)
        await asyncio.sleep(PLAN.get("takes", 0))
    if PLAN.get("raises"):
        raise ValueError("PLANTED")

def plain():
    return resume

async def made():
    return resume

@asynccontextmanager
async def within():
    yield lambda handle, request: resume(handle, request)

def nothing():
    return None
"""


class Harness:
    """A harness that gates its tools by itself: what its resumer does, and what that left."""

    def __init__(self, folder: Path, peer: Peer, desk: WorkerDesk) -> None:
        self.folder, self.peer, self.desk = folder, peer, desk
        self.folder.mkdir()
        (folder / "shop_agents.py").write_text(RESUMER)
        self.plan()

    def plan(self, **does: Any) -> None:
        """Say what the resumer does from now on."""
        (self.folder / "plan.json").write_text(json.dumps({"url": self.peer.url, **does}))

    def asks(self, **resume: Any) -> str:
        """Ask for an approval; return the request's id."""
        handle = {"framework": "langgraph", "thread_id": "thread-1"} | resume
        body = {"tool": "refund", "arguments": {"amount": 1.5}, "timeout": "30m", "context": {"resume": handle}}
        return str(self.peer.submit(new_id(), body)["id"])

    @property
    def runs(self) -> list[dict[str, Any]]:
        """What each run of the resumer saw."""
        path = self.folder / "runs"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def settings(self, function: str = "plain") -> dict[str, Any]:
        """A worker's settings with the resumer."""
        return {"resumers": {"langgraph": f"shop_agents:{function}"}, "resumers_directory": self.folder}

    @property
    def variables(self) -> dict[str, str]:
        """The same, for a worker in a process of its own."""
        folder = str(self.folder)
        return {"WAKEGATE_RESUMERS": "langgraph=shop_agents:plain", "WAKEGATE_RESUMERS_DIRECTORY": folder}

    async def adopted(self, request_id: str) -> Adoption | None:
        """What is on record of a request."""
        return await self.desk.store.adoption(self.desk.provider, self.desk.instance_id, request_id)

    async def ended(self, request_id: str, seconds: float = 30) -> Adoption:
        """Wait until nothing more is done for a request."""

        async def is_ended() -> bool:
            found = await self.adopted(request_id)
            return found is not None and found.state == "ended"

        await eventually(is_ended, seconds)
        found = await self.adopted(request_id)
        assert found is not None
        return found

    async def notified(self, request_id: str) -> None:
        """Let the notification have come a while ago."""
        await self.desk.notify(request_id, received_at=clock.now() - clock.MINUTE)

    async def states(self, request_id: str) -> set[tuple[str, str | None]]:
        """How the request's notifications stand."""
        page = await self.desk.store.notifications()
        return {(each.state, each.reason) for _, each in page if each.request_id == request_id}


@pytest.fixture
def harness(tmp_path: Path, peer: Peer, desk: WorkerDesk, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A harness, its peer knowing consumption; pauses are short."""
    peer.consumes = True
    monkeypatch.setattr(adoption_rules, "PAUSES", (10_000, 20_000, 30_000, 40_000))
    monkeypatch.setattr(resuming, "TAKEN_PAUSE_S", 0.05)
    return Harness(tmp_path / "harness", peer, desk)


@pytest.mark.parametrize("function", ["plain", "made", "within"])
async def test_the_framework_is_resumed_until_its_approval_is_consumed(harness: Harness, function: str) -> None:
    harness.plan(consumes=True)
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings(function)):
        found = await harness.ended(request_id)
    assert (found.reason, found.runs, found.framework, found.thread) == (
        "consumed", 1, "langgraph", '{"thread_id":"thread-1"}',
    )  # fmt: skip
    (run,) = harness.runs
    assert (run["request"], run["status"]) == (request_id, "approved")
    assert run["environment"] == ["HOME", "LANG", "LC_CTYPE", "PATH", "WAKEGATE_WAKE_ID"] or run["environment"] == [
        "HOME", "LANG", "PATH", "WAKEGATE_WAKE_ID",
    ]  # fmt: skip
    assert await harness.states(request_id) == {("handled", "adopted")}


@pytest.mark.parametrize("status", ["denied", "expired", "cancelled"])
async def test_a_decision_that_leaves_no_trace_is_told_five_times(harness: Harness, status: str) -> None:
    request_id = harness.asks()
    harness.peer.decide(harness.peer.only(), status)
    await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings()):
        found = await harness.ended(request_id)
    assert (found.reason, found.runs, len(harness.runs)) == (status, 5, 5)


async def test_an_approval_that_nobody_consumes_is_told_until_it_has_ended(harness: Harness) -> None:
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only(), lasting=2)
    await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings()):
        found = await harness.ended(request_id)
    assert found.reason == "approval_expired"
    assert found.runs >= 2


async def test_a_resumer_that_dies_after_consuming_is_run_again(harness: Harness) -> None:
    harness.plan(consumes=True)
    (harness.folder / "die").touch()
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings()):
        found = await harness.ended(request_id)
    assert (found.reason, found.runs, found.well_runs) == ("consumed_in_doubt", 2, 1)


async def test_a_notification_that_came_before_the_decision_can_be_read_waits(harness: Harness) -> None:
    harness.plan(consumes=True)
    request_id = harness.asks()
    await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings()):

        async def is_looked_at() -> bool:
            found = await harness.adopted(request_id)
            return found is not None and found.problem == "pending_after_notification"

        await eventually(is_looked_at)
        assert harness.runs == []
        harness.peer.approve(harness.peer.only())
        assert (await harness.ended(request_id)).reason == "consumed"


async def test_what_names_no_framework_stays_unmatched(harness: Harness) -> None:
    bare = str(harness.peer.submit(new_id(), {"tool": "refund", "arguments": {}, "timeout": "30m"})["id"])
    other = harness.asks(framework="crewai")
    for request_id in (bare, other):
        harness.peer.approve(harness.peer.requests[request_id])
        await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings()):
        assert (await harness.ended(bare)).reason == "no_resume_handle"

        async def is_wanted() -> bool:
            return await harness.desk.store.resumers_wanted(clock.now()) == {"crewai": 1}

        await eventually(is_wanted)
    assert await harness.states(bare) == {("received", None)}
    assert harness.runs == []


async def test_a_young_notification_waits_for_a_call_that_may_be_saved_here(harness: Harness) -> None:
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.desk.notify(request_id)
    assert await harness.desk.store.adopt_unmatched(clock.now()) == 0
    assert await harness.desk.store.adopt_unmatched(clock.now() + 6 * clock.SECOND) == 1


async def test_without_resumers_nothing_is_adopted(harness: Harness) -> None:
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    async with harness.desk.worker():
        harness.peer.at_submission = lambda peer, request: peer.approve(request)
        await harness.desk.settled((await harness.desk.save()).execution_id)  # by then it would have looked
    assert await harness.adopted(request_id) is None
    assert await harness.states(request_id) == {("received", None)}


async def test_runs_of_one_framework_leave_the_others_their_room(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wake_programs, "AT_ONCE", 1)
    harness.plan(takes=600)
    asked = [harness.asks(thread_id=f"thread-{number}") for number in range(4)] + [harness.asks(framework="crewai")]
    for request_id in asked:
        harness.peer.approve(harness.peer.requests[request_id])
        await harness.notified(request_id)
    settings = harness.settings()
    settings["resumers"] = {**settings["resumers"], "crewai": "shop_agents:nothing"}
    async with harness.desk.worker(**settings):

        async def has_run() -> bool:
            found = await harness.adopted(asked[-1])
            return found is not None and found.problem == "entry_point_raised"

        await eventually(lambda: len(harness.runs) == 1)
        await eventually(has_run)
    assert len(harness.runs) == 1


async def test_two_workers_never_run_a_thread_at_once(harness: Harness) -> None:
    harness.plan(consumes=True, takes=0.2)
    asked = [harness.asks() for _ in range(4)]
    for request_id in asked:
        harness.peer.approve(harness.peer.requests[request_id])
        await harness.notified(request_id)
    variables = {
        "WAKEGATE_RESUMERS": "langgraph=shop_agents:plain",
        "WAKEGATE_RESUMERS_DIRECTORY": str(harness.folder),
    }
    async with harness.desk.process(**variables), harness.desk.process(**variables):
        for request_id in asked:
            found = await harness.ended(request_id, seconds=60)
            assert (found.reason, found.well_runs) == ("consumed", found.runs)  # a run beside another would fail
    assert {run["request"] for run in harness.runs} == set(asked)


async def test_a_worker_that_is_killed_takes_the_run_with_it_and_another_follows(harness: Harness) -> None:
    harness.plan(takes=60)
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    variables = {
        "WAKEGATE_RESUMERS": "langgraph=shop_agents:plain",
        "WAKEGATE_RESUMERS_DIRECTORY": str(harness.folder),
    }
    async with harness.desk.process(**variables) as worker:
        await eventually(lambda: len(harness.runs) == 1)
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
        await eventually(lambda: not _lives(harness.runs[0]["pid"]))
    harness.plan(consumes=True)
    async with harness.desk.worker(**harness.settings()):
        found = await harness.ended(request_id, seconds=60)
    assert (found.reason, found.runs, found.well_runs) == ("consumed_in_doubt", 2, 1)


async def test_a_run_whose_thread_was_lost_is_ended(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "KEEP_EVERY_S", 0.1)
    harness.plan(takes=600)
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings()):
        await eventually(lambda: len(harness.runs) == 1)
        later = clock.now() + clock.HOUR  # of a worker that has not seen it being kept
        assert len(await harness.desk.store.lease_adoptions(["langgraph"], 1, later, later + clock.HOUR)) == 1
        await eventually(lambda: not _lives(harness.runs[0]["pid"]))
    found = await harness.adopted(request_id)
    assert found is not None
    assert (found.runs, found.well_runs, found.last_end) == (1, 0, "badly")


@pytest.mark.parametrize(
    ("function", "does", "seconds", "problem"),
    [
        ("plain", {"raises": True}, 60.0, "entry_point_raised"),
        ("nothing", {}, 60.0, "entry_point_raised"),
        ("missing", {}, 60.0, "entry_point_missing"),
        ("plain", {"takes": 60}, 1.0, "timeout"),
    ],
)
async def test_a_resumer_that_fails_is_run_again_and_says_why(
    harness: Harness, function: str, does: dict[str, Any], seconds: float, problem: str
) -> None:
    harness.plan(**does)
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings(function), resumer_seconds=seconds):

        async def has_failed() -> bool:
            found = await harness.adopted(request_id)
            return found is not None and (found.problem, found.last_end) == (problem, "badly")

        await eventually(has_failed)


async def test_a_retired_instance_ends_its_adoptions(harness: Harness) -> None:
    request_id = harness.asks()
    await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings()):

        async def is_adopted() -> bool:
            return await harness.adopted(request_id) is not None

        await eventually(is_adopted)
        desk = harness.desk
        await desk.store.retire_instance(desk.provider, desk.instance_id, actor="operator:anna", at=clock.now())
        assert (await harness.ended(request_id)).reason == "instance_retired"


async def test_a_worker_that_is_told_to_stop_ends_its_run(harness: Harness) -> None:
    harness.plan(takes=60)
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    async with harness.desk.process(**harness.variables) as worker:
        await eventually(lambda: len(harness.runs) == 1)
        worker.send_signal(signal.SIGTERM)
        assert await worker.wait() == 0
    assert not _lives(harness.runs[0]["pid"])
    found = await harness.adopted(request_id)
    assert found is not None
    assert (found.state, found.runs, found.well_runs) == ("owed", 1, 0)


async def test_a_request_that_is_notified_again_is_not_run_again(harness: Harness) -> None:
    harness.plan(consumes=True)
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    await harness.notified(request_id)
    async with harness.desk.worker(**harness.settings()):
        assert (await harness.ended(request_id)).runs == 1
        await harness.notified(request_id)

        async def is_looked_through() -> bool:
            return not await harness.desk.store.unmatched_wait()

        await eventually(is_looked_through)
    assert await harness.states(request_id) == {("handled", "adopted")}
    assert len(harness.runs) == 1


async def test_a_run_of_an_instance_that_is_retired_is_ended_before_its_thread_is_free(harness: Harness) -> None:
    harness.plan(takes=60)
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    desk = harness.desk
    async with desk.worker(**harness.settings()):
        await eventually(lambda: len(harness.runs) == 1)
        await desk.store.retire_instance(desk.provider, desk.instance_id, actor="operator:anna", at=clock.now())
        found = await harness.ended(request_id)
        assert not _lives(harness.runs[0]["pid"])
    assert (found.reason, found.runs, found.last_end) == ("instance_retired", 1, "badly")


async def test_a_refused_credential_parks_the_instance_and_a_new_one_resumes(harness: Harness) -> None:
    harness.plan(consumes=True)
    request_id = harness.asks()
    harness.peer.approve(harness.peer.only())
    await harness.notified(request_id)
    desk, refused = harness.desk, [refusal(401, "authentication", "invalid_credential")]

    async def refuses(_: web.Request) -> web.Response | None:
        return refused.pop() if refused else None

    harness.peer.interference = refuses
    async with desk.worker(**harness.settings()):

        async def is_parked() -> bool:
            found = await harness.adopted(request_id)
            return found is not None and (found.due_at or 0) > clock.now() + 50 * clock.MINUTE

        await eventually(is_parked)
        assert harness.runs == []
        await desk.store.set_credential(desk.provider, desk.instance_id, desk.sealed("another"), None, clock.now())
        assert (await harness.ended(request_id)).reason == "consumed"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]
