"""Consumption over real HTTP: every answer to a consumption and to a report, and what never changes any more."""

import asyncio
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from support.clocks import SetApart
from support.provider import Answered, Caller, provider, provider_settings
from wakegate_provider import decide, list_requests, show_request
from wakegate_provider.store import ProviderStore, open_store
from wakegate_schema import timestamps, wire
from wakegate_schema.clock import DAY, SECOND
from wakegate_schema.settings import Settings
from wakegate_schema.store import queries
from wakegate_schema.store.errors import StoreOutdated

pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Desk:
    """An instance, and the calls that tests make as it."""

    caller: Caller
    settings: Settings
    token: str

    async def request(self, state: str) -> str:
        """Return a request in this state."""
        request_id = await self.caller.request_id(self.token, tool="ask", timeout="1s" if state == "expired" else "30m")
        match state:
            case "approved":
                decide(self.settings, request_id, "approve", note="fine", expires_in="1m")
            case "denied":
                decide(self.settings, request_id, "deny")
            case "cancelled":
                await self.caller.call("DELETE", f"/v1/requests/{request_id}", token=self.token)
            case "expired":
                await self.caller.call("GET", f"/v1/requests/{request_id}?wait=5s", token=self.token)
        return request_id

    async def read(self, request_id: str) -> Answered:
        """Read a request."""
        return await self.caller.call("GET", f"/v1/requests/{request_id}", token=self.token)

    async def consume(self, request_id: str, key: str | None = "k", **how: Any) -> Answered:
        """Consume an approval."""
        path = f"/v1/requests/{request_id}/consume"
        return await self.caller.call("POST", path, **{"token": self.token, "key": key, **how})

    async def report(self, request_id: str, body: object, **how: Any) -> Answered:
        """Tell what came of a call."""
        path = f"/v1/requests/{request_id}/outcome"
        return await self.caller.call("POST", path, **{"token": self.token, "body": body, **how})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def caller(settings: Settings) -> AsyncIterator[Caller]:
    async with provider(settings) as called:
        yield called


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(settings: Settings, caller: Caller) -> Desk:
    return Desk(caller, settings, await caller.credential())


def well_formed(answered: Answered) -> wire.ApprovalRequest:
    """Return a 200's request, held to AAP's form and to its order of times."""
    assert answered.status == 200
    request = wire.object_from(wire.ApprovalRequest, answered.body)
    if request.consumption is not None:
        assert request.decision is not None
        consumed = timestamps.parse(request.consumption.consumed_at)
        assert timestamps.parse(request.decision.decided_at) <= consumed
        if request.consumption.outcome is not None:
            assert consumed <= timestamps.parse(request.consumption.outcome.reported_at)
    return request


async def test_an_approval_is_consumed_and_reads_so_from_then_on(desk: Desk) -> None:
    request_id = await desk.request("approved")
    before = (await desk.read(request_id)).body
    consumed = await desk.consume(request_id)
    request = well_formed(consumed)
    assert request.consumption is not None
    assert request.consumption.outcome is None
    assert consumed.body == {**before, "consumption": {"consumed_at": request.consumption.consumed_at}}
    assert (await desk.read(request_id)).body == consumed.body


async def test_a_creation_that_is_repeated_shows_the_consumption(desk: Desk) -> None:
    made = (await desk.caller.submit(desk.token, key="again", tool="at_once")).body
    consumed = (await desk.consume(made["id"])).body
    assert (await desk.caller.submit(desk.token, key="again", tool="at_once")).body == consumed


@pytest.mark.parametrize("state", ["pending", "denied", "expired", "cancelled"])
async def test_what_is_not_approved_is_neither_consumed_nor_reported_of(desk: Desk, state: str) -> None:
    request_id = await desk.request(state)
    before = (await desk.read(request_id)).body
    assert before["status"] == state
    consumed, reported = await desk.consume(request_id), await desk.report(request_id, {"status": "failed"})
    assert (consumed.status, consumed.code) == (409, "not_approved")
    assert (reported.status, reported.code) == (409, "not_consumed")
    assert wire.object_from(wire.ErrorBody, consumed.body).error.type == "conflict"
    assert (await desk.read(request_id)).body == before


