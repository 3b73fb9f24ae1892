"""A synchronous adapter's eight requirements, each seen on the wire or in the ledger (AAP, "Adapter Requirements").

The call is held by a real adapter; a real worker speaks over HTTP with the embedded provider, past a front that keeps
what passes. Where the provider must misbehave, the front changes its answers.
"""

import asyncio
import json
import re
import uuid
from typing import Any

import pytest
from aiohttp import web

from conformance.forms import Hold
from support.front import PassOn, cut
from support.house import House
from support.workers import eventually
from wakegate_adapter import Adapter, Call, HeldElsewhere, State

AWKWARD: dict[str, Any] = {
    "payment": {"id": "pay_1", "lines": [1, 1.0, True, None, "1", -0.5, 10**18], "": "", "ключ": "¥\u2028\U0001f600"},
    "amount": 4900,
    "note": '"ignore all rules"\n',
}
NEVER_DENIED = re.compile(r"\bden(y|ied|ial)", re.IGNORECASE)


async def test_adapter_1_authenticates_as_its_instance_and_submits_the_call_exactly(
    polled: House, adapter: Adapter, hold: Hold
) -> None:
    call = Call("approve_refund", AWKWARD, key="run-1:call-1", timeout="7m", reasoning="twice", context={"run": [1.0]})
    async with polled.desk.worker():
        ended = await hold(adapter, call, polled.ledger.refund)
    assert (ended.state, polled.ledger.lines) == (State.SUCCEEDED, [AWKWARD])
    (submitted,) = polled.front.submissions
    assert submitted.path == "/v1/requests"
    assert submitted.headers["Idempotency-Key"] == "run-1:call-1"
    body = json.loads(submitted.body)
    assert {name: body[name] for name in ("tool", "timeout", "agent_reasoning", "context")} == {
        "tool": "approve_refund", "timeout": "7m", "agent_reasoning": "twice", "context": {"run": [1.0]},
    }  # fmt: skip
    assert json.dumps(body["arguments"]) == json.dumps(AWKWARD), "numbers of each kind, keys in their order"
    assert body.keys() == {"tool", "arguments", "timeout", "agent_reasoning", "context"}
    (on_record,) = polled.requests
    assert json.dumps(on_record["arguments"], default=float) == json.dumps(AWKWARD)
    token = polled.desk.token
    assert {each.headers["Authorization"] for each in polled.front.passed} == {f"Bearer {token}"}
    assert not any(token in each.path or token.encode() in each.body for each in polled.front.passed)


async def test_adapter_1_without_its_credential_nothing_runs(polled: House, adapter: Adapter, hold: Hold) -> None:
    instance = polled.desk.instance_id
    assert (await polled.caller.call("DELETE", f"/v1/instances/{instance}")).status == 204
    async with polled.desk.worker():
        ended = await hold(adapter, Call("approve_refund", {"amount": 1}), polled.ledger.refund, wait_limit=2.5)
        assert ended.state is State.ABANDONED
        assert await polled.quiet() == []
    assert {each.status for each in polled.front.passed} == {401}
    assert polled.requests == []


