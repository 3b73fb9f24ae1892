"""Isolation: whatever a harness asks about another's calls is answered as for calls that do not exist."""

import asyncio
import itertools
import json
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from typing import Any

import pytest

from support.control import OTHERS, Reply, Site, Voice, by_token, by_uid, control_site
from support.desk import Desk, approved, new_id
from wakegate_receiver import binding
from wakegate_schema import clock
from wakegate_schema.records import Claimed, Execution, Outcome

WAYS = [
    "token over TCP",
    "token over the socket",
    pytest.param(
        "user",
        marks=pytest.mark.skipif(
            os.geteuid() != 0 and not os.environ.get("CI"), reason="only root may become another user"
        ),
    ),
]
NOBODYS = "00000000-0000-4000-8000-000000000000"
GROUP, NO_GROUP = "turn-of-b", "turn-of-x"
KEY = "key-of-b"


@dataclass
class Two:
    """Two harnesses, each with an instance; the first one speaks, and the second one has calls in every state."""

    site: Site
    ask: Voice
    ours: Desk
    theirs: Desk
    calls: dict[str, Execution]
    """The second one's calls, by what they are."""
    token: str
    """Of the second one's attempt that runs."""

    def everything(self) -> list[Any]:
        """All that is on record, as it stands."""
        with closing(sqlite3.connect(self.site.settings.database_path)) as raw:
            tables = ("execution", "transition", "wake", "resolution", "call_group", "instance", "anomaly")
            return [raw.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in tables]


async def calls_of(desk: Desk) -> tuple[dict[str, Execution], str]:
    store, now = desk.store, clock.now()
    permitted = await desk.permitted(approved(clock.HOUR))
    started = await desk.permitted(approved(clock.HOUR))
    claimed = await store.claim(started.execution_id, "claim-of-b", now, now + clock.HOUR, 0)
    assert isinstance(claimed, Claimed)
    done = await desk.started()
    await store.finish(done.lease, Outcome("succeeded", "returned", result=b'"b"'), clock.now())
    held = await desk.save(hold_id="hold-of-b", hold_until=now + clock.HOUR, runs="harness")
    sealed = await desk.save(group="sealed-of-b", wake="desk")
    await store.seal_group(desk.provider, desk.instance_id, "sealed-of-b", now)
    calls = {
        "saved": await desk.save(idempotency_key=KEY, group=GROUP),
        "held": held,
        "sealed": sealed,
        "submitting": await desk.submitting(),
        "waiting": await desk.waiting(),
        "permitted": permitted,
        "started": started,
        "succeeded": done,
    }
    return calls, claimed.attempt_token


@asynccontextmanager
async def two_harnesses(way: str) -> AsyncIterator[Two]:
    def table(uid: int, name: str) -> Any:
        return by_uid(uid, name) if way == "user" else by_token(name, name)

    tables = {"alpha": table(OTHERS[0], "alpha"), "beta": table(OTHERS[1], "beta")}
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(control_site(tables, tcp=way == "token over TCP"))
        voice = site.another(OTHERS[0]) if way == "user" else site.voice("alpha")
        ask = await stack.enter_async_context(voice)
        ours, theirs = await Desk(site.store, name="alpha").open(), await Desk(site.store, name="beta").open()
        calls, token = await calls_of(theirs)
        yield Two(site, ask, ours, theirs, calls, token)


@pytest.fixture(params=WAYS)
async def two(request: pytest.FixtureRequest) -> AsyncIterator[Two]:
    async with two_harnesses(request.param) as found:
        yield found


def verbs(two: Two, execution: Execution) -> list[tuple[str, str, Any]]:
    """Everything that may be asked about one call, with the second harness's real numbers, tokens and ids."""
    number = execution.attempt_number or 4
    grant = {"number": number, "token": two.token}
    return [
        ("GET", "", None),
        ("GET", "?wait=0.2", None),
        ("GET", f"?unlike={execution.execution_id}_1&wait=0.2", None),
        ("POST", "/hold", {"id": "hold-of-b", "seconds": 30}),
        ("POST", "/claim", {"claim_id": "claim-of-b"}),
        ("POST", "/claim", {"claim_id": "claim-of-a"}),
        ("POST", "/renew", grant),
        ("POST", "/finish", {**grant, "outcome": "succeeded", "result": 1}),
        ("POST", "/finish", {**grant, "outcome": "not_begun"}),
        ("POST", "/abandon", {"reason": "taken over"}),
        ("GET", "/claim", None),
        ("POST", "/claim", {"claim_id": ""}),
    ]