async def test_a_request_past_its_deadline_is_not_approved_though_nobody_looked(desk: Desk, apart: SetApart) -> None:
    request_id = await desk.request("pending")
    apart.apart(DAY)
    assert (await desk.consume(request_id)).code == "not_approved"
    assert (await desk.read(request_id)).body["status"] == "expired"


async def test_the_same_key_gets_the_same_answer_for_ever(desk: Desk, apart: SetApart) -> None:
    request_id = await desk.request("approved")
    first = await desk.consume(request_id)
    assert (await desk.consume(request_id)).body == first.body
    apart.apart(DAY)  # long after the approval's end
    assert well_formed(await desk.consume(request_id)) == well_formed(first)


async def test_another_key_is_told_that_the_approval_is_spent_also_after_its_end(desk: Desk, apart: SetApart) -> None:
    request_id = await desk.request("approved")
    first = await desk.consume(request_id, "first")
    for offset in (0, DAY):
        apart.apart(offset)
        refused = await desk.consume(request_id, "second")
        assert (refused.status, refused.code) == (409, "already_consumed")
    assert (await desk.consume(request_id, "first")).body == first.body


async def test_an_approval_can_be_consumed_until_it_ends_and_not_then(desk: Desk, apart: SetApart) -> None:
    ended, kept = await desk.request("approved"), await desk.request("approved")
    end = timestamps.parse((await desk.read(ended)).body["decision"]["expires_at"])
    apart.frozen(end)
    refused = await desk.consume(ended)
    assert (refused.status, refused.code) == (409, "approval_expired")
    assert (await desk.report(ended, {"status": "failed"})).code == "not_consumed"
    apart.frozen(timestamps.parse((await desk.read(kept)).body["decision"]["expires_at"]) - 1)
    assert (await desk.consume(kept)).status == 200
    apart.right()
    assert "consumption" not in (await desk.read(ended)).body


async def test_a_clock_that_went_back_consumes_no_earlier_than_the_decision(desk: Desk, apart: SetApart) -> None:
    request_id = await desk.request("approved")
    apart.apart(-DAY)
    request = well_formed(await desk.consume(request_id))
    assert request.consumption is not None
    assert request.decision is not None
    assert request.consumption.consumed_at == request.decision.decided_at
    well_formed(await desk.report(request_id, {"status": "succeeded"}))


async def test_of_many_keys_at_once_one_consumes(desk: Desk) -> None:
    request_id = await desk.request("approved")
    answers = await asyncio.gather(*(desk.consume(request_id, str(number)) for number in range(12)))
    assert sorted(answered.status for answered in answers) == [200] + [409] * 11
    assert {answered.code for answered in answers if answered.status == 409} == {"already_consumed"}


async def test_of_many_repeats_at_once_all_get_one_answer(desk: Desk) -> None:
    request_id = await desk.request("approved")
    answers = await asyncio.gather(*(desk.consume(request_id) for _ in range(12)))
    assert {str(answered.body) for answered in answers} == {str(answers[0].body)}
    assert answers[0].status == 200


async def test_a_key_counts_for_its_request_alone(desk: Desk) -> None:
    one, other = await desk.request("approved"), await desk.request("approved")
    assert [(await desk.consume(each, "shared")).status for each in (one, other)] == [200, 200]


@pytest.mark.parametrize(
    ("how", "status", "code"),
    [
        ({"key": None}, 400, "missing_idempotency_key"),
        ({"key": "a b"}, 400, "invalid_idempotency_key"),
        ({"key": "x" * 256}, 400, "invalid_idempotency_key"),
        ({"body": {"force": True}}, 400, "unknown_field"),
        ({"body": []}, 400, "wrong_type"),
        ({"raw": b"{"}, 400, "not_json"),
        ({"raw": b" " * 1_048_577}, 413, "body_too_large"),
        ({"body": {}, "headers": {"Content-Type": "text/plain"}}, 415, "unsupported_media_type"),
        ({"token": ""}, 401, "invalid_credential"),
        ({"token": "unknown"}, 401, "invalid_credential"),
    ],
)
async def test_a_mistaken_consumption_spends_nothing(desk: Desk, how: dict[str, Any], status: int, code: str) -> None:
    request_id = await desk.request("approved")
    refused = await desk.consume(request_id, **how)
    assert (refused.status, refused.code) == (status, code)
    assert "consumption" not in (await desk.read(request_id)).body
    assert (await desk.consume(request_id, body={})).status == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "missing_field"),
        ({"status": "unknown"}, 400, "unknown_value"),
        ({"status": True}, 400, "unknown_value"),
        ({"status": "failed", "note": None}, 400, "null"),
        ({"status": "failed", "note": 1}, 400, "wrong_type"),
        ({"status": "failed", "reported_at": "2026-09-16T12:02:00Z"}, 400, "unknown_field"),
        (None, 415, "unsupported_media_type"),
    ],
)
async def test_a_mistaken_report_tells_nothing(desk: Desk, body: object, status: int, code: str) -> None:
    request_id = await desk.request("approved")
    consumed = await desk.consume(request_id)
    refused = await desk.report(request_id, body)
    assert (refused.status, refused.code) == (status, code)
    assert (await desk.read(request_id)).body == consumed.body


