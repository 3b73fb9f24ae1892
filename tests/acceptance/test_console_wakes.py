"""`wakegate wake`: what harnesses are told, why nobody is, and telling them again."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from support.console import Console, environment, prepared, run
from support.console import command as console_command
from support.desk import PROVIDER, Desk, new_id
from support.wake_programs import written
from support.workers import WorkerDesk, eventually
from wakegate_schema import clock
from wakegate_schema.records import Wake
from wakegate_schema.store import open_store


async def owed(desk: Desk, target: str = "mine", **changes: object) -> Wake:
    """A wake that is owed."""
    saved = await desk.save(wake=target, **changes)
    await desk.store.abandon(saved.execution_id, "over", "harness", clock.now())
    return (await desk.store.wakes(saved.execution_id))[0]


async def given_up(desk: Desk, target: str = "mine") -> Wake:
    """A wake that was given up."""
    wake = await owed(desk, target)
    await desk.store.wake_failed(wake.wake_id, clock.now(), "exit_9")
    await desk.store.wake_failed(wake.wake_id, None, "exit_9")
    return await desk.store.wake(wake.wake_id)


async def one_of_each(desk: Desk) -> dict[str, str]:
    """A wake in each state, and a group that is told of; their ids."""
    await owed(desk, "none-such")
    found = {"undelivered": (await given_up(desk)).wake_id}
    delivered = await owed(desk)
    await desk.store.wake_delivered(delivered.wake_id, clock.now())
    calls = [await desk.save(wake="mine", group="turn-7", idempotency_key=f"call-{number}") for number in range(2)]
    await desk.store.seal_group(desk.provider, desk.instance_id, "turn-7", clock.now())
    for call in calls:
        await desk.store.abandon(call.execution_id, "over", "harness", clock.now())
    (group,) = await desk.store.wakes(calls[0].execution_id)
    return found | {"delivered": delivered.wake_id, "group": group.wake_id, "first": calls[0].execution_id}


def test_wakes_are_listed_by_state_the_latest_first(console: Console) -> None:
    ids = prepared(console, one_of_each)
    every = console("wake", "list", "--json").json
    assert [row["state"] for row in every] == ["owed", "delivered", "undelivered", "owed"]
    assert (every[0]["wake_id"], every[0]["group"], every[1]["group"]) == (ids["group"], "turn-7", None)
    for state, count in (("owed", 2), ("delivered", 1), ("undelivered", 1)):
        rows = console("wake", "list", "--state", state, "--json").json
        assert [row["state"] for row in rows] == [state] * count
    assert len(console("wake", "list", "--limit", "3", "--json").json) == 3
    head, *lines = console("wake", "list").out.splitlines()
    assert head.split() == ["WAKE", "STATE", "TARGET", "TELLS", "OF", "TRIES", "CREATED", "PROBLEM"]
    assert any("undelivered" in line and line.endswith("exit_9") for line in lines)
    assert console("wake", "list", "--state", "dead").code == 2


def test_no_wakes_are_said_to_be_none(console: Console) -> None:
    prepared(console, _nothing)
    assert console("wake", "list").out == "No wakes.\n"
    assert console("wake", "list", "--json").json == []
    assert console("wake", "groups").out == "No groups that are not sealed.\n"
    assert console("wake", "replay", "--undelivered").out == "No wakes were given up.\n"


def test_a_wake_is_shown_with_what_it_tells_of_and_what_to_do(console: Console) -> None:
    ids = prepared(console, one_of_each)
    shown = console("wake", "show", ids["undelivered"][:13]).out
    assert f"wakegate wake replay {ids['undelivered']}" in shown
    assert "exit_9" in shown
    view = console("wake", "show", ids["group"], "--json").json
    assert view["group"] == "turn-7"
    assert [(call["key"], call["state"]) for call in view["calls"]] == [
        ("call-0", "abandoned"),
        ("call-1", "abandoned"),
    ]
    assert "call-1" in console("wake", "show", ids["group"].upper()).out


def test_the_wake_of_its_group_is_shown_with_each_call(console: Console) -> None:
    ids = prepared(console, one_of_each)
    (wake,) = console("execution", "show", ids["first"], "--json").json["wakes"]
    assert (wake["wake_id"], wake["group"]) == (ids["group"], "turn-7")
    assert "turn-7" in console("execution", "show", ids["first"]).out.split("wakes")[1]


@pytest.mark.parametrize("which", ["group", "undelivered"])
def test_the_message_is_the_one_that_the_target_gets(console: Console, which: str) -> None:
    ids = prepared(console, one_of_each)
    message = console("wake", "show", ids[which], "--message").json
    assert message["type"] == {"group": "group.resolved", "undelivered": "execution.resolved"}[which]
    told = message["data"]["resolutions"][-1] if which == "group" else message["data"]
    assert told["id"] == ids[which]


@pytest.mark.parametrize("which", ["nothing", "89dce729-b9ed-42b2-931b-235edea41308_6", "abcd", "89dce729_5", "_"])
def test_an_unknown_wake_is_refused_with_what_to_do(console: Console, which: str) -> None:
    prepared(console, one_of_each)
    for verb in ("show", "replay"):
        ran = console("wake", verb, which)
        assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
        assert "wakegate wake list" in ran.err


def test_the_beginning_of_several_wakes_names_them(console: Console) -> None:
    async def work(desk: Desk) -> list[str]:
        return [(await owed(desk, execution_id="aaaa" + new_id()[4:])).wake_id for _ in range(2)]

    found = prepared(console, work)
    ran = console("wake", "show", "aaaa")
    assert ran.code == 1
    assert all(each in ran.err for each in found)


@pytest.mark.parametrize(
    "arguments", [[], ["abcd", "--undelivered"], ["abcd", "--target", "mine"], ["--target", "mine"]]
)
def test_a_replay_that_says_not_clearly_what_is_refused(console: Console, arguments: list[str]) -> None:
    prepared(console, one_of_each)
    assert console("wake", "replay", *arguments).code == 2


def test_named_wakes_are_owed_anew_whatever_has_become_of_them(console: Console) -> None:
    ids = prepared(console, one_of_each)
    ran = console("wake", "replay", ids["undelivered"], ids["delivered"], ids["delivered"][:36])
    assert ran.out.splitlines() == [
        f"{ids['undelivered']}: undelivered (exit_9) → owed, to mine",
        f"{ids['delivered']}: delivered → owed, to mine",
    ]
    for name in ("undelivered", "delivered"):
        view = console("wake", "show", ids[name], "--json").json
        assert (view["state"], view["tries"], view["problem"]) == ("owed", 0, None)
        assert view["owed_since"] == view["due_at"]


def test_of_named_wakes_all_are_owed_anew_or_none(console: Console) -> None:
    ids = prepared(console, one_of_each)
    assert console("wake", "replay", ids["undelivered"], "abcd").code == 1
    assert console("wake", "show", ids["undelivered"], "--json").json["state"] == "undelivered"


def test_what_was_given_up_is_owed_anew_by_target(console: Console) -> None:
    async def work(desk: Desk) -> list[str]:
        return [(await given_up(desk, target)).wake_id for target in ("mine", "theirs", "mine")]

    one, theirs, two = prepared(console, work)
    ran = console("wake", "replay", "--undelivered", "--target", "mine")
    assert [line.partition(":")[0] for line in ran.out.splitlines()] == [one, two]
    assert console("wake", "show", theirs, "--json").json["state"] == "undelivered"
    assert console("wake", "replay", "--undelivered").out.startswith(f"{theirs}: ")


def test_groups_that_wake_nobody_for_want_of_a_seal_are_told_of(console: Console) -> None:
    async def work(desk: Desk) -> None:
        for group in ("open", "stuck"):
            call = await desk.save(wake="mine", group=group)
            if group == "stuck":
                await desk.store.abandon(call.execution_id, "over", "harness", clock.now())

    prepared(console, work)
    ran = console("wake", "list")
    assert "1 group is not sealed though every call of it is resolved" in ran.err
    rows = console("wake", "groups", "--json").json
    assert [(row["group"], row["instance"], row["calls"], row["resolved"], row["awaits_seal"]) for row in rows] == [
        ("stuck", "refund-desk", 1, 1, True),
        ("open", "refund-desk", 1, 0, False),
    ]
    assert [row["group"] for row in console("wake", "groups", "--json", "--limit", "1").json] == ["stuck"]
    assert "stuck" in console("wake", "groups").out


def test_real_commands_bring_a_wake_that_was_given_up_to_its_program(tmp_path: Path) -> None:
    """As an operator would: try the message by hand, mend the program, replay, and see it delivered."""
    (tmp_path / "wakegate.toml").write_text(
        '[wake.mine]\nkind = "command"\n'
        f'argv = ["/bin/sh", "-c", "cat >> \\"$1\\"; echo >> \\"$1\\"", "wake", "{tmp_path}/woken"]\n'
    )
    wake = asyncio.run(_given_up_in(tmp_path))
    message = run(tmp_path, "wake", "show", wake.wake_id, "--message").out
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            console_command("worker"), cwd=tmp_path, env=environment(tmp_path), stdout=log, stderr=log
        )
        try:
            ran = run(tmp_path, "wake", "replay", "--undelivered")
            assert ran.out == f"{wake.wake_id}: undelivered (exit_9) → owed, to mine\n"
            woken = asyncio.run(written(tmp_path / "woken"))
            asyncio.run(eventually(lambda: _state(tmp_path, wake) == "delivered", seconds=60))
        finally:
            worker.terminate()
            worker.wait(60)
    assert json.loads(woken) == json.loads(message)
    assert run(tmp_path, "wake", "list", "--state", "undelivered").out == "No wakes.\n"


def test_reading_makes_no_store(console: Console) -> None:
    for arguments in (["list"], ["groups"], ["show", "abcd"], ["replay", "--undelivered"]):
        assert console("wake", *arguments).code != 0
    assert not (console.directory / "wakegate.db").exists()


async def _nothing(_: Desk) -> None:
    return None


async def _given_up_in(folder: Path) -> Wake:
    async with await open_store(f"sqlite:///{folder}/wakegate.db", mode="service") as store:
        return await given_up((await WorkerDesk(store, folder, PROVIDER).open()).desk)


def _state(folder: Path, wake: Wake) -> str:
    return str(run(folder, "wake", "show", wake.wake_id, "--json").json["state"])
