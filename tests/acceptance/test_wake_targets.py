"""Wake targets in a real worker: at least once and with one id, whoever dies; nobody held up by what hangs."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.clocks import SetApart
from support.http_servers import Served, http_server
from support.wake_programs import gone, written
from support.workers import WorkerDesk
from support.workers import eventually as within
from wakegate_schema import clock
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Execution, Wake
from wakegate_worker import waking
from wakegate_worker.wake_programs import AT_ONCE

BEGIN_AND_HANG = (
    'echo "$WAKEGATE_WAKE_ID" >> "$1/begun"; echo $$ > "$1/pid"; [ ! -e "$1/hang" ] || sleep 600;'
    ' echo "$WAKEGATE_WAKE_ID" >> "$1/done"'
)


async def eventually(holds: Callable[[], Awaitable[bool] | bool]) -> None:
    """Wait until something holds, also on a machine that is busy."""
    await within(holds, seconds=60)


def table(script: str, *arguments: Path | str, **more: Any) -> dict[str, Any]:
    """A `[wake.NAME]` table that runs a line of shell."""
    return {"kind": "command", "argv": ["/bin/sh", "-c", script, "wake", *map(str, arguments)], **more}


def toml(**tables: dict[str, Any]) -> str:
    """A settings file with these targets; JSON's lists, texts and numbers are TOML's."""
    return "".join(
        f"[wake.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())
        for name, values in tables.items()
    )


def lines(path: Path) -> list[str]:
    """The lines that programs have appended to a file, which no part of wakegate reads."""
    return path.read_text().splitlines() if path.exists() else []


async def resolved(desk: WorkerDesk, wake: str = "mine", **changes: Any) -> Execution:
    """A call that was given up: its wake is owed."""
    saved = await desk.save(wake=wake, **changes)
    return await desk.store.abandon(saved.execution_id, "over", "harness", clock.now())


async def wake_of(desk: WorkerDesk, execution: Execution) -> Wake:
    """The call's one wake."""
    (wake,) = await desk.store.wakes(execution.execution_id)
    return wake


async def delivered(desk: WorkerDesk, *executions: Execution) -> None:
    """Wait until the calls' wakes are acknowledged."""

    async def all_are() -> bool:
        return {(await wake_of(desk, execution)).state for execution in executions} == {"delivered"}

    await eventually(all_are)


async def test_a_command_that_fails_is_run_again_with_the_same_id_until_it_acknowledges(
    desk: WorkerDesk, tmp_path: Path
) -> None:
    script = 'echo "$WAKEGATE_WAKE_ID" >> "$1"; [ "$(wc -l < "$1")" -ge 3 ]'
    async with desk.worker(wake={"mine": table(script, tmp_path / "tries")}):
        execution = await resolved(desk)
        await delivered(desk, execution)
    wake = await wake_of(desk, execution)
    assert lines(tmp_path / "tries") == [wake.wake_id] * 3
    assert (wake.tries, wake.problem) == (2, None)


async def test_what_went_wrong_with_a_program_is_on_record_and_its_last_words_are_in_the_log_alone(
    desk: WorkerDesk,
) -> None:
    settings = desk.directory / "wakes.toml"
    settings.write_text(toml(mine=table("echo 'no such agent' >&2; exit 9")))
    async with desk.process(WAKEGATE_CONFIG=str(settings), WAKEGATE_LOG_FORMAT="json"):
        execution = await resolved(desk)

        async def has_failed() -> bool:
            return (await wake_of(desk, execution)).problem == "exit_9"

        await eventually(has_failed)
        await eventually(lambda: "no such agent" in desk.logs)
    (line,) = [json.loads(text) for text in desk.logs.splitlines() if "no such agent" in text]
    assert (line["action"], line["problem"], line["stderr"], line["target"]) == (
        "wake", "exit_9", "no such agent", "mine",
    )  # fmt: skip
    assert line["wake_id"] == (await wake_of(desk, execution)).wake_id