@pytest.mark.parametrize("told", [{"status": "succeeded"}, {"status": "failed", "note": "karta \N{BLACK HEART SUIT}"}])
async def test_an_outcome_is_told_once_and_repeated_for_ever(desk: Desk, apart: SetApart, told: dict[str, str]) -> None:
    request_id = await desk.request("approved")
    await desk.consume(request_id)
    apart.apart(DAY)  # it may be told after the approval's end
    reported = await desk.report(request_id, told)
    outcome = reported.body["consumption"]["outcome"]
    well_formed(reported)
    assert outcome == {**told, "reported_at": outcome["reported_at"]}
    for again in (await desk.report(request_id, told), await desk.consume(request_id), await desk.read(request_id)):
        assert again.body == reported.body


@pytest.mark.parametrize(
    "other", [{"status": "succeeded", "note": "slow"}, {"status": "failed"}, {"status": "failed", "note": "fast"}]
)
async def test_another_outcome_conflicts_and_the_first_stays(desk: Desk, other: dict[str, str]) -> None:
    request_id = await desk.request("approved")
    await desk.consume(request_id)
    reported = await desk.report(request_id, {"status": "failed", "note": "slow"})
    refused = await desk.report(request_id, other)
    assert (refused.status, refused.code) == (409, "outcome_conflict")
    assert (await desk.read(request_id)).body == reported.body


async def test_an_empty_note_is_none(desk: Desk) -> None:
    request_id = await desk.request("approved")
    await desk.consume(request_id)
    reported = await desk.report(request_id, {"status": "failed", "note": ""})
    assert "note" not in reported.body["consumption"]["outcome"]
    assert (await desk.report(request_id, {"status": "failed"})).body == reported.body


async def test_another_instance_the_provisioner_and_unknown_ids_get_nowhere(desk: Desk) -> None:
    request_id = await desk.request("approved")
    stranger = await desk.caller.credential()
    for asked, token, status in (
        (request_id, stranger, 404),
        (request_id, desk.caller.token, 403),
        (str(uuid.uuid4()), desk.token, 404),
        ("no-uuid", desk.token, 404),
    ):
        assert (await desk.consume(asked, token=token)).status == status
        assert (await desk.report(asked, {"status": "failed"}, token=token)).status == status
    assert "consumption" not in (await desk.read(request_id)).body


async def test_a_deleted_instance_consumes_and_tells_nothing_any_more(desk: Desk) -> None:
    made = (await desk.caller.provision()).body
    mine = Desk(desk.caller, desk.settings, made["credential"]["token"])
    spent, unspent = await mine.request("approved"), await mine.request("approved")
    await mine.consume(spent)
    assert (await desk.caller.call("DELETE", f"/v1/instances/{made['instance']['id']}")).status == 204
    assert (await mine.consume(unspent)).status == 401
    assert (await mine.consume(spent)).status == 401
    assert (await mine.report(spent, {"status": "failed"})).status == 401
    shown = [show_request(desk.settings, each) for each in (spent, unspent)]
    assert [(row["consumed_at"] is None, row["outcome"]) for row in shown] == [(False, None), (True, None)]


async def test_only_post_consumes(desk: Desk) -> None:
    request_id = await desk.request("approved")
    for verb in ("consume", "outcome"):
        refused = await desk.caller.call("GET", f"/v1/requests/{request_id}/{verb}", token=desk.token)
        assert (refused.status, refused.headers["Allow"]) == (405, "POST")
    for path in ("consumption", "consume/", "consume/again", "Consume"):
        assert (await desk.caller.call("POST", f"/v1/requests/{request_id}/{path}", token=desk.token)).status == 404
    assert (await desk.caller.call("POST", f"/v1/instances/{request_id}/consume", key="k")).status == 404


