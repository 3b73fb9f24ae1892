"""Every command that looks at a store or changes it, over a real store."""

import json
from dataclasses import replace
from typing import Any

import pytest

from support.console import Console, looked_up, prepared
from support.desk import Desk, new_id
from wakegate_receiver.refusals_file import write_refusals
from wakegate_schema import clock
from wakegate_schema.records import Closing, Outcome
from wakegate_schema.states import State


async def _two_in_doubt(desk: Desk) -> tuple[str, str]:
    """One that is saved, and a later one that is in doubt."""
    saved = await desk.save(arguments=b'{"amount": 4900.0, "who": "planted-argument"}')
    return saved.execution_id, (await desk.in_doubt()).execution_id


def test_executions_are_listed_as_one_array(console: Console) -> None:
    saved, doubtful = prepared(console, _two_in_doubt)
    rows = console("execution", "list", "--json").json
    assert [row["execution_id"] for row in rows] == [doubtful, saved]
    assert {
        "execution_id",
        "request_id",
        "tool",
        "state",
        "reason",
        "created_at",
        "started_at",
        "finished_at",
    } <= rows[0].keys()
    assert (rows[1]["state"], rows[1]["started_at"], rows[1]["request_id"]) == ("saved", None, None)
    assert rows[0]["state"] == "in_doubt"
    assert rows[0]["started_at"].endswith("Z")
    assert rows[0]["instance"] == "refund-desk"


def test_a_table_begins_with_what_is_in_doubt_and_goes_on_with_the_latest(console: Console) -> None:
    async def work(desk: Desk) -> list[str]:
        first, doubtful = await _two_in_doubt(desk)
        return [doubtful, (await desk.save()).execution_id, first]

    wanted = prepared(console, work)
    lines = console("execution", "list").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == wanted


def test_a_call_that_cannot_go_on_says_why_in_the_table(console: Console) -> None:
    async def work(desk: Desk) -> str:
        stuck = await desk.waiting(idempotency_key="run-7:call-2")
        await desk.store.release(stuck.lease, clock.now(), "no_worker_has_the_tool", clock.now())
        return stuck.request_id or ""

    request = prepared(console, work)
    head, line = console("execution", "list").out.splitlines()
    assert head.split() == ["EXECUTION", "STATE", "TOOL", "KEY", "REQUEST", "INSTANCE", "CREATED", "REASON"]
    assert line.split()[1:6] == ["waiting", "issue_refund", "run-7:call-2", request, "refund-desk"]
    assert line.endswith("no_worker_has_the_tool")
    shown = console("execution", "show", "run-7:call-2").out
    assert (
        "no living worker has its tool at this version; run one with the module in WAKEGATE_TOOLS: issue_refund"
        in shown
    )


def test_what_is_known_is_shown_with_the_next_step_first(console: Console) -> None:
    _, doubtful = prepared(console, _two_in_doubt)
    lines = console("execution", "show", doubtful).out.splitlines()
    assert [line.split(":")[0] for line in lines[:4]] == ["execution_id", "state", "reason", "next"]
    assert f"wakegate execution resolve {doubtful[:8]} --happened" in lines[3]
    assert not any(line.endswith(" -") for line in lines if ":  " in line)


@pytest.mark.parametrize("length", [4, 8, 36])
def test_the_beginning_of_an_id_is_enough(console: Console, length: int) -> None:
    async def work(desk: Desk) -> tuple[str, str]:
        execution_id = "aaaa" + new_id()[4:]
        await desk.save(execution_id=execution_id, idempotency_key="run-7:call-2")
        await desk.save(execution_id="aaab" + new_id()[4:])
        arrival = desk.arrival(new_id(), event_id="bbbb" + new_id()[4:])
        await desk.store.record(arrival)
        return execution_id, arrival.event_id

    execution, event = prepared(console, work)
    assert console("execution", "show", execution[:length].upper(), "--json").json["execution_id"] == execution
    assert console("execution", "show", "run-7:call-2", "--json").json["execution_id"] == execution
    assert console("notification", "show", event[:length], "--json").json["event_id"] == event
    ran = console("execution", "abandon", execution[:length], "--reason", "x")
    assert ran.out == f"{execution}: saved → abandoned\n"
    assert console("execution", "abandon", execution, "--reason", "x").out == f"{execution}: abandoned before\n"


def test_a_beginning_of_several_ids_names_them(console: Console) -> None:
    async def work(desk: Desk) -> list[str]:
        found = ["aaaa" + new_id()[4:], "aaaa" + new_id()[4:]]
        for execution_id in found:
            await desk.save(execution_id=execution_id)
        return found

    found = prepared(console, work)
    ran = console("execution", "abandon", "aaaa", "--reason", "x")
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert all(f"{each} (issue_refund, saved)" in ran.err for each in found)


