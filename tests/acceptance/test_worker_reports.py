"""Reports of consumed approvals: every answer of a provider, refused credentials, and giving up."""

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
from aiohttp import web
from structlog.testing import capture_logs

from support.aap_peer import Peer, refusal
from support.tables import each_row
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock
from wakegate_schema.keys import ensure_key
from wakegate_schema.records import Execution
from wakegate_schema.states import State
from wakegate_schema.store import Store
from wakegate_worker.aap import AapClient
from wakegate_worker.reporting import Reporting
from wakegate_worker.sources import Sources
from wakegate_worker.stopping import Stop

Answer = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def answering(*answers: tuple[int, str, str]) -> Answer:
    """Answers reports like this, one after the other, and then as the peer does."""
    left = list(answers)

    async def answer(request: web.Request) -> web.StreamResponse | None:
        return refusal(*left.pop(0)) if left and request.path.endswith("/outcome") else None

    return answer


async def owing(
    desk: WorkerDesk, peer: Peer, *answers: tuple[int, str, str], before: Answer | None = None
) -> Execution:
    """Save a call that is approved and consumed, and return it once its first report has come in."""
    peer.consumes, peer.interference = True, before or answering(*answers)
    peer.at_submission = lambda peer, request: peer.approve(request)
    saved = await desk.save()
    return await desk.until(saved.execution_id, State.SUCCEEDED)


async def settled(desk: WorkerDesk, execution: Execution) -> Execution:
    return await desk.when(execution.execution_id, lambda each: each.report_due_at is None)


@each_row(
    "answer, anomalies, told",
    [
        (None, [], "info"),
        ((409, "conflict", "outcome_conflict"), ["outcome_conflict"], "error"),
        ((409, "conflict", "not_consumed"), [], "warning"),
        ((404, "not_found", "not_found"), [], "warning"),
        ((405, "invalid_request", "method_not_allowed"), [], "warning"),
    ],
)
async def test_a_final_answer_settles_a_report(
    desk: WorkerDesk, peer: Peer, answer: tuple[int, str, str] | None, anomalies: list[str], told: str
) -> None:
    before = len(await desk.store.anomalies())
    with capture_logs() as lines:
        async with desk.worker():
            execution = await owing(desk, peer, *([answer] if answer else []))
            await settled(desk, execution)
    assert [each.kind for each in (await desk.store.anomalies())[before:]] == anomalies
    assert [line["log_level"] for line in lines if line["action"] == "report"] == [told]


async def test_a_report_that_did_not_get_through_is_tried_again(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        execution = await owing(desk, peer, (503, "dependency", "unavailable"), (429, "rate_limit", "slow_down"))
        done = await settled(desk, execution)
    assert done.report_tries == 2
    assert peer.outcomes == [(done.request_id, {"status": "succeeded"})]


@each_row("status", [404, 405])
async def test_a_page_that_is_not_the_providers_settles_no_report(desk: WorkerDesk, peer: Peer, status: int) -> None:
    left = [web.Response(status=status, text="<html>", content_type="text/html")]

    async def stand_in_front(request: web.Request) -> web.StreamResponse | None:
        return left.pop() if left and request.path.endswith("/outcome") else None

    async with desk.worker():
        execution = await owing(desk, peer, before=stand_in_front)
        done = await settled(desk, execution)
    assert done.report_tries == 1
    assert peer.outcomes[-1:] == [(done.request_id, {"status": "succeeded"})]


async def test_a_stop_breaks_a_report_off_and_the_next_worker_tells(desk: WorkerDesk, peer: Peer) -> None:
    asked, told = asyncio.Event(), asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse | None:
        if request.path.endswith("/outcome") and not asked.is_set():
            asked.set()
            await told.wait()
        return None

    async with desk.worker():
        peer.consumes, peer.interference = True, hang
        peer.at_submission = lambda peer, request: peer.approve(request)
        saved = await desk.save()
        await asyncio.wait_for(asked.wait(), 15)
    assert ((await desk.store.execution(saved.execution_id)).report_due_at or clock.now()) < clock.now()
    async with desk.worker():
        await settled(desk, saved)
    told.set()
    assert {told["status"] for _, told in peer.outcomes} == {"succeeded"}


async def test_a_refused_credential_parks_the_instance_and_a_new_one_tells(
    desk: WorkerDesk, peer: Peer, store: Store
) -> None:
    async def is_parked() -> bool:
        return (await store.instance(desk.provider, desk.instance_id)).state == "parked"

    async with desk.worker():
        execution = await owing(desk, peer, (401, "authentication", "invalid_credential"))
        await eventually(is_parked)
        waiting = await desk.when(execution.execution_id, lambda each: each.report_tries == 1)
        assert (waiting.report_due_at or 0) > clock.now() + 50 * clock.MINUTE
        await store.set_credential(desk.provider, desk.instance_id, desk.sealed("another-token"), None, clock.now())
        await settled(desk, execution)
    assert [told for _, told in peer.outcomes] == [{"status": "succeeded"}]


async def test_a_retired_instance_tells_nothing_more(desk: WorkerDesk, peer: Peer, store: Store) -> None:
    async with desk.worker():
        execution = await owing(desk, peer, *[(503, "dependency", "unavailable")] * 99)
        await store.retire_instance(desk.provider, desk.instance_id, "ann", clock.now())
        assert (await store.execution(execution.execution_id)).report_due_at is None
    assert (await store.census()).reports == 0


async def test_what_ends_after_its_instance_was_retired_is_told_to_nobody(
    desk: WorkerDesk, peer: Peer, store: Store
) -> None:
    async with desk.worker():
        peer.consumes = True
        peer.at_submission = lambda peer, request: peer.approve(request)
        saved = await desk.save(tool="break_down")
        await desk.until(saved.execution_id, State.IN_DOUBT)
        await store.retire_instance(desk.provider, desk.instance_id, "ann", clock.now())
        await store.settle(saved.execution_id, happened=True, by="ann", note="seen", at=clock.now())
        done = await settled(desk, await desk.until(saved.execution_id, State.SUCCEEDED))
    assert done.report_tries == 0
    assert (peer.outcomes, await store.anomalies()) == ([], [])


async def test_a_report_is_given_up_after_eight_days_and_that_is_seen(
    desk: WorkerDesk, peer: Peer, store: Store, session: aiohttp.ClientSession
) -> None:
    unavailable = (503, "dependency", "unavailable")
    async with desk.worker():
        execution = await owing(desk, peer, *[unavailable] * 99)
    peer.interference = answering(*[unavailable] * 99)
    sources = Sources(ensure_key(desk.settings().worker_key_path), lambda found: AapClient(session, found))

    async def told_after(days: int) -> int | None:
        """Tell it so many days later; return when it is due again."""
        reporting = Reporting(store, sources, now=lambda: clock.now() + days * clock.DAY, stop=Stop())
        (taken,) = await reporting.take(9)
        await reporting.handle(taken)
        return (await store.execution(execution.execution_id)).report_due_at

    assert await told_after(7) is not None
    assert await told_after(8) is None
    (anomaly,) = await store.anomalies()
    assert (anomaly.kind, anomaly.subject_id) == ("report_given_up", execution.execution_id)
    assert "http_503" in anomaly.detail
    assert peer.outcomes == []
