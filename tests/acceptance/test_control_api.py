"""The control API: every verb over real sockets, as a harness in any language would use it."""

import asyncio
import hashlib
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.control import OTHERS, Site, Voice, by_token, by_uid, control_process, control_site, token_of
from support.desk import Desk, approved
from support.receivers import PROVIDER, Client, Running, request_bytes, stalled
from wakegate_receiver.control.verbs import CHUNK, PAGE_BYTES
from wakegate_schema import clock, timestamps
from wakegate_schema.downstream import downstream_key
from wakegate_schema.records import Outcome
from wakegate_schema.states import State

CALL = {"tool": "issue_refund", "arguments": {"amount": 4900}, "key": "run-7:call-2"}
STANDING = {
    "id", "execution_id", "key", "instance_id", "request_id", "tool", "state", "reason", "note", "decided_at",
    "expires_at", "result", "error", "finished_at", "group", "explanation", "runs", "wake", "problem", "hold_id",
    "created_at", "deadline_at", "claim_id", "started_at",
}  # fmt: skip


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with control_site({"desk": by_token("desk", "refund-desk")}) as found:
        yield found


@pytest.fixture
async def desk(site: Site) -> Desk:
    return await Desk(site.store, name="refund-desk").open()


@pytest.fixture
async def ask(site: Site, desk: Desk) -> AsyncIterator[Voice]:
    del desk
    async with site.voice("desk") as voice:
        yield voice


async def claimed(ask: Voice, desk: Desk) -> tuple[str, dict[str, Any]]:
    execution = await desk.permitted(approved(clock.HOUR))
    taken = await ask("POST", f"/v1/executions/{execution.execution_id}/claim", {"claim_id": "c"})
    assert taken.status == 200
    return execution.execution_id, taken.value["attempt"]


# Saving and looking


async def test_a_call_is_saved_once_for_its_key(ask: Voice, desk: Desk) -> None:
    first = await ask("POST", "/v1/executions", CALL)
    assert (first.status, first.value["created"]) == (201, True)
    assert first.value.keys() == STANDING | {"created"}
    assert first.value["state"] == "saved"
    again = await ask("POST", "/v1/executions", CALL)
    assert (again.status, again.value) == (200, first.value | {"created": False})
    other = await ask("POST", "/v1/executions", {**CALL, "arguments": {"amount": 1}})
    assert (other.status, other.reason) == (409, "idempotency_conflict")
    (_, saved), *more = await desk.store.executions()
    assert (more, saved.arguments) == ([], b'{"amount":4900}')


async def test_every_part_of_a_call_reaches_the_store(ask: Voice, desk: Desk) -> None:
    whole = {
        **CALL, "instance": desk.instance_id, "timeout": "45s", "reasoning": "charged twice", "context": {"é": [None]},
        "group": "turn-1", "version": "2", "runs": "harness", "wake": "my-harness",
        "hold": {"id": "hold-1", "seconds": 12.5},
    }  # fmt: skip
    answer = await ask("POST", "/v1/executions", whole)
    assert answer.status == 201
    saved = await desk.store.execution(answer.value["execution_id"])
    assert (saved.timeout, saved.reasoning, saved.context) == ("45s", "charged twice", '{"é":[null]}'.encode())
    assert (saved.group, saved.tool_version, saved.runs, saved.wake) == ("turn-1", "2", "harness", "my-harness")
    assert (saved.hold_id, saved.hold_until) == ("hold-1", saved.created_at + 12_500_000)
    nulls = {**CALL, "key": "nulls", "instance": None, "reasoning": None, "context": None, "group": None, "hold": None}
    assert (await ask("POST", "/v1/executions", nulls)).status == 201