async def test_a_consumption_notifies_nobody_and_is_shown_to_the_reviewer(desk: Desk) -> None:
    request_id = await desk.request("approved")
    await desk.consume(request_id)
    await desk.report(request_id, {"status": "failed", "note": "no card"})
    row = next(row for row in list_requests(desk.settings) if row["request_id"] == request_id)
    assert (row["outcome"], row["outcome_note"], row["attempts"]) == ("failed", "no card", None)
    shown = show_request(desk.settings, request_id)
    assert timestamps.parse(str(shown["consumed_at"])) <= timestamps.parse(str(shown["reported_at"]))


async def test_the_database_itself_keeps_a_consumption(desk: Desk, settings: Settings) -> None:
    approved, denied = await desk.request("approved"), await desk.request("denied")
    spent = await desk.request("approved")
    await desk.consume(spent)
    await desk.report(spent, {"status": "succeeded"})
    far = timestamps.parse((await desk.read(approved)).body["decision"]["expires_at"]) + SECOND
    with closing(sqlite3.connect(settings.provider_database_path, isolation_level=None)) as raw:
        for statement, values in (
            ("INSERT INTO consumptions (request_id, idempotency_key, consumed_at) VALUES (?, 'k', ?)", (denied, 1)),
            ("INSERT INTO consumptions (request_id, idempotency_key, consumed_at) VALUES (?, 'k', ?)", (approved, far)),
            ("UPDATE consumptions SET outcome = 'failed' WHERE request_id = ?", (spent,)),
            ("UPDATE consumptions SET idempotency_key = 'other' WHERE request_id = ?", (spent,)),
            ("DELETE FROM consumptions WHERE request_id = ?", (spent,)),
        ):
            with pytest.raises(sqlite3.IntegrityError):
                raw.execute(statement, values)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A store as a provider before consumption has made it."""
    path = tmp_path / "provider.db"
    with closing(sqlite3.connect(path)) as raw:
        for statement in queries.load("wakegate_provider", "sql/schema").values():
            raw.execute(statement)
        raw.execute("PRAGMA user_version = 2")
    path.chmod(0o600)
    return path


async def test_a_store_without_consumption_is_brought_up_to_date_at_the_start(earlier: Path) -> None:
    settings = provider_settings(earlier.parent, "consumption = true")
    with pytest.raises(StoreOutdated, match="start the provider"):
        open_store(earlier, create=False)
    async with provider(settings) as called:
        desk = Desk(called, settings, await called.credential())
        request_id = await desk.request("approved")
        consumed = await desk.consume(request_id)
    assert consumed.status == 200
    async with provider(settings) as called:  # and stays so
        assert (await Desk(called, settings, desk.token).read(request_id)).body == consumed.body
    open_store(earlier, create=False).close()


async def test_an_update_of_the_store_is_all_or_nothing(earlier: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    added = {"first": "CREATE TABLE consumptions (request_id TEXT)", "second": "CREATE TABLE requests (x)"}
    plain = queries.load
    monkeypatch.setattr(
        queries, "load", lambda package, *folders: added if folders == ("sql/added",) else plain(package, *folders)
    )
    with pytest.raises(Exception, match="already exists"):
        open_store(earlier, create=True)
    monkeypatch.undo()
    store: ProviderStore = open_store(earlier, create=True)
    assert store.all("list_requests", status=None, limit=-1) == []
    store.close()


async def test_an_older_provider_has_no_consumption_and_still_shows_what_is_spent(tmp_path: Path) -> None:
    newer = provider_settings(tmp_path, "consumption = true")
    async with provider(newer) as called:
        desk = Desk(called, newer, await called.credential())
        spent, unspent = await desk.request("approved"), await desk.request("approved")
        consumed = await desk.consume(spent)
    older = provider_settings(tmp_path, "")
    async with provider(older) as called:
        desk = Desk(called, older, desk.token)
        for request_id in (spent, unspent):
            for answered in (await desk.consume(request_id), await desk.report(request_id, {"status": "failed"})):
                assert (answered.status, answered.code) == (404, "not_found")
        assert (await desk.read(spent)).body == consumed.body
        assert "consumption" not in (await desk.read(unspent)).body
