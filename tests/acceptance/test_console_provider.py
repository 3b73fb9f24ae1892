"""`wakegate provider`: a reviewer at the small provider, over a provider that runs."""

import asyncio
from pathlib import Path

import pytest

from support.console import Console, Ran
from support.desk import new_id
from support.provider import ReceivingEnd, provider
from wakegate_schema.settings import load_settings


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    made = Console(tmp_path, monkeypatch, capsys)
    made.set("WAKEGATE_PROVIDER_LISTEN", "127.0.0.1:0")
    made.set("WAKEGATE_PROVIDER_DATABASE", f"sqlite:///{tmp_path}/provider.db")
    return made


async def run(console: Console, *arguments: str) -> Ran:
    """Run a command of `wakegate provider` beside this event loop."""
    return await asyncio.to_thread(console, "provider", *arguments)


async def test_a_request_is_approved_with_a_note_for_a_while(console: Console) -> None:
    async with provider(load_settings()) as caller:
        token = await caller.credential()
        request = await caller.request_id(token)
        ran = await run(console, "decide", request.upper(), "approve", "--note", "fine", "--expires-in", "2m")
        read = (await caller.call("GET", f"/v1/requests/{request}", token=token)).body
    assert (ran.code, ran.out, ran.err) == (0, f"{request} approved\n", "")
    assert (read["status"], read["decision"]["note"]) == ("approved", "fine")


async def test_a_request_is_denied(console: Console) -> None:
    async with provider(load_settings()) as caller:
        request = await caller.request_id(await caller.credential())
        ran = await run(console, "decide", request, "deny")
    assert (ran.code, ran.out) == (0, f"{request} denied\n")


async def test_a_second_decision_is_refused(console: Console) -> None:
    async with provider(load_settings()) as caller:
        request = await caller.request_id(await caller.credential())
        await run(console, "decide", request, "deny")
        ran = await run(console, "decide", request, "approve")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == f"wakegate: request {request} is already denied\n"


async def test_requests_are_listed_without_their_arguments(console: Console) -> None:
    async with provider(load_settings()) as caller:
        token = await caller.credential()
        first = await caller.request_id(token, arguments={"iban": "planted-argument"})
        second = await caller.request_id(token)
        await run(console, "decide", first, "deny")
        listed = await run(console, "requests", "--json")
        table = await run(console, "requests", "--limit", "1")
        denied = await run(console, "requests", "--status", "denied", "--json")
    assert [row["request_id"] for row in listed.json] == [second, first]
    assert [row["request_id"] for row in denied.json] == [first]
    assert len(table.out.splitlines()) == 2
    assert "planted-argument" not in listed.out + table.out


async def test_a_reviewer_sees_what_is_asked_for(console: Console) -> None:
    async with provider(load_settings()) as caller:
        request = await caller.request_id(await caller.credential(), agent_reasoning="charged twice")
        ran = await run(console, "show", request, "--json")
        text = await run(console, "show", request[:8])
    assert ran.json["request_id"] == request
    assert ran.json["arguments"] == {"amount": 4900}
    assert ran.json["agent_reasoning"] == "charged twice"
    assert [line.split(":")[0] for line in text.out.splitlines()[:3]] == ["request_id", "status", "next"]
    assert '{"amount":4900}' in text.out
    assert f"wakegate provider decide {request[:8]} approve|deny" in text.out


async def test_requests_are_listed_with_what_they_ask_for_on_demand(console: Console) -> None:
    async with provider(load_settings()) as caller:
        await caller.request_id(await caller.credential(), agent_reasoning="charged twice")
        [row] = (await run(console, "requests", "--payload", "--json")).json
        table = await run(console, "requests", "--payload", "--state", "pending")
    assert (row["arguments"], row["agent_reasoning"]) == ('{"amount":4900}', "charged twice")
    assert '{"amount":4900}' in table.out
    assert "charged twice" in table.out


async def test_the_beginning_of_an_id_is_enough_while_it_names_one(console: Console) -> None:
    async with provider(load_settings()) as caller:
        request = await caller.request_id(await caller.credential())
        ran = await run(console, "decide", request[:8], "deny")
    assert (ran.code, ran.out) == (0, f"{request} denied\n")


async def test_a_notification_is_delivered_once_more(console: Console) -> None:
    async with provider(load_settings()) as caller, ReceivingEnd().serving() as end:
        request = await caller.request_id(await caller.credential(end))
        await run(console, "decide", request, "deny")
        await end.received(1)
        [row] = (await run(console, "requests", "--json")).json
        ran = await run(console, "redeliver", row["event_id"])
        await end.received(2)
    assert (ran.code, ran.err) == (0, "")
    first, second = end.messages
    assert first[2] == second[2]


async def test_what_is_not_there_is_a_bad_thing_asked_about(console: Console) -> None:
    async with provider(load_settings()):
        for arguments in (["decide", new_id(), "deny"], ["show", new_id()], ["redeliver", new_id()]):
            ran = await run(console, *arguments)
            assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
            assert "`wakegate provider requests`" in ran.err
