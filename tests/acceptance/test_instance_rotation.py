"""`wakegate instance rotate`: another registration at the provider, resumable, with a bounded overlap."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from support.console import Console
from support.deliveries import new_id
from support.http_servers import http_server
from support.stage import PassOn, Stage, prepare, staged
from wakegate_schema import clock
from wakegate_schema.clock import HOUR, MINUTE
from wakegate_schema.keys import ensure_key
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import seal_credential, seal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import open_store

URL = "https://agents.example/aap/events"
OTHER_URL = "https://other.example/aap/events"


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    return prepare(Console(tmp_path, monkeypatch, capsys))


@pytest.fixture
async def stage(console: Console) -> AsyncIterator[Stage]:
    async with staged(console) as stage:
        yield stage


async def test_another_registration_takes_the_place_of_the_one_in_force(stage: Stage) -> None:
    before = clock.now()
    ran = await stage.rotate()
    assert (ran.code, ran.err) == (0, "")
    old, new = await stage.registrations()
    assert ran.out.startswith(f"desk: rotated to registration {new.registration_id}; old one taken until ")
    assert (old.state, new.state, bool(new.replacing)) == ("superseded", "verified", False)
    assert before + 15 * MINUTE <= (old.superseded_until or 0) <= clock.now() + 15 * MINUTE
    assert (new.instance_id, new.url) == (old.instance_id, old.url)
    assert old.idempotency_key != new.idempotency_key


async def test_attempts_in_flight_are_saved_within_the_overlap_and_refused_after_it(stage: Stage) -> None:
    await stage.rotate("--overlap", "24h")
    old, new = await stage.registrations()
    assert (await stage.post((await stage.sender(old)).notification())).status == 204
    assert (await stage.post((await stage.sender(new)).notification())).status == 204
    await stage.rotate("--now")
    newest = (await stage.registrations())[-1]
    for refused in (old, new):
        reply = await stage.post((await stage.sender(refused)).notification())
        assert (reply.status, reply.reason) == (401, "unauthenticated")
        reply = await stage.post((await stage.sender(refused)).verification(refused.registration_id))
        assert (reply.status, reply.reason) == (403, "registration_superseded")
    assert [entry["reason"] for entry in stage.receiver.refusals.entries()][::2] == ["not_live", "not_live"]
    assert (await stage.post((await stage.sender(newest)).notification())).status == 204
    assert len(await stage.look(lambda store: store.notifications())) == 3


async def test_a_secret_known_to_others_ends_at_once(stage: Stage) -> None:
    ran = await stage.rotate("--now")
    old, _ = await stage.registrations()
    assert (old.superseded_until or 0) <= clock.now()
    assert "what the old one signs is refused" in ran.out
    assert (await stage.post((await stage.sender(old)).notification())).status == 401


async def test_what_never_arrived_is_submitted_again_the_same(stage: Stage) -> None:
    stage.interference = lost_on_the_way
    failed = await stage.rotate()
    assert (failed.code, "run the same command again" in failed.err) == (1, True)
    old, begun = await stage.registrations()
    assert (old.state, begun.state, bool(begun.replacing)) == ("verified", "expected", True)
    assert (await stage.post((await stage.sender(old)).notification())).status == 204
    stage.interference = None
    ran = await stage.rotate()
    assert f"a rotation begun before is finished, registration {begun.registration_id}" in ran.out
    assert len(stage.updates) == 2
    assert len(set(stage.updates)) == 1


async def test_when_the_answer_is_lost_both_secrets_speak_until_the_next_run(stage: Stage) -> None:
    stage.interference = lost_on_the_way_back
    assert (await stage.rotate()).code == 1
    stage.interference = None
    old, begun = await stage.registrations()
    assert (old.state, begun.state, bool(begun.replacing)) == ("verified", "verified", True)
    for each in (old, begun):
        assert (await stage.post((await stage.sender(each)).notification())).status == 204
    shown = await stage.run("instance", "show", "desk")
    assert "a rotation is not finished; repeat it: wakegate instance rotate desk" in shown.out
    assert (await stage.rotate()).code == 0
    assert len(set(stage.updates)) == 1
    assert [each.state for each in await stage.registrations()] == ["superseded", "verified"]


async def test_a_provider_that_has_switched_is_refused_after_giving_up_until_the_next_rotation(stage: Stage) -> None:
    """Not acknowledged and discarded: the instance lives, and its provider keeps what is not acknowledged."""
    stage.interference = lost_on_the_way_back
    await stage.rotate()
    stage.interference = None
    begun = (await stage.registrations())[-1]
    await stage.run("instance", "retire", begun.registration_id)
    delivery = (await stage.sender(begun)).notification()
    assert (await stage.post(delivery)).status == 401
    assert await stage.look(lambda store: store.notifications()) == []
    assert (await stage.rotate()).code == 0
    assert [each.state for each in await stage.registrations()] == ["superseded", "retired", "verified"]


async def test_a_receiver_that_refuses_changes_nothing(stage: Stage) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.Response(status=403)

    async with http_server(refuse) as elsewhere:
        ran = await stage.rotate("--url", elsewhere.url)
    assert ran.code == 1
    assert "refused the challenge (403)" in ran.err
    old, begun = await stage.registrations()
    assert (old.state, begun.state) == ("verified", "expected")
    assert (await stage.post((await stage.sender(old)).notification())).status == 204
    other = await stage.rotate("--url", stage.receiver.url)
    assert (other.code, begun.registration_id in other.err) == (1, True)
    given_up = await stage.run("instance", "retire", begun.registration_id)
    assert given_up.out == f"desk: the rotation to registration {begun.registration_id} is given up\n"
    assert (await stage.instance()).state == "active"
    assert (await stage.rotate()).code == 0
    assert [each.state for each in await stage.registrations()] == ["superseded", "retired", "verified"]


async def test_only_an_unfinished_rotation_is_given_up_by_its_registration(stage: Stage) -> None:
    await stage.rotate()
    old, new = await stage.registrations()
    refused = await stage.run("instance", "retire", old.registration_id)
    assert (refused.code, "superseded already" in refused.err) == (1, True)
    assert (await stage.instance()).state == "active"
    assert (await stage.run("instance", "retire", new.registration_id)).out == "desk retired; executions abandoned: 0\n"
    assert (await stage.run("instance", "retire", new.registration_id)).code == 0


async def test_a_provider_that_names_another_delivery_is_not_believed(stage: Stage) -> None:
    instance_id = (await stage.instance()).instance_id

    async def without_one(_: web.Request, pass_on: PassOn) -> web.StreamResponse:
        await pass_on()
        return web.json_response({"id": instance_id, "name": "desk"})

    stage.interference = without_one
    ran = await stage.rotate()
    assert (ran.code, "another delivery" in ran.err) == (1, True)
    assert [each.state for each in await stage.registrations()] == ["verified", "verified"]


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (401, "--provisioner-token-file"),
        (404, "does not know this instance"),
        (409, "another update has this key"),
        (400, "does not take this delivery"),
        (500, "try again later"),
        (302, "redirects are not followed"),
    ],
)
async def test_every_refusal_says_what_to_do_and_changes_nothing(stage: Stage, status: int, told: str) -> None:
    async def refuse(_: web.Request, __: PassOn) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": "/elsewhere"})

    stage.interference = refuse
    ran = await stage.rotate()
    assert (ran.code, told in ran.err, ran.err.count("\n")) == (1, True, 1)
    assert [each.state for each in await stage.registrations()] == ["verified", "expected"]


async def test_show_tells_the_registrations_and_their_overlap(stage: Stage) -> None:
    await stage.rotate()
    _, new = await stage.registrations()
    shown = (await stage.run("instance", "show", "desk", "--json")).json
    assert shown["registration_id"] == new.registration_id
    first, second = shown["registrations"]
    assert (first["state"], first["in_force"], second["state"], second["in_force"]) == (
        "superseded", False, "verified", True,
    )  # fmt: skip
    assert first["superseded_until"] is not None
    assert second["superseded_until"] is None
    assert "TAKEN UNTIL" in (await stage.run("instance", "show", "desk")).out
    assert (await stage.run("instance", "list", "--json")).json[0]["registration_id"] == new.registration_id


async def test_provisioning_again_only_names_an_instance_that_was_rotated(stage: Stage) -> None:
    await stage.rotate()
    again = await stage.provision()
    assert (again.code, "was provisioned before" in again.out) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--now", "--overlap", "1m"), "exclude each other"),
        (("--overlap", "25h"), "over 24h"),
        (("--overlap", "0s"), "--overlap"),
        (("--url", "http://agents.example/aap"), "--url"),
    ],
)
async def test_a_wrong_option_is_named_and_nothing_is_begun(
    stage: Stage, arguments: tuple[str, ...], told: str
) -> None:
    ran = await stage.rotate(*arguments)
    assert (ran.code, told in ran.err) == (2, True)
    assert len(await stage.registrations()) == 1


async def imported(console: Console, unfinished_until: int | None = None) -> Stage:
    """An instance that was made elsewhere, with its registration and perhaps an unfinished rotation; nothing runs."""
    provider, instance_id, now = "http://127.0.0.1:9", new_id(), clock.now()

    def registration(registration_id: str) -> Registration:
        sealed = seal_signing_secret(
            ensure_key(console.directory / "receiver.key"),
            provider=provider,
            registration_id=registration_id,
            secret=SigningSecret.generate(),
        )
        return Registration(
            registration_id, provider, "desk", "verified", sealed, None, None, instance_id, now, now, now
        )  # fmt: skip

    def begun(until: int) -> Registration:
        return replace(
            registration(new_id()), state="expected", verified_at=None, replacing=True, url=URL,
            idempotency_key=new_id(), expected_until=until,
        )  # fmt: skip

    sealed = seal_credential(
        ensure_key(console.directory / "worker.key"), provider=provider, instance_id=instance_id, token="x"
    )
    in_force = registration(new_id())
    async with await open_store(console.database, mode="service") as store:
        await store.add_registration(in_force)
        instance = Instance(provider, instance_id, "desk", "active", None, "webhook", sealed, None, now)
        await store.add_instance(instance, in_force.registration_id)
        if unfinished_until is not None:
            await store.add_registration(begun(unfinished_until))
    return Stage(console, provider, None, None)  # type: ignore[arg-type]


async def test_an_imported_instance_needs_a_url(console: Console) -> None:
    stage = await imported(console)
    ran = await stage.rotate()
    assert (ran.code, "give --url" in ran.err) == (1, True)
    assert len(await stage.registrations()) == 1
    assert "connection was refused" in (await stage.rotate("--url", URL)).err
    assert (await stage.registrations())[-1].url == URL


async def test_a_rotation_begun_for_another_url_says_which(console: Console) -> None:
    stage = await imported(console, unfinished_until=clock.now() + HOUR)
    ran = await stage.rotate("--url", OTHER_URL)
    assert (ran.code, URL in ran.err, "instance retire" in ran.err) == (1, True, True)
    assert "connection was refused" in (await stage.rotate()).err


async def test_a_rotation_that_its_provider_may_have_forgotten_is_not_repeated(console: Console) -> None:
    stage = await imported(console, unfinished_until=clock.now() - 1)
    ran = await stage.rotate()
    assert (ran.code, "was not finished before" in ran.err) == (1, True)


async def test_nothing_is_rotated_that_is_retired_or_has_no_registration(console: Console) -> None:
    stage = await imported(console)
    await stage.run("instance", "retire", "desk")
    ran = await stage.rotate()
    assert (ran.code, "retired" in ran.err) == (1, True)
    console.secret_file("credential", "x")
    await stage.run(
        "instance", "import", "--provider-url", stage.provider, "--instance-id", new_id(), "--credential-file",
        "credential", "--name", "polled",
    )  # fmt: skip
    ran = await stage.rotate(name="polled")
    assert (ran.code, "none to replace" in ran.err) == (1, True)


async def lost_on_the_way(request: web.Request, _: PassOn) -> web.StreamResponse:
    """Hang up before the provider has seen anything."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


async def lost_on_the_way_back(request: web.Request, pass_on: PassOn) -> web.StreamResponse:
    """Hang up once the provider has done it."""
    answer = await pass_on()
    if request.transport is not None:
        request.transport.abort()
    return answer