def told(reply: Reply, *names: str) -> tuple[int, dict[str, str], bytes]:
    """An answer without what names the call, or the moment."""
    body = reply.body
    for name in names:
        body = body.replace(name.encode(), b"?")
    return (
        reply.status,
        {key: value for key, value in reply.headers.items() if key not in ("Date", "Content-Length")},
        body,
    )


async def test_every_verb_on_anothers_call_answers_as_for_one_that_does_not_exist(two: Two) -> None:
    before = two.everything()
    for kind, execution in two.calls.items():
        for method, path, body in verbs(two, execution):
            answers = [
                told(await two.ask(method, f"/v1/executions/{asked}{path}", body), asked)
                for asked in (execution.execution_id, execution.execution_id.upper(), NOBODYS)
            ]
            theirs, shouted, nobodys = answers
            assert theirs == nobodys, (kind, method, path)
            assert shouted[0] == nobodys[0], (kind, method, path)
            assert nobodys[0] in (404, 405, 400)
            assert nobodys[0] == 404 or path == "/claim"
    assert two.everything() == before, "nothing was changed by asking"


async def test_anothers_group_is_a_group_that_does_not_exist(two: Two) -> None:
    before = two.everything()
    for instance in ({}, {"instance": "alpha"}, {"instance": two.ours.instance_id}):
        answers = [
            told(await two.ask("POST", f"/v1/groups/{group}/seal", instance), group) for group in (GROUP, NO_GROUP)
        ]
        assert answers[0] == answers[1]
        assert answers[0][0] == 404
    assert two.everything() == before


async def test_anothers_instance_is_an_instance_that_does_not_exist(two: Two) -> None:
    call = {"tool": "t", "arguments": {}, "key": KEY, "runs": "harness"}
    before = two.everything()
    for theirs, nobodys in (("beta", "zeta"), (two.theirs.instance_id, NOBODYS)):
        for path, body in (("/v1/executions", call), (f"/v1/groups/{GROUP}/seal", {})):
            answers = [
                told(await two.ask("POST", path, {**body, "instance": name}), name) for name in (theirs, nobodys)
            ]
            assert answers[0] == answers[1]
            assert (answers[0][0], json.loads(answers[0][2])["reason"]) == (400, "instance_unclear")
            assert "beta" not in answers[0][2].decode()
    assert two.everything() == before


async def test_keys_and_groups_of_another_are_free(two: Two) -> None:
    for call in (
        {"tool": "another_tool", "arguments": {"x": 1}, "key": KEY, "group": "sealed-of-b", "runs": "harness"},
        {"tool": "issue_refund", "arguments": {"amount": 4900}, "key": "claim-of-b", "group": GROUP, "wake": "desk"},
    ):
        saved = await two.ask("POST", "/v1/executions", call)
        assert (saved.status, saved.value["created"]) == (201, True)
        assert saved.value["instance_id"] == two.ours.instance_id
    sealed = await two.ask("POST", f"/v1/groups/{GROUP}/seal", {})
    assert [each["key"] for each in sealed.value["executions"]] == ["claim-of-b"]
    assert (await two.site.store.execution(two.calls["saved"].execution_id)).state == "saved"


async def test_who_am_i_names_nobody_else(two: Two) -> None:
    found = await two.ask("GET", "/v1/harness")
    mine = {"instance_id": two.ours.instance_id, "name": "alpha", "state": "active"}
    assert found.value == {"harness": "alpha", "instances": [mine]}


async def test_lists_hold_ones_own_calls_and_no_trace_of_others(two: Two) -> None:
    empty: dict[str, Any] = {"executions": [], "next": None}
    for query in ("", f"?group={GROUP}", "?state=permitted", "?state=succeeded&limit=1", "?limit=500"):
        assert (await two.ask("GET", f"/v1/executions{query}")).value == empty
    mine = [(await two.ours.save()).execution_id for _ in range(3)]
    first = await two.ask("GET", "/v1/executions?limit=2")
    await two.theirs.save()
    await two.theirs.in_doubt()
    again = await two.ask("GET", "/v1/executions?limit=2")
    assert again.body == first.body, "another's calls move no page and no number"
    rest = await two.ask("GET", f"/v1/executions?limit=2&before={first.value['next']}")
    listed = [each["execution_id"] for each in first.value["executions"] + rest.value["executions"]]
    assert listed == mine[::-1]
    numbers = [first.value["next"]]
    for _ in range(4):
        await two.ours.save()
        numbers.append((await two.ask("GET", "/v1/executions?limit=1")).value["next"])
    steps = {after - before for before, after in itertools.pairwise(numbers)}
    assert len(steps) == 4, "the numbers count nothing"