async def test_whole_numbers_are_exact_and_doubles_are_what_was_written(ask: Voice, desk: Desk) -> None:
    written = b'{"big":123456789012345678901234567890,"a":0.1,"b":1e2,"c":-0.0,"d":5e-324}'
    body = b'{"tool":"t","key":"k","arguments":%b}' % written
    answer = await ask("POST", "/v1/executions", body)
    assert answer.status == 201
    saved = await desk.store.execution(answer.value["execution_id"])
    assert saved.arguments == b'{"big":123456789012345678901234567890,"a":0.1,"b":100.0,"c":-0.0,"d":5e-324}'


@pytest.mark.parametrize(
    "number", ["0.1000000000000000055", "1e400", "3.14159265358979323846", "1e-400", "9007199254740993.5"]
)
async def test_a_number_that_a_double_does_not_hold_is_named(ask: Voice, number: str) -> None:
    body = b'{"tool":"t","key":"k","arguments":{"items":[{"price":%b}]}}' % number.encode()
    answer = await ask("POST", "/v1/executions", body)
    assert (answer.status, answer.reason) == (400, "number_not_exact")
    assert answer.value["path"] == "arguments.items[0].price"
    assert number not in answer.body.decode()


async def test_a_call_is_shown_by_its_id_in_any_case(ask: Voice) -> None:
    saved = (await ask("POST", "/v1/executions", CALL)).value
    for path in (saved["execution_id"], saved["execution_id"].upper(), saved["execution_id"].replace("-", "%2D")):
        assert (await ask("GET", f"/v1/executions/{path}")).value == {
            name: value for name, value in saved.items() if name != "created"
        }


async def test_a_wait_ends_when_the_call_changes_and_not_before(ask: Voice, desk: Desk) -> None:
    saved = (await ask("POST", "/v1/executions", CALL)).value
    path = f"/v1/executions/{saved['execution_id']}"
    assert (await ask("GET", f"{path}?unlike=another&wait=60")).value["id"] == saved["id"]
    assert (await ask("GET", f"{path}?wait=60")).value["id"] == saved["id"], "without a version nothing is waited for"
    assert (await ask("GET", f"{path}?unlike={saved['id']}&wait=0.1")).value["id"] == saved["id"]
    waiting = asyncio.create_task(ask("GET", f"{path}?unlike={saved['id']}&wait=60"))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await desk.store.abandon(saved["execution_id"], "closed", "harness:desk", clock.now())
    async with asyncio.timeout(5):
        assert (await waiting).value["state"] == "abandoned"


async def test_pages_lead_from_the_latest_to_the_first(ask: Voice, desk: Desk) -> None:
    saved = [(await desk.save(group="g" if number % 2 else None)).execution_id for number in range(60)]

    async def walk(query: str) -> list[str]:
        seen: list[str] = []
        following: int | None = None
        while True:
            page = (await ask("GET", f"/v1/executions?{query}" + (f"&before={following}" if following else ""))).value
            seen += [each["execution_id"] for each in page["executions"]]
            following = page["next"]
            if following is None:
                return seen

    assert await walk("limit=7") == saved[::-1] == await walk("limit=500")
    assert await walk("limit=4&group=g") == saved[1::2][::-1]
    assert await walk("limit=30&state=saved") == saved[::-1]
    assert await walk("limit=30&state=denied") == []


async def test_a_page_of_large_calls_ends_early_and_goes_on(ask: Voice, desk: Desk) -> None:
    result = json.dumps("x" * 250_000).encode()
    store = desk.store
    for _ in range(60):
        started = await desk.started()
        await store.finish(started.lease, Outcome("succeeded", "returned", result=result), clock.now())
    page = (await ask("GET", "/v1/executions?limit=60")).value
    assert 0 < len(page["executions"]) < 60
    rest = (await ask("GET", f"/v1/executions?limit=60&before={page['next']}")).value
    assert rest["executions"]


# Holds, claims, outcomes