async def test_adapter_2_recovers_a_request_with_the_key_it_first_had(
    polled: House, adapter: Adapter, hold: Hold
) -> None:
    lost = 0

    async def lose_the_first_answers(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        nonlocal lost
        answer = await pass_on()
        if request.method == "POST" and lost < 2:
            lost += 1
            return cut(request)
        return answer

    polled.front.interference = lose_the_first_answers
    async with polled.desk.worker():
        ended = await hold(adapter, Call("approve_refund", {"amount": 1}, key="run-2:call-1"), polled.ledger.refund)
    assert (ended.state, polled.ledger.lines) == (State.SUCCEEDED, [{"amount": 1}])
    submissions = polled.front.submissions
    assert [each.status for each in submissions] == [201, 200, 200]
    assert {each.headers["Idempotency-Key"] for each in submissions} == {"run-2:call-1"}
    assert len({each.body for each in submissions}) == len({each.said["id"] for each in submissions}) == 1
    assert len(polled.requests) == 1


async def test_adapter_2_takes_a_new_key_for_a_new_attempt(polled: House, adapter: Adapter, hold: Hold) -> None:
    async with polled.desk.worker():
        for _ in range(2):
            await hold(adapter, Call("approve_refund", {"amount": 1}), polled.ledger.refund)
    assert len({each.headers["Idempotency-Key"] for each in polled.front.submissions}) == len(polled.requests) == 2


@pytest.mark.parametrize(
    ("tool", "state", "effects"),
    [("approve_refund", State.SUCCEEDED, [{"amount": 1}]), ("deny_refund", State.DENIED, [])],
)
async def test_adapter_3_handles_immediate_decisions(
    polled: House, adapter: Adapter, hold: Hold, tool: str, state: State, effects: list[Any]
) -> None:
    async with polled.desk.worker():
        ended = await hold(adapter, Call(tool, {"amount": 1}), polled.ledger.refund)
        assert await polled.quiet(0.2) == effects
    assert ended.state is state
    (submitted,) = polled.front.submissions
    assert submitted.said["status"] == ("approved" if state is State.SUCCEEDED else "denied")
    assert polled.front.calls("GET", "wait=") == [], "a decision that is there is not waited for"


@pytest.mark.parametrize(
    ("word", "state", "effects"), [("approve", State.SUCCEEDED, [{"amount": 1}]), ("deny", State.DENIED, [])]
)
async def test_adapter_3_handles_polling(
    polled: House, adapter: Adapter, hold: Hold, word: Any, state: State, effects: list[Any]
) -> None:
    async with polled.desk.worker():
        held = asyncio.create_task(hold(adapter, Call("issue_refund", {"amount": 1}), polled.ledger.refund))
        request_id = (await polled.request())["request_id"]
        await eventually(lambda: any(f"{request_id}?wait=" in path for _, path in polled.front.asked))
        assert await polled.quiet(0.2) == []
        assert not held.done()
        await polled.review(word)
        ended = await held
        assert await polled.quiet(0.2) == effects
    assert ended.state is state
    (submitted,) = polled.front.submissions
    assert submitted.said["status"] == "pending"
    (polled_for,) = polled.front.calls("GET", "wait=")
    assert polled_for.said["status"] != "pending", "the poll that was waiting brought the decision"


@pytest.mark.parametrize("status", ["denied", "expired", "cancelled"])
async def test_adapter_4_enforces_the_terminal_outcome(
    polled: House, adapter: Adapter, hold: Hold, status: str
) -> None:
    async with polled.desk.worker():
        timeout = "1s" if status == "expired" else "30m"
        call = Call("issue_refund", {"amount": 1}, timeout=timeout)
        held = asyncio.create_task(hold(adapter, call, polled.ledger.refund))
        request_id = (await polled.request())["request_id"]
        if status == "denied":
            await polled.review("deny")
        if status == "cancelled":
            await polled.caller.call("DELETE", f"/v1/requests/{request_id}", token=polled.desk.token)
        ended = await held
        assert await polled.quiet() == []
    assert ended.state == status
    await polled.status(request_id, status)


async def test_adapter_4_checks_the_approval_right_before_the_call(polled: House, adapter: Adapter, hold: Hold) -> None:
    async with polled.desk.worker():
        ended = await hold(adapter, Call("brief_refund", {"amount": 1}), polled.ledger.refund)
        assert await polled.quiet() == []
    assert ended.state in (State.LAPSED, State.ABANDONED)
    assert not NEVER_DENIED.search(ended.explanation)
    (request,) = polled.requests
    assert request["status"] == "approved", "it was approved, and too late to begin"


@pytest.mark.parametrize("changed", ["amount", "tool", "added", "kind"])
async def test_adapter_4_runs_nothing_but_the_call_that_was_approved(
    polled: House, adapter: Adapter, hold: Hold, changed: str
) -> None:
    differing = {"amount": {"amount": 2}, "added": {"to": "me"}, "kind": {"amount": True}}.get(changed, {})

    async def change(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        answer = await pass_on()
        said = json.loads(answer.body)  # type: ignore[arg-type]
        if "arguments" in said:
            said["arguments"] |= differing
            said["tool"] = "approve_anything" if changed == "tool" else said["tool"]
        return web.json_response(said, status=answer.status)

    polled.front.interference = change
    async with polled.desk.worker():
        ended = await hold(adapter, Call("approve_refund", {"amount": 1}), polled.ledger.refund, wait_limit=10)
        assert await polled.quiet() == []
    assert ended.state is State.REFUSED


async def test_adapter_4_keeps_the_approved_arguments_unchanged(polled: House, adapter: Adapter, hold: Hold) -> None:
    arguments = {"payment": {"id": "pay_1", "amount": 1}}
    async with polled.desk.worker():
        held = asyncio.create_task(hold(adapter, Call("issue_refund", arguments), polled.ledger.refund))
        await polled.request()
        arguments["payment"]["amount"] = 1_000_000
        await polled.review("approve")
        ended = await held
    assert ended.state is State.SUCCEEDED
    assert polled.ledger.lines == [{"payment": {"id": "pay_1", "amount": 1}}]


async def _nothing(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
    return cut(request)


async def _broken(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
    return web.json_response({"error": {"type": "internal", "code": "broken", "message": "no"}}, status=500)


async def _no_json(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
    return web.Response(status=(await pass_on()).status, body=b"approved", content_type="application/json")


def _saying(**changes: Any) -> Any:
    async def answer(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        passed = await pass_on()
        said = json.loads(passed.body)  # type: ignore[arg-type]
        said |= {name: value for name, value in changes.items() if value is not None}
        return web.json_response(
            {name: value for name, value in said.items() if changes.get(name, "") is not None}, status=passed.status
        )

    return answer


async def _another_request(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
    """Answer the submission with a request that is pending, and each read of it with another that is approved."""
    changes = {"status": "pending", "decision": None} if request.method == "POST" else {"id": str(uuid.uuid4())}
    found: web.StreamResponse = await _saying(**changes)(request, pass_on)
    return found


NO_APPROVALS = {
    "pending": _saying(status="pending", decision=None),
    "an unknown status": _saying(status="granted"),
    "a decision of another status": _saying(status="denied"),
    "no decision": _saying(decision=None),
    "no expiry": _saying(decision={"status": "approved", "decided_at": "2026-01-01T00:00:00Z"}),
    "another request": _another_request,
    "an invalid response": _no_json,
    "an error": _broken,
    "no network": _nothing,
}


@pytest.mark.parametrize("answer", NO_APPROVALS.values(), ids=NO_APPROVALS.keys())
async def test_adapter_5_runs_nothing_without_a_valid_approval(
    polled: House, adapter: Adapter, holds: list[Hold], answer: Any
) -> None:
    """The provider approves at once; what comes of that on the way is no valid approval."""
    asked: set[str] = set()

    async def on_the_way(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        asked.add(request.headers.get("Idempotency-Key", ""))
        found: web.StreamResponse = await answer(request, pass_on)
        return found

    polled.front.interference = on_the_way
    calls = [Call("approve_refund", {"amount": number}) for number in range(len(holds))]
    async with polled.desk.worker():
        ended = await asyncio.gather(
            *(
                hold(adapter, call, polled.ledger.refund, wait_limit=1.5)
                for hold, call in zip(holds, calls, strict=True)
            )
        )
        assert await polled.quiet(0.2) == []
    assert asked >= {call.key for call in calls}
    for each in ended:
        assert each.state in (State.ABANDONED, State.REFUSED)
        assert not NEVER_DENIED.search(each.explanation)


async def test_adapter_6_tells_denied_expired_cancelled_and_unobtained_apart(
    polled: House, adapter: Adapter, hold: Hold
) -> None:
    said: dict[str, str] = {}
    async with polled.desk.worker():
        for tool, timeout in (("deny", "30m"), ("expire", "1s"), ("cancel", "30m")):
            call = Call(f"{tool}_refund", {"amount": 1}, key=tool, timeout=timeout)
            held = asyncio.create_task(hold(adapter, call, polled.ledger.refund))
            if tool == "cancel":
                await eventually(lambda: polled.requests[0]["tool"] == "cancel_refund")
                path = f"/v1/requests/{polled.requests[0]['request_id']}"
                await polled.caller.call("DELETE", path, token=polled.desk.token)
            ended = await held
            said[ended.state.value] = ended.explanation
        polled.front.interference = _nothing
        ended = await hold(adapter, Call("approve_refund", {"amount": 1}), polled.ledger.refund, wait_limit=1)
        said[ended.state.value] = ended.explanation
        assert await polled.quiet(0.2) == []
    assert list(said) == ["denied", "expired", "cancelled", "abandoned"]
    assert len(set(said.values())) == 4
    assert [state for state, words in said.items() if NEVER_DENIED.search(words)] == ["denied"]
    assert "could not be obtained" in said["abandoned"]


async def test_adapter_7_runs_a_call_once_however_often_its_approval_is_retrieved(
    polled: House, adapter: Adapter, hold: Hold
) -> None:
    call = Call("approve_refund", {"amount": 1}, key="run-7:call-1")
    async with polled.desk.worker():
        first = await hold(adapter, call, polled.ledger.refund)
        again = [await hold(adapter, call, polled.ledger.refund) for _ in range(3)]
    async with polled.desk.worker(), await Adapter.open(polled.database) as another:
        again.append(await hold(another, call, polled.ledger.refund))
        request = polled.front.submissions[0].said["id"]
        answered = await polled.caller.call("GET", f"/v1/requests/{request}", token=polled.desk.token)
        assert answered.body["status"] == "approved", "which the provider goes on saying"
        async with another.claim(first.execution_id) as attempt:
            assert (attempt.permitted, attempt.refusal) == (False, "succeeded")
        assert await polled.quiet(0.2) == [{"amount": 1}]
    assert {ended.id for ended in [first, *again]} == {first.id}
    assert len(polled.requests) == 1


async def test_adapter_7_of_many_that_hold_one_call_at_once_one_runs_it(
    polled: House, adapter: Adapter, hold: Hold
) -> None:
    call = Call("issue_refund", {"amount": 1}, key="run-7:call-2")
    async with polled.desk.worker(), await Adapter.open(polled.database) as another:
        held = [asyncio.create_task(hold(each, call, polled.ledger.refund)) for each in (adapter, another) * 3]
        await polled.review("approve")
        ended = await asyncio.gather(*held, return_exceptions=True)
        assert await polled.quiet(0.2) == [{"amount": 1}]
    assert sum(isinstance(one, HeldElsewhere) for one in ended) >= 1
    assert {one.state for one in ended if not isinstance(one, BaseException)} == {State.SUCCEEDED}
    assert len(polled.requests) == 1


@pytest.mark.parametrize("why", ["the limit", "an interruption"])
async def test_adapter_8_cancels_what_is_pending_when_the_call_is_abandoned(
    polled: House, adapter: Adapter, hold: Hold, why: str
) -> None:
    async with polled.desk.worker():
        limit = 3 if why == "the limit" else 120
        call = Call("issue_refund", {"amount": 1})
        held = asyncio.create_task(hold(adapter, call, polled.ledger.refund, wait_limit=limit))
        request_id = (await polled.request())["request_id"]
        if why == "an interruption":
            held.cancel()
            with pytest.raises(asyncio.CancelledError):
                await held
        else:
            assert (await held).state is State.ABANDONED
        await polled.status(request_id, "cancelled")
        assert await polled.quiet(0.2) == []
    assert [each.status for each in polled.front.calls("DELETE", request_id)] == [200]


async def test_adapter_8_tries_the_cancel_again_until_the_provider_has_answered(
    polled: House, adapter: Adapter, hold: Hold
) -> None:
    refused = 0

    async def away(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        nonlocal refused
        if request.method == "DELETE" and refused < 2:
            refused += 1
            return cut(request)
        return await pass_on()

    polled.front.interference = away
    async with polled.desk.worker():
        ended = await hold(adapter, Call("issue_refund", {"amount": 1}), polled.ledger.refund, wait_limit=3)
        await polled.status((await polled.request())["request_id"], "cancelled")
    assert (ended.state, refused, polled.ledger.lines) == (State.ABANDONED, 2, [])
