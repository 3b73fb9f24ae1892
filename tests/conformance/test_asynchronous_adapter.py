"""The seven requirements of an asynchronous adapter and its receiving service (AAP, "Asynchronous Requirements").

A harness, a process of its own, suspends a call and ends. A real receiver takes the embedded provider's signed
notification, and a real worker resumes the call: it runs the tool itself, or another harness process claims the call.
"""

import asyncio
import base64
import json
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from support import warm
from support.deliveries import Delivery, Sender, new_id
from support.front import PassOn
from support.house import House, house_with_site
from support.processes import clean_environment
from support.receivers import stalled
from support.services import Site
from support.workers import eventually
from wakegate_adapter import Adapter, State
from wakegate_provider import redeliver
from wakegate_schema import clock
from wakegate_schema.clock import DAY, HOUR
from wakegate_schema.records import Execution

HARNESS = Path(__file__).with_name("harness.py")
ARGUMENTS = {"amount": 4900}
PATIENCE_S = 90.0
RUNS = pytest.mark.parametrize("runs", ["worker", "harness"])


async def harness(house: House, *words: str) -> str:
    """Run a harness to its end; return what it said."""
    process = await warm.start(
        "script", str(HARNESS), house.database, *words, stdout=PIPE, stderr=PIPE, env=clean_environment()
    )
    async with asyncio.timeout(60):
        said, complained = await process.communicate()
    assert process.returncode == 0, complained
    assert complained == b""
    return said.decode().strip()


async def suspended(house: House, runs: str) -> Execution:
    """Suspend a call in a process that ends at once."""
    execution_id = await harness(house, "suspend", "issue_refund", json.dumps(ARGUMENTS), new_id(), runs)
    return await house.desk.store.execution(execution_id)


async def resumed(house: House, call: Execution) -> Execution:
    """Wait until the worker has run the call, or have a harness claim it once it may; return how it ended."""
    if call.runs == "harness":
        await house.desk.until(call.execution_id, State.PERMITTED, seconds=PATIENCE_S)
        assert await harness(house, "claim", call.execution_id, str(house.ledger.path)) == "ran"
    return await house.desk.settled(call.execution_id, seconds=PATIENCE_S)


def assert_ran_once(house: House, ended: Execution) -> None:
    """Of the one call, one effect, where it was to run."""
    assert ended.state is State.SUCCEEDED
    assert house.desk.effects == ([ended.execution_id] if ended.runs == "worker" else [])
    assert house.ledger.lines == ([ARGUMENTS] if ended.runs == "harness" else [])


@pytest.fixture
async def apart(tmp_path: Path) -> AsyncIterator[tuple[House, Site]]:
    """A house whose receiver is a process of its own."""
    async with house_with_site(tmp_path) as found:
        yield found


# 1


@RUNS
async def test_async_1_keeps_the_receiver_available_while_the_call_is_suspended(
    apart: tuple[House, Site], runs: str
) -> None:
    """Neither the harness's end nor the receiver's own loses the notification: the port answers, or soon again."""
    house, site = apart
    listen = str(site.settings.listen)
    async with house.desk.worker():
        async with site.receiving(WAKEGATE_LISTEN=listen):
            call = await suspended(house, runs)
            await house.request()
            assert await site.unready() is None
        await house.review("approve")  # while nobody listens
        assert house.effects == 0
        async with site.receiving(WAKEGATE_LISTEN=listen):
            ended = await resumed(house, call)
            await house.notified()
    assert_ran_once(house, ended)