async def test_a_hold_is_kept_until_it_is_lost(ask: Voice) -> None:
    saved = (await ask("POST", "/v1/executions", {**CALL, "hold": {"id": "h", "seconds": 30}})).value
    path = f"/v1/executions/{saved['execution_id']}/hold"
    assert saved["hold_id"] == "h"
    assert (await ask("POST", path, {"id": "h", "seconds": 0.5})).value == {"held": True}
    assert (await ask("POST", path, {"id": "another", "seconds": 30})).value == {"held": False}
    await asyncio.sleep(0.6)
    assert (await ask("POST", path, {"id": "h", "seconds": 30})).value == {"held": False}


async def test_a_claim_gives_the_exact_call_once(ask: Voice, desk: Desk) -> None:
    execution = await desk.permitted(approved(clock.HOUR))
    path = f"/v1/executions/{execution.execution_id}/claim"
    first = (await ask("POST", path, {"claim_id": "mine"})).value
    assert first["execution"]["state"] == "started"
    assert first["attempt"]["arguments"] == {"amount": 4900}
    assert first["attempt"]["idempotency_key"] == downstream_key(execution.execution_id)
    assert first["attempt"]["lease_seconds"] == 30
    assert timestamps.parse(first["attempt"]["start_before"]) == execution.expires_at
    again = (await ask("POST", path, {"claim_id": "mine"})).value
    assert again["attempt"]["number"] == first["attempt"]["number"]
    assert again["attempt"]["token"] != first["attempt"]["token"]
    other = await ask("POST", path, {"claim_id": "another"})
    assert (other.status, other.reason) == (409, "already_started")
    assert other.value["execution"]["claim_id"] == "mine"
    assert "claim mine" in other.value["message"]
    finish = f"/v1/executions/{execution.execution_id}/finish"
    stale = {"number": first["attempt"]["number"], "token": first["attempt"]["token"], "outcome": "succeeded"}
    assert (await ask("POST", finish, stale)).reason == "not_your_attempt"
    grant = {"number": again["attempt"]["number"], "token": again["attempt"]["token"]}
    done = {**grant, "outcome": "succeeded", "result": [1.5]}
    for _ in range(2):
        ended = await ask("POST", finish, done)
        assert (ended.status, ended.value["state"], ended.value["result"]) == (200, "succeeded", [1.5])


async def test_a_claim_whose_answer_was_lost_is_repeated(site: Site, ask: Voice, desk: Desk) -> None:
    for pause in (0.0, 0.001, 0.01, 0.05):
        execution = await desk.permitted(approved(clock.HOUR))
        path = f"/v1/executions/{execution.execution_id}/claim"
        losing = asyncio.create_task(ask("POST", path, {"claim_id": "mine"}))
        await asyncio.sleep(pause)
        losing.cancel()
        await asyncio.wait({losing})
        again = await ask("POST", path, {"claim_id": "mine"})
        assert (again.status, again.value["execution"]["state"]) == (200, "started")
        grant = {"number": again.value["attempt"]["number"], "token": again.value["attempt"]["token"]}
        renewed = await ask("POST", f"/v1/executions/{execution.execution_id}/renew", grant)
        assert renewed.value == {"kept": True, "settled": False}
        states = [each.to_state for each in await site.store.transitions(execution.execution_id)]
        assert states.count(State.STARTED) == 1


@pytest.mark.parametrize(
    ("state", "reason"),
    [("saved", "runs_in_worker"), ("held", "saved"), ("late", "too_late"), ("abandoned", "abandoned")],
)
async def test_a_claim_that_is_refused_says_where_the_call_stands(
    ask: Voice, desk: Desk, state: str, reason: str
) -> None:
    if state == "saved":
        execution = await desk.save()
    elif state == "late":
        execution = await desk.permitted(approved(clock.SECOND))
    else:
        execution = await desk.save(runs="harness")
    if state == "abandoned":
        await desk.store.abandon(execution.execution_id, "closed", "harness", clock.now())
    answer = await ask("POST", f"/v1/executions/{execution.execution_id}/claim", {"claim_id": "c"})
    assert (answer.status, answer.reason) == (409, reason)
    assert answer.value.keys() == {"reason", "message", "execution"}
    assert answer.value["execution"].keys() == STANDING


