"""`wakegate instance delete`: ended at the provider first, then here; repeated, it does what is left."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from support.console import Console
from support.desk import Desk, new_id
from support.stage import PassOn, Stage, prepare, staged
from wakegate_schema.states import State


@pytest.fixture
async def stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Stage]:
    async with staged(prepare(Console(tmp_path, monkeypatch, capsys))) as stage:
        yield stage


async def saved(stage: Stage) -> str:
    """A call of the desk; return its id."""
    instance = await stage.instance()
    execution = await stage.look(
        lambda store: store.save(Desk(store, provider=instance.provider, instance_id=instance.instance_id).suspension())
    )
    return execution.execution_id


async def deleted(stage: Stage) -> int:
    """The status under which the provider shows the instance; 404 once it is deleted."""
    instance_id, token = (await stage.instance()).instance_id, Path(stage.token[1]).read_text().strip()
    return await stage.status("GET", f"/v1/instances/{instance_id}", token)


async def test_an_instance_is_deleted_at_the_provider_and_retired_here(stage: Stage) -> None:
    execution_id = await saved(stage)
    ran = await stage.run("instance", "delete", "desk", *stage.token)
    assert (ran.code, ran.out) == (0, "desk deleted at the provider and retired here; executions abandoned: 1\n")
    assert await deleted(stage) == 404
    instance = await stage.instance()
    assert (instance.state, instance.sealed_credential) == ("retired", None)
    assert [each.state for each in await stage.registrations()] == ["retired"]
    assert (await stage.look(lambda store: store.execution(execution_id))).state is State.ABANDONED
    again = await stage.run("instance", "delete", "desk", *stage.token)
    assert (again.code, "executions abandoned: 0" in again.out) == (0, True)


@pytest.mark.parametrize("status", [401, 403, 409, 429, 500, 503, 302])
async def test_a_provider_that_refuses_changes_nothing_here(stage: Stage, status: int) -> None:
    async def refuse(_: web.Request, __: PassOn) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    stage.interference = refuse
    ran = await stage.run("instance", "delete", "desk", *stage.token)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert (await stage.instance()).state == "active"


async def test_a_deletion_whose_answer_is_lost_is_finished_by_the_same_command(stage: Stage) -> None:
    async def lose(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
        answer = await pass_on()
        if request.transport is not None:
            request.transport.abort()
        return answer

    stage.interference = lose
    assert (await stage.run("instance", "delete", "desk", *stage.token)).code == 1
    assert (await stage.instance()).state == "active"
    stage.interference = None
    assert (await stage.run("instance", "delete", "desk", *stage.token)).code == 0
    assert (await stage.instance()).state == "retired"


async def test_what_the_provider_does_not_know_is_retired_here(stage: Stage) -> None:
    async def unknown(_: web.Request, __: PassOn) -> web.StreamResponse:
        return web.Response(status=404)

    stage.interference = unknown
    ran = await stage.run("instance", "delete", "desk", *stage.token)
    assert (ran.code, "unknown at the provider" in ran.out) == (0, True)
    assert (await stage.instance()).state == "retired"


async def test_what_was_retired_here_can_still_be_deleted_there(stage: Stage) -> None:
    await stage.run("instance", "retire", "desk")
    ran = await stage.run("instance", "delete", "desk", *stage.token)
    assert (ran.code, "deleted at the provider" in ran.out) == (0, True)
    assert await deleted(stage) == 404


async def test_a_rotation_that_is_not_finished_ends_with_its_instance(stage: Stage) -> None:
    async def refuse(_: web.Request, __: PassOn) -> web.StreamResponse:
        return web.Response(status=503)

    stage.interference = refuse
    await stage.rotate()
    stage.interference = None
    assert (await stage.run("instance", "delete", "desk", *stage.token)).code == 0
    assert [each.state for each in await stage.registrations()] == ["retired", "retired"]


async def test_a_registration_without_an_instance_is_not_deleted_but_retired(stage: Stage) -> None:
    stage.console.secret_file("secret", "whsec_" + "QUJD" * 10 + "QUI=")
    registration_id = new_id()
    await stage.run(
        "instance", "import", "--provider-url", stage.provider, "--registration-id", registration_id, "--secret-file",
        "secret", "--name", "coming",
    )  # fmt: skip
    ran = await stage.run("instance", "delete", "coming", *stage.token)
    assert (ran.code, "gives up its registration" in ran.err) == (1, True)