async def test_a_worker_that_is_killed_takes_its_program_along_and_another_wakes_again(
    desk: WorkerDesk, tmp_path: Path
) -> None:
    (tmp_path / "hang").touch()
    settings = tmp_path / "wakes.toml"
    settings.write_text(toml(mine=table(BEGIN_AND_HANG, tmp_path, timeout=60)))
    execution = await resolved(desk)
    async with desk.process(WAKEGATE_CONFIG=str(settings)) as worker:
        pid = int(await written(tmp_path / "pid"))
        worker.send_signal(signal.SIGKILL)
        await worker.wait()
        assert await gone(pid), "it lives on beside the one that the next worker runs"
    (tmp_path / "hang").unlink()
    ahead = SetApart(tmp_path)
    ahead.apart(round(waking.LEASE_S + 1) * SECOND)  # the dead worker's lease is over
    async with desk.process(WAKEGATE_CONFIG=str(settings), **ahead.environment):
        await delivered(desk, execution)
    wake = await wake_of(desk, execution)
    assert lines(tmp_path / "begun") == [wake.wake_id] * 2
    assert lines(tmp_path / "done") == [wake.wake_id]


async def test_a_worker_that_is_told_to_stop_ends_a_program_that_goes_on(desk: WorkerDesk, tmp_path: Path) -> None:
    (tmp_path / "hang").touch()
    settings = tmp_path / "wakes.toml"
    settings.write_text(toml(mine=table(BEGIN_AND_HANG, tmp_path, timeout=60)))
    execution = await resolved(desk)
    async with desk.process(WAKEGATE_CONFIG=str(settings)) as worker:
        pid = int(await written(tmp_path / "pid"))
        worker.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(worker.wait(), 60) == 0
        assert await gone(pid)
    assert (await wake_of(desk, execution)).state == "owed"


async def test_a_program_that_takes_longer_than_a_lease_is_run_once(
    desk: WorkerDesk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waking, "LEASE_S", 4.0)
    monkeypatch.setattr(waking, "KEEP_EVERY_S", 0.3)
    script = 'echo begun >> "$1"; sleep 6'
    async with desk.worker(wake={"mine": table(script, tmp_path / "runs")}):
        execution = await resolved(desk)
        await delivered(desk, execution)
    assert lines(tmp_path / "runs") == ["begun"]


async def test_a_target_that_hangs_holds_up_no_other_and_runs_only_so_many_at_once(
    desk: WorkerDesk, tmp_path: Path
) -> None:
    async def acknowledge(_: web.Request) -> web.Response:
        return web.Response(status=204)

    hanging = 'echo $$ >> "$1"; sleep 600'
    async with http_server(acknowledge) as server:
        targets = {
            "hanging": table(hanging, tmp_path / "hanging"),
            "quick": table("exit 0"),
            "web": {"kind": "http", "url": server.url},
        }
        async with desk.worker(wake=targets):
            hung = [await resolved(desk, "hanging") for _ in range(AT_ONCE + 2)]
            await eventually(lambda: len(lines(tmp_path / "hanging")) == AT_ONCE)
            others = [await resolved(desk, name) for name in ("quick", "web") * 3]
            await delivered(desk, *others)
            assert len(lines(tmp_path / "hanging")) == AT_ONCE
            for pid in lines(tmp_path / "hanging"):
                os.kill(int(pid), signal.SIGKILL)
            await eventually(lambda: len(lines(tmp_path / "hanging")) > AT_ONCE)
    assert {(await wake_of(desk, execution)).state for execution in hung} == {"owed"}


async def test_a_program_that_is_not_there_is_warned_of_at_the_start_and_nothing_else_waits(
    desk: WorkerDesk, tmp_path: Path
) -> None:
    settings = tmp_path / "wakes.toml"
    settings.write_text(toml(absent={"kind": "command", "argv": ["/nothing/there"]}, mine=table("exit 0")))
    absent, there = await resolved(desk, "absent"), await resolved(desk)
    async with desk.process(WAKEGATE_CONFIG=str(settings)):
        await delivered(desk, there)

        async def has_failed() -> bool:
            return (await wake_of(desk, absent)).problem == "program_not_started"

        await eventually(has_failed)
    assert "the program of a wake target is not there" in desk.logs