async def test_a_lease_is_renewed_and_its_loss_is_told(ask: Voice, desk: Desk) -> None:
    execution_id, attempt = await claimed(ask, desk)
    grant = {"number": attempt["number"], "token": attempt["token"]}
    path = f"/v1/executions/{execution_id}/renew"
    assert (await ask("POST", path, grant)).value == {"kept": True, "settled": False}
    await desk.store.sweep(clock.now() + clock.HOUR)
    assert (await ask("POST", path, grant)).value == {"kept": False, "settled": False}
    late = {**grant, "outcome": "succeeded", "result": None}
    assert (await ask("POST", f"/v1/executions/{execution_id}/finish", late)).value["state"] == "succeeded"
    assert (await ask("POST", path, grant)).value == {"kept": False, "settled": True}
    assert (await ask("POST", path, {**grant, "token": "wrong"})).value == {"kept": False, "settled": True}


@pytest.mark.parametrize(
    ("told", "state", "reason", "error"),
    [
        ({"outcome": "succeeded", "result": {"id": "re_1"}}, "succeeded", "returned", None),
        ({"outcome": "succeeded"}, "succeeded", "returned", None),
        ({"outcome": "succeeded", "result": "x" * 262_144}, "succeeded", "result_too_large", "the result is not kept"),
        ({"outcome": "failed", "error": "card\ndeclined"}, "failed", "tool_failed", "card declined"),
        ({"outcome": "failed", "reason": "declined"}, "failed", "declined", "no reason was given"),
        ({"outcome": "in_doubt", "error": "x" * 600}, "in_doubt", "outcome_unknown", "x" * 499 + "…"),
        ({"outcome": "not_begun"}, "lapsed", "not_begun", "no reason was given"),
    ],
)
async def test_an_outcome_is_recorded_as_it_is_told(
    ask: Voice, desk: Desk, told: dict[str, Any], state: str, reason: str, error: str | None
) -> None:
    execution_id, attempt = await claimed(ask, desk)
    body = {"number": attempt["number"], "token": attempt["token"], **told}
    answer = await ask("POST", f"/v1/executions/{execution_id}/finish", body)
    assert (answer.status, answer.value["state"], answer.value["reason"]) == (200, state, reason)
    assert (answer.value["error"] or "").startswith(error or "")
    assert (answer.value["error"] is None) == (error is None)


async def test_a_call_is_given_up_before_it_starts_only(ask: Voice, desk: Desk) -> None:
    saved = (await ask("POST", "/v1/executions", CALL)).value
    path = f"/v1/executions/{saved['execution_id']}/abandon"
    for _ in range(2):
        assert (await ask("POST", path, {"reason": "conversation closed"})).value["state"] == "abandoned"
    execution_id, _ = await claimed(ask, desk)
    answer = await ask("POST", f"/v1/executions/{execution_id}/abandon", {"reason": "closed"})
    assert (answer.status, answer.reason) == (409, "already_started")


async def test_a_group_is_sealed_and_takes_no_further_call(ask: Voice, site: Site) -> None:
    name = "turn 1/é?".encode().hex()  # any visible ASCII will do; what is not must be escaped
    group = "turn-1/x?y%z"
    for number in range(2):
        await ask("POST", "/v1/executions", {**CALL, "key": f"{name}{number}", "group": group})
    for _ in range(2):
        sealed = await ask("POST", "/v1/groups/turn-1%2Fx%3Fy%25z/seal")
        assert (sealed.status, [each["group"] for each in sealed.value["executions"]]) == (200, [group, group])
    refused = await ask("POST", "/v1/executions", {**CALL, "key": "third", "group": group})
    assert (refused.status, refused.reason) == (409, "group_sealed")
    (page,) = [(await ask("GET", "/v1/executions?group=turn-1/x?y%25z")).value]
    assert len(page["executions"]) == 2
    async with site.voice("desk") as again:
        assert (await again("POST", "/v1/groups/nobodys/seal", {})).status == 404