@RUNS
async def test_async_1_protects_the_signing_secret_from_the_agent(apart: tuple[House, Site], runs: str) -> None:
    """It is in nothing that a harness or an agent is given, and in no file but sealed."""
    house, site = apart
    assert house.registered is not None
    async with site.receiving(WAKEGATE_LISTEN=str(site.settings.listen)), site.working():
        call = await suspended(house, runs)
        await house.review("approve")
        ended = await resumed(house, call)
    async with await Adapter.open(house.database) as adapter:
        told = json.dumps((await adapter.get(call.execution_id)).to_json())
    shown = (await house.caller.call("GET", f"/v1/instances/{house.desk.instance_id}")).body
    text = house.registered.secret.reveal()
    forms = [text.encode(), text.removeprefix("whsec_").encode(), base64.b64decode(text.removeprefix("whsec_"))]
    files = {path: path.read_bytes() for path in house.folder.rglob("*") if path.is_file()}
    assert len(files) > 5
    for form in forms:
        assert [path.name for path, content in files.items() if form in content] == []
        assert not any(form in each.body or form in each.answer for each in house.front.passed)
    assert text not in told + json.dumps(shown) + site.receiver_log + house.desk.logs
    assert_ran_once(house, ended)


# 2


@RUNS
async def test_async_2_verifies_signature_time_id_and_instance_before_it_accepts(told: House, runs: str) -> None:
    async with told.desk.worker():
        call = await suspended(told, runs)
        request = (await told.request())["request_id"]
        await told.desk.until(call.execution_id, State.WAITING)
        asked = len(told.front.asked)
        good, now = told.sender.notification(request), clock.now() / clock.SECOND
        other_secret = Sender("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", told.desk.instance_id)
        strange = Sender(told.registered.secret.reveal(), new_id())  # type: ignore[union-attr]
        bad = {
            "no signature": good.with_headers(webhook_signature=None),
            "another's signature": other_secret.notification(request),
            "another body": Delivery(good.headers, good.body.replace(b" ", b"")),
            "an old attempt": told.sender.notification(request, at=now - 302),
            "an attempt of the future": told.sender.notification(request, at=now + 302),
            "another time than was signed": good.with_headers(webhook_timestamp=str(int(now) + 1)),
            "another id than was signed": good.with_headers(webhook_id=new_id()),
            "another id in the body": told.sender.raw(good.body, new_id()),
            "an instance nobody expects": strange.notification(request),
        }
        answers = {what: (await told.post(delivery)).status for what, delivery in bad.items()}
        assert set(answers.values()) <= {400, 401}, answers
        assert await told.desk.store.notifications() == []
        await told.quiet(0.3)
        assert len(told.front.asked) == asked, "none of them had the worker look"
        await told.review("approve")
        ended = await resumed(told, call)
    assert_ran_once(told, ended)


# 3


async def test_async_3_accepts_challenges_for_expected_registrations_only(told: House) -> None:
    """The provider creates nothing for a receiver that expects nothing; the house's own registration was expected."""
    assert told.receiver is not None
    url = told.receiver.receiver.url

    async def create(registration_id: str, secret: str) -> int:
        delivery = {"type": "webhook", "url": url, "registration_id": registration_id, "signing_secret": secret}
        answered = await told.caller.call("POST", "/v1/instances", key=new_id(), body={"delivery": delivery})
        return answered.status

    unexpected, late = await told.receiver.expect(), await told.receiver.expect(expected_until=clock.now() - HOUR)
    retired, expected = await told.receiver.expect(), await told.receiver.expect()
    await told.desk.store.retire_registration(retired.registration_id, clock.now())
    assert await create(new_id(), unexpected.secret.reveal()) == 422
    assert await create(expected.registration_id, unexpected.secret.reveal()) == 422
    assert await create(late.registration_id, late.secret.reveal()) == 422
    assert await create(retired.registration_id, retired.secret.reveal()) == 422
    known = {each.registration_id: each.state for each in await told.desk.store.registrations()}
    assert known[expected.registration_id] == known[late.registration_id] == "expected"
    assert known[retired.registration_id] == "retired"
    refused = told.sender.verification(new_id())
    assert (await told.post(refused)).status in (401, 403)
    assert b"challenge" not in (await told.post(refused)).body
    assert await create(expected.registration_id, expected.secret.reveal()) == 201
    known = {each.registration_id: each.state for each in await told.desk.store.registrations()}
    assert known[expected.registration_id] == "verified"


