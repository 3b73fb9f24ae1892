"""What an operator sees of calls in doubt and of clocks, and the marks that are reset by hand."""

from pathlib import Path

import pytest

from support.clocks import SetApart
from support.console import Console, prepared, run
from support.desk import Desk
from wakegate_schema import clock, clock_mark
from wakegate_schema.clock import DAY, MINUTE

HERE = clock_mark.host_name()


async def _doubts_among_others(desk: Desk) -> list[str]:
    """Save a call, put one in doubt, save another, put another in doubt; the ids as a listing has them."""
    first = await desk.save()
    older = await desk.in_doubt()
    last = await desk.save()
    newer = await desk.in_doubt()
    return [each.execution_id for each in (newer, older, last, first)]


async def _nothing_in_doubt(desk: Desk) -> str:
    return (await desk.save()).execution_id


@pytest.mark.parametrize("form", ["--json", "table"])
def test_what_is_in_doubt_is_listed_first_and_once(console: Console, form: str) -> None:
    ids = prepared(console, _doubts_among_others)
    ran = console("execution", "list", *([form] if form == "--json" else []))
    found = (
        [row["execution_id"] for row in ran.json]
        if form == "--json"
        else [line.split()[0] for line in ran.out.splitlines()[1:]]
    )
    assert found == ids


@pytest.mark.parametrize(("limit", "count"), [("1", 1), ("2", 2), ("3", 3), ("9", 4)])
def test_a_limit_counts_what_is_in_doubt_too(console: Console, limit: str, count: int) -> None:
    ids = prepared(console, _doubts_among_others)
    rows = console("execution", "list", "--json", "--limit", limit).json
    assert [row["execution_id"] for row in rows] == ids[:count]


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--state", "saved"), ("--limit", "1")])
def test_how_much_is_in_doubt_and_what_to_do_is_said_beside_every_listing(
    console: Console, arguments: tuple[str, ...]
) -> None:
    prepared(console, _doubts_among_others)
    ran = console("execution", "list", *arguments)
    (line,) = ran.err.splitlines()
    assert line.startswith("wakegate: 2 calls are in doubt, since 20")
    assert "wakegate execution resolve EXECUTION --happened (or --did-not-happen)" in line
    assert ran.code == 0


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--state", "in_doubt"), ("--state", "saved")])
def test_a_script_can_tell_by_the_exit_code_that_something_is_in_doubt(
    console: Console, arguments: tuple[str, ...]
) -> None:
    prepared(console, _doubts_among_others)
    ran = console("execution", "list", "--fail-if-in-doubt", *arguments)
    assert ran.code == 1
    assert ran.out == console("execution", "list", *arguments).out


def test_without_a_doubt_nothing_is_said_and_nothing_fails(console: Console) -> None:
    prepared(console, _nothing_in_doubt)
    ran = console("execution", "list", "--fail-if-in-doubt")
    assert (ran.code, ran.err) == (0, "")


def test_the_clock_of_this_host_is_shown_with_its_mark(console: Console) -> None:
    async def work(desk: Desk) -> None:
        await desk.store.mark_clock(HERE, clock.now() - MINUTE)

    prepared(console, work)
    ran = console("clock", "show", "--json")
    assert (ran.code, ran.json["host"], ran.json["behind"]) == (0, HERE, False)
    assert [(mark["host"], mark["ahead_s"]) for mark in ran.json["marks"]] == [(HERE, 0)]
    assert HERE in console("clock", "show").out


async def _a_day_ahead(desk: Desk) -> str:
    now = clock.now()
    await desk.store.mark_clock(HERE, now + DAY)
    await desk.store.mark_clock("elsewhere", now + DAY)
    waiting = await desk.waiting()
    await desk.store.release(waiting.lease, now + DAY, None, now)
    return waiting.execution_id


def test_a_clock_behind_its_mark_fails_until_the_mark_is_reset(console: Console) -> None:
    execution = prepared(console, _a_day_ahead)
    behind = console("clock", "show")
    assert behind.code == 1
    assert "wakegate clock reset --by NAME" in behind.out
    ran = console("clock", "reset", "--by", "Ada")
    assert ran.code == 0
    assert ran.out.splitlines()[0].endswith(", by Ada")
    assert ran.out.splitlines()[1].endswith("due now: 1")
    shown = console("clock", "show", "--json")
    assert (shown.code, shown.json["behind"]) == (0, False)
    assert [(reset["host"], reset["actor"]) for reset in shown.json["resets"]] == [(HERE, "operator:Ada")]
    due_at = console("execution", "show", execution, "--json").json["due_at"]
    assert due_at[:10] <= shown.json["now"][:10]


def test_another_hosts_mark_is_reset_by_its_name(console: Console) -> None:
    prepared(console, _a_day_ahead)
    assert console("clock", "reset", "--host", "elsewhere", "--by", "Ada").code == 0
    shown = console("clock", "show", "--json")
    assert shown.code == 1  # this one's is still ahead
    assert {mark["host"]: mark["ahead_s"] > 0 for mark in shown.json["marks"]} == {HERE: True, "elsewhere": False}


def test_a_mark_that_is_not_ahead_is_left_alone(console: Console) -> None:
    async def work(desk: Desk) -> None:
        await desk.store.mark_clock(HERE, clock.now())

    prepared(console, work)
    ran = console("clock", "reset", "--by", "Ada")
    assert (ran.code, ran.out) == (0, f"{HERE}: the mark is not ahead of this clock; nothing was reset\n")
    assert console("clock", "show", "--json").json["resets"] == []


def test_a_host_that_has_no_mark_is_an_error(console: Console) -> None:
    prepared(console, _nothing_in_doubt)
    ran = console("clock", "reset", "--host", "nowhere", "--by", "Ada")
    assert ran.code == 1
    assert "nowhere" in ran.err


def test_a_reset_needs_somebody_who_says_that_the_clock_is_right(console: Console) -> None:
    assert console("clock", "reset").code == 2


def test_the_command_goes_by_the_clock_of_its_process(tmp_path: Path, console: Console) -> None:
    prepared(console, _a_day_ahead)
    apart = SetApart(tmp_path)
    apart.apart(2 * DAY)
    assert run(tmp_path, "clock", "show", settings=apart.environment).code == 0