async def test_a_group_of_large_results_is_sealed_page_by_page(ask: Voice, desk: Desk) -> None:
    """However many calls a group has, the receiver holds a few of them at a time."""
    ids, store, result = [], desk.store, json.dumps("x" * 250_000).encode()
    for _ in range(30):
        waiting, now = await desk.waiting(group="turn"), clock.now()
        started = await store.start(waiting.lease, approved(), now, now + clock.MINUTE)
        assert started is not None
        await store.finish(started.lease, Outcome("succeeded", "returned", result=result), now)
        ids.append(waiting.execution_id)
    first = await ask("POST", "/v1/groups/turn/seal")
    assert len(first.body) < PAGE_BYTES + CHUNK * 260_000
    rest = await ask("POST", "/v1/groups/turn/seal", {"after": first.value["next"]})
    assert [each["execution_id"] for page in (first, rest) for each in page.value["executions"]] == ids
    assert rest.value["next"] is None
    one = await ask("POST", "/v1/groups/turn/seal", {"limit": 1})
    assert [each["execution_id"] for each in one.value["executions"]] == ids[:1]
    refused = await ask("POST", "/v1/groups/turn/seal", {"after": 1})
    assert (refused.status, refused.reason, refused.value["path"]) == (400, "bad_parameter", "after")
    del desk


# Who asks


async def test_who_asks_is_known_by_the_user_or_by_the_token() -> None:
    tables = {"own": by_uid(os.geteuid(), "a"), "desk": by_token("desk", "b")}
    async with control_site(tables) as site, site.voice() as own, site.voice("desk") as desk, site.voice("x") as wrong:
        assert (await own("GET", "/v1/harness")).value["harness"] == "own"
        assert (await desk("GET", "/v1/harness")).value["harness"] == "desk", "a token says more than the user"
        answer = await wrong("GET", "/v1/harness")
        assert (answer.status, answer.reason) == (401, "unauthenticated")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        for header in ("Basic eDp5", "Bearer", "Bearer a b", "", "Bearer " + "x" * 5000):
            assert (await own("GET", "/v1/harness", Authorization=header)).status == 401


async def test_the_receivers_own_user_needs_no_table(site: Site, desk: Desk) -> None:
    async with site.voice() as own:
        found = await own("GET", "/v1/harness")
        assert (found.value["harness"], [each["name"] for each in found.value["instances"]]) == (None, [desk.name])
        saved = (await own("POST", "/v1/executions", CALL)).value
        (first,) = await desk.store.transitions(saved["execution_id"])
        assert first.actor == "harness"


@pytest.mark.skipif(os.geteuid() != 0 and not os.environ.get("CI"), reason="only root may become another user")
async def test_a_user_whom_no_table_names_is_told_what_to_do() -> None:
    async with (
        control_site({"desk": by_uid(OTHERS[0], "desk")}) as site,
        site.another(OTHERS[1]) as stranger,
        site.another(OTHERS[0]) as known,
    ):
        answer = await stranger("GET", "/v1/harness")
        assert (answer.status, answer.reason) == (403, "harness_unknown")
        assert f"--uid {OTHERS[1]}" in answer.value["message"]
        assert "wakegate harness add" in answer.value["message"]
        assert (await known("GET", "/v1/harness")).value["harness"] == "desk"
        assert (await stranger("GET", "/healthz")).status == 200