# 4


async def test_async_4_acknowledges_after_durable_receipt_only(apart: tuple[House, Site]) -> None:
    """While nothing can be written there is no 2xx; what had one outlives the kill of its receiver."""
    house, site = apart
    delivery = house.sender.notification()
    async with site.receiving(WAKEGATE_LISTEN=str(site.settings.listen), WAKEGATE_REQUEST_TIMEOUT="1"):
        with stalled(site.settings):
            assert (await site.post(delivery)).status == 503
        assert await site.recorded() == set()
    async with site.receiving(WAKEGATE_LISTEN=str(site.settings.listen)) as process:
        assert (await site.post(delivery)).status == 204
        process.kill()
        await process.wait()
    assert await site.recorded() == {delivery.headers["webhook-id"]}


@RUNS
async def test_async_4_handles_duplicates_without_repeating_execution(told: House, runs: str) -> None:
    async with told.desk.worker():
        call = await suspended(told, runs)
        request = await told.review("approve")
        await told.notified()
        (event,) = {each["event_id"] for each in told.requests}

        async def again() -> None:
            made = told.requests[0]["deliveries_made"]
            await asyncio.to_thread(redeliver, told.provider, event)
            await eventually(lambda: told.requests[0]["deliveries_made"] > made)

        await again()
        ended = await resumed(told, call)
        await again()
        repeats = [told.sender.notification(request, event) for _ in range(5)]
        assert {(await told.post(delivery)).status for delivery in repeats} == {204}
        assert (await told.post(told.sender.notification(request))).status == 204, "and another event about it"
        await told.quiet(0.3)
    assert_ran_once(told, ended)
    first = (await told.desk.store.notification(event))[0]
    assert first.duplicates == 7


# 5