def test_a_key_that_looks_like_a_beginning_is_the_key(console: Console) -> None:
    async def work(desk: Desk) -> str:
        await desk.save(execution_id="cafe" + new_id()[4:])
        return (await desk.save(idempotency_key="cafe")).execution_id

    keyed = prepared(console, work)
    assert console("execution", "show", "cafe", "--json").json["execution_id"] == keyed


def test_a_wake_that_got_through_was_tried(console: Console) -> None:
    async def work(desk: Desk) -> str:
        denied = await desk.waiting(wake="my-harness")
        now = clock.now()
        await desk.store.close_unstarted(denied.lease, Closing(State.DENIED, "denied", now), now)
        [wake] = await desk.store.lease_wakes(1, now, now + clock.MINUTE)
        await desk.store.wake_delivered(wake.wake_id, now)
        return denied.execution_id

    denied = prepared(console, work)
    [wake] = console("execution", "show", denied, "--json").json["wakes"]
    assert (wake["state"], wake["tries"]) == ("delivered", 1)
    assert wake["wake_id"] in console("execution", "show", denied).out


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_listing_ends_at_its_limit(console: Console, form: list[str]) -> None:
    _, doubtful = prepared(console, _two_in_doubt)
    ran = console("execution", "list", "--limit", "1", *form)
    assert len(ran.json if form else ran.out.splitlines()[1:]) == 1
    assert doubtful in ran.out


def test_executions_are_listed_by_state(console: Console) -> None:
    _, doubtful = prepared(console, _two_in_doubt)
    assert [row["execution_id"] for row in console("execution", "list", "--state", "in_doubt", "--json").json] == [
        doubtful
    ]


def test_no_listing_shows_an_argument(console: Console) -> None:
    saved, _ = prepared(console, _two_in_doubt)
    for arguments in (["list"], ["list", "--json"], ["show", saved], ["show", saved, "--json"]):
        ran = console("execution", *arguments)
        assert ran.code == 0
        assert "planted-argument" not in ran.out
        assert "charged twice" not in ran.out


def test_the_payload_is_shown_when_asked_for_as_it_was_saved(console: Console) -> None:
    saved, _ = prepared(console, _two_in_doubt)
    view = console("execution", "show", saved, "--payload", "--json").json
    assert view["arguments"] == '{"amount": 4900.0, "who": "planted-argument"}'
    assert "planted-argument" in console("execution", "show", saved, "--payload").out


def test_an_execution_is_shown_with_its_history(console: Console) -> None:
    _, doubtful = prepared(console, _two_in_doubt)
    view = console("execution", "show", doubtful, "--json").json
    assert [change["to"] for change in view["transitions"]][-2:] == ["started", "in_doubt"]
    assert view["request_id"]
    text = console("execution", "show", doubtful.upper()).out
    assert "transitions" in text
    assert "in_doubt" in text


def test_an_execution_is_shown_with_the_reviewers_note_and_its_problem(console: Console) -> None:
    async def work(desk: Desk) -> tuple[str, str]:
        denied = await desk.waiting()
        await desk.store.close_unstarted(
            denied.lease, Closing(State.DENIED, "denied", clock.now(), note="not again"), clock.now()
        )
        stuck = await desk.waiting()
        await desk.store.release(stuck.lease, clock.now(), "provider_unreachable", clock.now())
        return denied.execution_id, stuck.execution_id

    denied, stuck = prepared(console, work)
    assert console("execution", "show", denied, "--json").json["note"] == "not again"
    assert console("execution", "show", stuck, "--json").json["problem"] == "provider_unreachable"


def test_a_late_word_against_a_persons_is_shown_as_odd(console: Console) -> None:
    async def work(desk: Desk) -> str:
        doubtful = await desk.in_doubt()
        await desk.store.settle(doubtful.execution_id, happened=False, by="a person", note="looked", at=clock.now())
        await desk.store.finish(doubtful.lease, Outcome("succeeded", "returned"), clock.now())
        return doubtful.execution_id

    execution = prepared(console, work)
    (odd,) = console("execution", "show", execution, "--json").json["anomalies"]
    assert odd["kind"] == "late_word"
    assert "late_word" in console("execution", "show", execution).out


def test_an_execution_is_abandoned(console: Console) -> None:
    saved, _ = prepared(console, _two_in_doubt)
    ran = console("execution", "abandon", saved, "--reason", "conversation closed")
    assert (ran.code, ran.out) == (0, f"{saved}: saved → abandoned\n")
    execution = looked_up(console, lambda store: store.execution(saved))
    assert (execution.state, execution.reason) == (State.ABANDONED, "conversation closed")
    transitions = looked_up(console, lambda store: store.transitions(saved))
    assert transitions[-1].actor.startswith("operator:")