async def test_tcp_wants_a_token_for_everything_but_health() -> None:
    async with control_site({"desk": by_token("desk", "x")}, tcp=True) as site, site.voice() as nobody:
        for path in ("/v1/harness", "/v1/executions", "/v1/resolutions", "/v1/openapi.json", "/v1/nothing"):
            assert (await nobody("GET", path)).status == 401
        assert (await nobody("GET", "/healthz")).status == 200
        assert (await nobody("GET", "/readyz")).status == 200
        assert (await nobody("GET", "/metrics")).status == 200
        async with site.voice("desk") as desk:
            assert (await desk("GET", "/v1/harness")).status == 200


async def test_a_harness_loses_access_with_its_next_request(site: Site, ask: Voice) -> None:
    assert (await ask("GET", "/v1/harness")).status == 200
    site.tables({"desk": by_token("desk", "another-desk")})
    assert (await ask("GET", "/v1/harness")).value["instances"] == []
    site.tables({})
    assert (await ask("GET", "/v1/harness")).status == 401
    site.tables({"desk": by_token("desk", "refund-desk")})
    assert len((await ask("GET", "/v1/harness")).value["instances"]) == 1


async def test_a_harness_that_is_taken_out_while_its_body_comes_does_nothing_more(site: Site, desk: Desk) -> None:
    body = json.dumps(CALL).encode()
    head = (
        "POST /v1/executions HTTP/1.1\r\nHost: control\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {token_of('desk')}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_unix_connection(str(site.settings.control_address))
    writer.write(head.encode() + body[:-1])
    async with site.voice("desk") as ask:
        assert (await ask("GET", "/v1/harness")).status == 200
    site.tables({})
    writer.write(body[-1:])
    async with asyncio.timeout(10):
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 401 ")
    writer.close()
    assert await desk.store.executions() == []


async def test_a_file_that_cannot_be_read_refuses_every_harness_until_it_is_mended(site: Site, ask: Voice) -> None:
    for text in ("[harness.desk]\nuid = 'x'\ninstances = ['secret-name']\n", "[harness", "[harness.desk]\n"):
        site.tables(text)
        async with site.voice() as own, site.voice("x") as wrong:
            for voice in (ask, own, wrong):
                answer = await voice("GET", "/v1/harness")
                assert (answer.status, answer.reason) == (503, "harnesses_unreadable")
                assert "secret-name" not in answer.body.decode()
                assert int(answer.headers["Retry-After"]) > 0
    site.tables({"desk": by_token("desk", "refund-desk")})
    assert (await ask("GET", "/v1/harness")).status == 200


async def test_a_wait_ends_when_the_table_changes(site: Site, ask: Voice) -> None:
    saved = (await ask("POST", "/v1/executions", CALL)).value
    path = f"/v1/executions/{saved['execution_id']}?unlike={saved['id']}&wait=60"
    wider, other = by_token("desk", "refund-desk", "more"), by_token("desk", "more")
    for tables, status in (({"desk": wider}, 200), ({"desk": other}, 404), ({}, 401)):
        waiting = asyncio.create_task(ask("GET", path))
        await asyncio.sleep(0.3)
        site.tables(tables)
        async with asyncio.timeout(10):
            assert (await waiting).status == status
        site.tables({"desk": by_token("desk", "refund-desk")})


def test_tokens_are_kept_as_digests_only() -> None:
    digest = by_token("desk", "x")["token_sha256"]
    assert digest == hashlib.sha256(token_of("desk").encode()).hexdigest()


# Bounds


async def test_more_requests_at_once_than_a_harness_may_have_are_429(site: Site, ask: Voice) -> None:
    saved = (await ask("POST", "/v1/executions", CALL)).value
    path = f"/v1/executions/{saved['execution_id']}?unlike={saved['id']}&wait=60"
    waits = [asyncio.create_task(ask("GET", path)) for _ in range(128)]
    await asyncio.sleep(1.5)
    refused = await ask("GET", "/v1/harness")
    assert (refused.status, refused.reason, refused.headers["Retry-After"]) == (429, "too_many_requests", "1")
    async with site.voice() as own:
        assert (await own("GET", "/v1/harness")).status == 200, "another harness has places of its own"
    await asyncio.gather(*(_cancelled(wait) for wait in waits[:100]))
    async with asyncio.timeout(10):
        while (await ask("GET", "/v1/harness")).status == 429:
            await asyncio.sleep(0.05)
    await site.store.abandon(saved["execution_id"], "closed", "harness:desk", clock.now())
    assert {answer.status for answer in await asyncio.gather(*waits[100:])} == {200}


async def _cancelled(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.wait({task})


async def test_a_harness_that_asks_too_often_is_429(ask: Voice) -> None:
    answers = [await asyncio.gather(*(ask("GET", "/v1/harness") for _ in range(100))) for _ in range(6)]
    refused = [reply for some in answers for reply in some if reply.status == 429]
    assert {reply.reason for reply in refused} <= {"rate_limit"}
    assert all(reply.headers["Retry-After"] == "1" for reply in refused)
    await asyncio.sleep(1.1)
    assert (await ask("GET", "/v1/harness")).status == 200


# The store, and the stop


async def test_a_store_that_does_not_answer_is_503(site: Site, ask: Voice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wakegate_receiver.control.app.REQUEST_S", 0.5)
    with stalled(site.settings):
        answer = await ask("POST", "/v1/executions", CALL)
    assert (answer.status, answer.reason) == (503, "store_timeout")
    assert int(answer.headers["Retry-After"]) > 0
    again = await ask("POST", "/v1/executions", CALL)
    assert again.status in (200, 201), "the key tells a repeat"


async def test_a_store_that_is_not_there_is_503(site: Site, ask: Voice) -> None:
    database = site.settings.database_path
    await ask("POST", "/v1/executions", CALL)
    hidden = database.rename(database.with_name("hidden.db"))
    answer = await ask("POST", "/v1/executions", {**CALL, "key": "second"})
    assert (answer.status, answer.reason) == (503, "store_unavailable")
    assert str(site.folder) not in answer.body.decode()
    hidden.rename(database)
    assert (await ask("POST", "/v1/executions", {**CALL, "key": "second"})).status == 201


async def test_a_stop_answers_what_waits_ends_streams_and_refuses_what_comes() -> None:
    async with (
        control_process({"desk": by_token("desk", "refund-desk")}, shutdown_timeout=4) as (site, process),
        site.voice("desk") as ask,
    ):
        registered = await Running(receiver=None, settings=site.settings, store=site.store, stop=site.stop).register()  # type: ignore[arg-type]
        instance = Desk(site.store, PROVIDER, registered.instance_id, name="refund-desk").instance()
        await site.store.add_instance(instance, registered.registration_id)
        saved = (await ask("POST", "/v1/executions", CALL)).value
        path = f"/v1/executions/{saved['execution_id']}?unlike={saved['id']}&wait=60"
        waits = [asyncio.create_task(ask("GET", path)) for _ in range(3)]
        address = urlsplit(site.url)
        async with site.stream("desk") as stream, Client((address.hostname or "", address.port or 0)) as sender:
            assert (await stream.next())[1] == "ready"
            with stalled(site.settings):  # a webhook that is not on disk yet keeps the stop waiting
                await sender.send(request_bytes(registered.sender.notification()))
                await asyncio.sleep(0.5)
                process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(3):
                    assert await stream.ends() == []
                    assert {(await wait).value["state"] for wait in waits} == {"saved"}
                refused = await ask("GET", "/v1/harness")
                assert (refused.status, refused.reason) == (503, "draining")
                assert int(refused.headers["Retry-After"]) > 0
                assert (await ask("GET", "/healthz")).status == 200
            assert (await sender.reply()).status == 204
        async with asyncio.timeout(8):
            assert await process.wait() == 0


async def test_the_document_is_served(ask: Voice) -> None:
    found = await ask("GET", "/v1/openapi.json")
    assert (found.status, found.value["openapi"]) == (200, "3.1.0")