async def test_an_entry_point_is_looked_for_in_its_directory_and_the_worker_does_not_import_it(
    desk: WorkerDesk, tmp_path: Path
) -> None:
    agents = tmp_path / "agents"
    agents.mkdir()
    (agents / "my_agent.py").write_text(
        "import os, pathlib\n"
        "pathlib.Path('imported').open('a').write(f'{os.getppid()}\\n')\n"
        "def woken(message):\n"
        "    with open('woken', 'a') as file:\n"
        "        file.write(message['data']['key'] + '\\n')\n"
    )
    settings = tmp_path / "wakes.toml"
    settings.write_text(toml(mine={"kind": "python", "entry_point": "my_agent:woken", "directory": "agents"}))
    async with desk.process(WAKEGATE_CONFIG=str(settings)) as worker:  # its working directory is where agents/ is
        execution = await resolved(desk)
        await delivered(desk, execution)
        assert str(worker.pid) not in lines(agents / "imported")
    assert lines(agents / "woken") == [execution.idempotency_key]


async def test_a_group_is_told_of_by_one_message_over_http_and_to_a_program(desk: WorkerDesk, tmp_path: Path) -> None:
    async def acknowledge(_: web.Request) -> web.Response:
        return web.Response(status=204)

    async with http_server(acknowledge) as server:
        targets = {
            "web": {"kind": "http", "url": server.url},
            "mine": table('cat >> "$1"; echo >> "$1"', tmp_path / "m"),
        }
        async with desk.worker(wake=targets):
            for target in targets:
                calls = [await resolved(desk, target, group=f"of-{target}") for _ in range(3)]
                for number in range(2):  # the second changes nothing
                    await desk.store.seal_group(desk.provider, desk.instance_id, f"of-{target}", clock.now() + number)
                await eventually(lambda calls=calls: _is_told(desk, calls))  # type: ignore[misc]
    _check_group("of-web", server.seen[0].body, len(server.seen), server)
    (body,) = lines(tmp_path / "m")
    _check_group("of-mine", body.encode(), 1)


async def _is_told(desk: WorkerDesk, calls: list[Execution]) -> bool:
    wakes = {wake.wake_id: wake.state for call in calls for wake in await desk.store.wakes(call.execution_id)}
    return list(wakes.values()) == ["delivered"]


def _check_group(name: str, body: bytes, times: int, server: Served | None = None) -> None:
    assert times == 1
    message = json.loads(body)
    assert message["type"] == "group.resolved"
    assert (message["data"]["group"], message["data"]["count"], message["data"]["left_out"]) == (name, 3, None)
    assert [each["state"] for each in message["data"]["resolutions"]] == ["abandoned"] * 3
    assert len({each["id"] for each in message["data"]["resolutions"]}) == 3
    if server is not None:
        assert server.seen[0].headers["webhook-id"] == message["data"]["resolutions"][-1]["id"]


async def test_a_wake_that_was_given_up_is_tried_again_for_a_whole_day_once_it_is_replayed(
    desk: WorkerDesk, tmp_path: Path
) -> None:
    execution = await resolved(desk)
    late = SetApart(tmp_path)
    late.apart(25 * clock.HOUR)
    settings = tmp_path / "wakes.toml"
    settings.write_text(
        toml(mine=table('echo "$WAKEGATE_WAKE_ID" >> "$1"; [ -e "$2" ]', tmp_path / "t", tmp_path / "ok"))
    )
    async with desk.process(WAKEGATE_CONFIG=str(settings), **late.environment):

        async def given_up() -> bool:
            return (await wake_of(desk, execution)).state == "undelivered"

        await eventually(given_up)
        assert len(lines(tmp_path / "t")) == 1
        wake = await wake_of(desk, execution)
        await desk.store.replay_wake(wake.wake_id, clock.now() + 25 * clock.HOUR)
        await eventually(lambda: len(lines(tmp_path / "t")) >= 3)
        assert (await wake_of(desk, execution)).state == "owed", "it has a day again"
        (tmp_path / "ok").touch()
        await delivered(desk, execution)
    assert set(lines(tmp_path / "t")) == {wake.wake_id}


def test_a_lease_outlasts_two_keepings_that_come_late() -> None:
    assert waking.KEEP_EVERY_S * 3 <= waking.LEASE_S