@RUNS
async def test_async_5_handles_a_notification_that_comes_before_the_suspension_is_finished(
    told: House, runs: str
) -> None:
    """The decision is made and its notification acknowledged before the submission has had its answer."""

    async def hold_up(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        answer = await pass_on()
        if request.method == "POST" and answer.status == 201:
            await told.review("approve")
            await told.notified()
            assert json.loads(answer.body)["status"] == "pending"  # type: ignore[arg-type]
        return answer

    told.front.interference = hold_up
    async with told.desk.worker():
        ended = await resumed(told, await suspended(told, runs))
        await told.quiet(0.3)
    assert_ran_once(told, ended)
    assert len(told.requests) == 1


@RUNS
async def test_async_5_resumes_what_was_saved_by_a_process_that_ended_before_anybody_heard_of_it(
    told: House, runs: str
) -> None:
    call = await suspended(told, runs)
    assert (call.state, told.front.asked) == (State.SAVED, [])
    async with told.desk.worker():
        await told.review("approve")
        ended = await resumed(told, call)
    assert_ran_once(told, ended)


# 6


@RUNS
async def test_async_6_fetches_the_authoritative_request_before_the_call(told: House, runs: str) -> None:
    seen: list[tuple[int, int]] = []

    async def note(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        if request.method == "GET":
            seen.append((len(await told.desk.store.notifications()), told.effects))
        return await pass_on()

    told.front.interference = note
    async with told.desk.worker():
        call = await suspended(told, runs)
        request = (await told.request())["request_id"]
        await told.desk.until(call.execution_id, State.WAITING)
        assert (await told.post(told.sender.notification(request))).status == 204
        await eventually(lambda: len(seen) >= 2)  # it is looked at, and looked at again: the request is pending
        assert told.effects == 0, "a notification alone permits nothing"
        await told.review("approve")
        ended = await resumed(told, call)
    assert_ran_once(told, ended)
    read = [each for each in told.front.calls("GET") if each.said["status"] == "approved"]
    assert {each.headers["Authorization"] for each in read} == {f"Bearer {told.desk.token}"}
    assert {effects for _, effects in seen} == {0}
    assert seen[0][0] == 1


@RUNS
async def test_async_6_checks_the_approvals_end_before_the_call(told: House, runs: str) -> None:
    late = asyncio.Event()

    async def come_too_late(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        answer = await pass_on()
        if request.method == "GET" and runs == "worker":
            await asyncio.sleep(2.1)
            late.set()
        return answer

    told.front.interference = come_too_late
    async with told.desk.worker():
        call = await suspended(told, runs)
        await told.request()
        await told.desk.until(call.execution_id, State.WAITING)
        await told.review("approve", expires_in="2s" if runs == "worker" else "4s")
        if runs == "harness":
            await told.desk.until(call.execution_id, State.PERMITTED)
            await asyncio.sleep(3)
            assert await harness(told, "claim", call.execution_id, str(told.ledger.path)) in ("too_late", "lapsed")
        ended = await told.desk.until(call.execution_id, State.LAPSED, seconds=PATIENCE_S)
        await told.quiet(0.3)
    assert late.is_set() == (runs == "worker")
    assert (ended.state, told.effects) == (State.LAPSED, 0)
    assert told.requests[0]["status"] == "approved"


# 7


@RUNS
@pytest.mark.parametrize("decided", ["before", "after"])
async def test_async_7_discards_notifications_for_abandoned_execution(told: House, runs: str, decided: str) -> None:
    """Approved a moment before it was given up, or cancelled by our own cancel: acknowledged, and nothing runs."""
    async with await Adapter.open(told.database) as adapter:
        async with told.desk.worker():
            call = await suspended(told, runs)
            await told.request()
            await told.desk.until(call.execution_id, State.WAITING)
        await adapter.abandon(call.execution_id, "conversation closed")
        if decided == "before":
            await told.review("approve")
        async with told.desk.worker():
            await told.notified()
            ((_, found),) = await told.desk.store.notifications()
            assert (found.state, found.reason) == ("discarded", "abandoned")
            await eventually(lambda: bool(told.front.calls("DELETE")))
            await told.quiet(0.3)
        assert (await adapter.get(call.execution_id)).state is State.ABANDONED
    status = "approved" if decided == "before" else "cancelled"
    assert [each["status"] for each in told.requests] == [status]
    # A cancel that came too late looks once whether the approval was consumed from here; the notification asks nothing.
    assert (told.effects, len(told.front.calls("GET"))) == (0, decided == "before")


@RUNS
async def test_async_7_keeps_duplicate_tracking_through_the_retry_window_and_the_grace_period(
    told: House, runs: str
) -> None:
    async with told.desk.worker():
        call = await suspended(told, runs)
        request = await told.review("approve")
        ended = await resumed(told, call)
        await told.notified()
    (event,) = {each["event_id"] for each in told.requests}
    store, decided_at = told.desk.store, ended.decided_at or 0
    at = decided_at + 7 * DAY + DAY - HOUR
    await store.prune(at, at)
    asked = len(told.front.asked)
    async with told.desk.worker():
        assert (await told.post(told.sender.notification(request, event))).status == 204
        ((_, found),) = await store.notifications()
        assert (found.event_id, found.duplicates) == (event, 1)
        await told.quiet(0.3)
    assert (len(told.front.asked), told.effects) == (asked, 1)
    assert (await store.execution(call.execution_id)).state is State.SUCCEEDED
    at = decided_at + 8 * DAY + 2 * HOUR
    await store.prune(at, at)
    assert await store.notifications() == [], "for so long, and not for ever"
    async with told.desk.worker():
        assert (await told.post(told.sender.notification(request, event))).status == 204
        await told.quiet(0.3)
    assert told.effects == 1, "and what has run is known without it"