async def test_streams_and_cursors_tell_nothing_of_others() -> None:
    async with two_harnesses("token over TCP") as two:
        store = two.site.store
        async with two.site.stream("beta", "?after=") as theirs:
            _, _, _ = await theirs.next()
            foreign, _, resolution = await theirs.next()
            assert resolution["instance_id"] == two.theirs.instance_id
        async with two.site.stream("alpha") as first:
            start = (await first.next())[0]
        await store.abandon(two.calls["waiting"].execution_id, "closed", "harness:beta", clock.now())
        async with two.site.stream("alpha") as second, two.site.stream("alpha", "?after=") as whole:
            assert (await second.next())[0] == start, "what another is told moves nobody's place"
            assert (await whole.next())[1] == "ready"
            async with two.site.stream("alpha", f"?after={foreign}") as stolen:
                assert (await stolen.next())[1] == "ready"
                mine = await two.ours.save()
                await store.abandon(mine.execution_id, "closed", "harness:alpha", clock.now())
                for stream in (second, whole, stolen):
                    _, kind, told_of = await stream.next()
                    assert (kind, told_of["execution_id"]) == ("resolution", mine.execution_id)


async def test_bounds_are_each_harnesss_own() -> None:
    async with two_harnesses("token over TCP") as two, two.site.voice("beta") as other, AsyncExitStack() as stack:
        for _ in range(16):
            stream = await stack.enter_async_context(two.site.stream("beta"))
            assert (await stream.next())[1] == "ready"
        assert (await other("GET", "/v1/resolutions")).reason == "too_many_streams"
        mine = await stack.enter_async_context(two.site.stream("alpha"))
        assert (await mine.next())[1] == "ready"
        statuses = {(await other("GET", "/v1/harness")).status for _ in range(400)}
        assert (await two.ask("GET", "/v1/harness")).status == 200
        assert statuses <= {200, 429}


async def test_what_lasts_leaves_connections_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binding, "CONTROL_CONNECTIONS", 8)  # 6 of them may wait or stream
    async with (
        two_harnesses("token over the socket") as two,
        two.site.voice("beta") as other,
        AsyncExitStack() as stack,
    ):
        saved = await two.ours.save()
        for _ in range(6):
            stream = await stack.enter_async_context(two.site.stream("alpha"))
            assert (await stream.next())[1] == "ready"
        assert (await other("GET", "/v1/resolutions")).reason == "too_many_streams"
        version = (await two.ask("GET", f"/v1/executions/{saved.execution_id}")).value["id"]
        async with asyncio.timeout(20):  # it does not wait
            path = f"/v1/executions/{saved.execution_id}?unlike={version}&wait=60"
            assert (await two.ask("GET", path)).value["id"] == version
        assert (await other("GET", "/v1/harness")).status == 200
        assert (await other("GET", "/healthz")).status == 200


async def test_an_id_that_two_providers_use_is_nobodys_by_that_id() -> None:
    shared = new_id()
    tables = {"alpha": by_token("alpha", shared), "beta": by_token("beta", "beta")}
    async with control_site(tables) as site, site.voice("alpha") as ask:
        ours = await Desk(site.store, name="alpha", instance_id=shared).open()
        assert [each["name"] for each in (await ask("GET", "/v1/harness")).value["instances"]] == ["alpha"]
        mine = await ours.save()
        theirs = await Desk(site.store, provider="http://127.0.0.1:10", name="beta", instance_id=shared).open()
        hers = await theirs.save()
        for execution in (mine, hers):
            assert (await ask("GET", f"/v1/executions/{execution.execution_id}")).status == 404


async def test_the_records_say_which_harness_it_was() -> None:
    async with two_harnesses("token over the socket") as two:
        saved = await two.ask("POST", "/v1/executions", {"tool": "t", "arguments": {}, "key": "k"})
        execution_id = saved.value["execution_id"]
        await two.ask("POST", f"/v1/executions/{execution_id}/abandon", {"reason": "closed"})
        transitions = await two.site.store.transitions(execution_id)
        assert [each.actor for each in transitions] == ["harness:alpha", "harness:alpha"]