def test_a_started_execution_is_not_abandoned(console: Console) -> None:
    started = prepared(console, lambda desk: desk.started()).execution_id
    ran = console("execution", "abandon", started, "--reason", "too late")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.count("\n") == 1


def test_abandoning_what_has_ended_otherwise_says_so(console: Console) -> None:
    async def work(desk: Desk) -> str:
        waiting = await desk.waiting()
        await desk.store.close_unstarted(waiting.lease, Closing(State.EXPIRED, "expired"), clock.now())
        return waiting.execution_id

    ended = prepared(console, work)
    ran = console("execution", "abandon", ended, "--reason", "late")
    assert (ran.code, ran.err) == (1, f"wakegate: {ended} is expired already; nothing was changed\n")


@pytest.mark.parametrize(
    ("word", "told"),
    [("--happened", "succeeded (happened)"), ("--did-not-happen", "failed (did not happen)")],
)
def test_an_execution_in_doubt_is_settled_by_a_person(console: Console, word: str, told: str) -> None:
    _, doubtful = prepared(console, _two_in_doubt)
    ran = console("execution", "resolve", doubtful, word, "--by", "Mira", "--note", "looked it up at the bank")
    assert (ran.code, ran.out) == (0, f"{doubtful}: in_doubt → {told}, by Mira\n")
    state = told.split()[0]
    view = console("execution", "show", doubtful, "--json").json
    assert (view["resolution_note"], view["error"]) == ("looked it up at the bank", None)
    assert "looked it up at the bank" in console("execution", "show", doubtful).out
    history = console("execution", "show", doubtful, "--json").json["transitions"]
    assert history[-1]["to"] == state
    assert "Mira" in history[-1]["actor"]


def test_only_an_execution_in_doubt_is_settled(console: Console) -> None:
    saved, _ = prepared(console, _two_in_doubt)
    ran = console("execution", "resolve", saved, "--happened", "--by", "Mira", "--note", "hm")
    assert ran.code == 1
    assert ran.err.count("\n") == 1


def test_an_unknown_execution_is_a_bad_thing_asked_about(console: Console) -> None:
    prepared(console, _two_in_doubt)
    for arguments in (["show"], ["abandon", "--reason", "x"], ["resolve", "--happened", "--by", "x", "--note", "x"]):
        command, *options = arguments
        ran = console("execution", command, new_id(), *options)
        assert ran.code == 1
        assert ran.err.startswith("wakegate: ")
        assert ran.err.count("\n") == 1


async def _notified(desk: Desk) -> tuple[str, str]:
    waiting = await desk.waiting()
    arrival = desk.arrival(waiting.request_id or "", body=b'{"id": "planted-body"}')
    await desk.store.record(arrival)
    await desk.store.record(arrival)
    await desk.store.record(desk.arrival(new_id()))
    return arrival.event_id, waiting.execution_id


def test_notifications_are_listed_with_their_duplicates(console: Console) -> None:
    event, _ = prepared(console, _notified)
    rows = console("notification", "list", "--json").json
    assert len(rows) == 2
    assert {"event_id", "instance_id", "request_id", "state", "duplicates", "received_at"} <= rows[0].keys()
    assert (rows[1]["event_id"], rows[1]["duplicates"]) == (event, 1)
    assert rows[0]["received_at"].endswith("Z")
    assert len(console("notification", "list").out.splitlines()) == 3
    assert len(console("notification", "list", "--state", "received", "--limit", "1", "--json").json) == 1
    assert console("notification", "list", "--state", "discarded").out == "No notifications.\n"


def test_a_notification_is_shown_with_its_execution_and_its_body_on_demand(console: Console) -> None:
    event, execution = prepared(console, _notified)
    assert console("notification", "show", event, "--json").json["execution_id"] == execution
    assert "planted-body" not in console("notification", "show", event).out
    assert console("notification", "show", event, "--payload", "--json").json["body"] == '{"id": "planted-body"}'
    assert console("notification", "show", event, "--provider-url", "https://other.example").code == 1


def test_an_adopted_notification_says_how_far_its_framework_was_resumed(console: Console) -> None:
    async def work(desk: Desk) -> list[str]:
        waiting = await desk.waiting()
        arrivals = [desk.arrival(request) for request in (waiting.request_id or "", new_id(), new_id())]
        for arrival in arrivals:
            await desk.store.record(arrival)
        at = clock.now() + 6 * clock.SECOND
        await desk.store.adopt_unmatched(at)
        known, unknown = await desk.store.lease_adoptions([], 2, at, at + clock.MINUTE)
        await desk.store.adoption_learned(known.lease, "langgraph", '{"thread_id":"desk-7"}', at)
        await desk.store.adoption_run(known.lease, at, at + clock.SECOND)
        await desk.store.adoption_again(known.lease, at, "entry_point_missing", "badly")
        await desk.store.adoption_ended(unknown.lease, "no_resume_handle", at)
        return [arrival.event_id for arrival in arrivals]

    call, adopted, unmatched = prepared(console, work)
    rows = {row["event_id"]: row for row in console("notification", "list", "--unmatched", "--json").json}
    assert rows.keys() == {adopted, unmatched}
    assert [rows[adopted][name] for name in ("reason", "adoption", "framework", "problem")] == [
        "adopted", "owed", "langgraph", "entry_point_missing",
    ]  # fmt: skip
    assert (rows[unmatched]["state"], rows[unmatched]["adoption"]) == ("received", "ended")
    table = console("notification", "list").out
    assert table.count("langgraph") == table.count("entry_point_missing") == 1
    shown = console("notification", "show", adopted, "--json").json["adoption"]
    assert (shown["thread"], shown["runs"], shown["last_end"]) == ('{"thread_id":"desk-7"}', 1, "badly")
    assert "wakegate doctor" in console("notification", "show", adopted).out
    assert "no_resume_handle" in console("notification", "show", unmatched).out
    assert console("notification", "show", call, "--json").json["adoption"] is None


def test_an_event_that_came_with_other_bytes_is_shown_as_odd(console: Console) -> None:
    async def work(desk: Desk) -> str:
        arrival = desk.arrival(new_id())
        for body in (b"{}", b"planted-body", b"planted-body"):
            await desk.store.record(replace(arrival, body=body))
        return arrival.event_id

    event = prepared(console, work)
    ran = console("notification", "show", event, "--json")
    (odd,) = ran.json["anomalies"]
    assert (odd["kind"], odd["count"]) == ("event_other_bytes", 2)
    assert "event_other_bytes" in console("notification", "show", event).out
    assert "planted-body" not in ran.out


def test_refusals_are_listed_with_their_reasons(console: Console) -> None:
    entry: dict[str, Any] = {
        "at": 1_790_000_000_000_000,
        "status": 401,
        "reason": "wrong_signature",
        "bytes": 120,
        "body_sha256": "0" * 64,
        "remote": "127.0.0.1",
        "registration_id": None,
        "instance_id": new_id(),
    }
    write_refusals(console.directory / "refusals.jsonl", [entry, {**entry, "reason": "timestamp_off"}])
    rows = console("refusal", "list", "--json").json
    assert [row["reason"] for row in rows] == ["timestamp_off", "wrong_signature"]
    assert rows[0]["at"] == "2026-09-21T14:13:20Z"
    assert len(console("refusal", "list", "--reason", "timestamp_off", "--json").json) == 1
    assert len(console("refusal", "list", "--limit", "1").out.splitlines()) == 2


def test_no_refusals_are_none(console: Console) -> None:
    console("db", "migrate")
    assert console("refusal", "list").out == "No refusals.\n"
    assert console("refusal", "list", "--json").out == "[]\n"


def test_a_store_is_made_by_migrating_and_again_is_no_error(console: Console) -> None:
    path = console.directory / "wakegate.db"
    for said in (f"made {path}\n", f"{path} is up to date\n"):
        ran = console("db", "migrate")
        assert (ran.code, ran.out, ran.err) == (0, said, "")
    assert (console.directory / "wakegate.db").is_file()
    assert console("execution", "list").out == "No executions.\n"


def test_pruning_says_how_much_it_removed(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(console, _notified)
    ran = console("db", "prune")
    assert (ran.out, ran.err) == ("pruned: 0\n", "")
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now + 9 * clock.DAY)
    assert console("db", "prune").out == "pruned: 2\n"
    assert console("notification", "list", "--json").json == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["execution", "list"],
        ["execution", "show", new_id()],
        ["execution", "abandon", new_id(), "--reason", "x"],
        ["execution", "resolve", new_id(), "--happened", "--by", "x", "--note", "x"],
        ["notification", "list"],
        ["notification", "show", new_id()],
        ["instance", "list"],
        ["instance", "show", "x"],
        ["instance", "retire", "x"],
        ["db", "prune"],
        ["refusal", "list"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_command_that_needs_a_store_never_makes_one(console: Console, arguments: list[str]) -> None:
    ran = console(*arguments)
    assert ran.code == 2
    assert str(console.directory / "wakegate.db") in ran.err
    assert ran.err.count("\n") == 1
    assert list(console.directory.iterdir()) == []


def test_json_is_ascii_whatever_the_terminal(console: Console) -> None:
    prepared(console, lambda desk: desk.save(tool="überweisen"))
    out = console("execution", "list", "--json").out
    assert out.isascii()
    assert json.loads(out)[0]["tool"] == "überweisen"
