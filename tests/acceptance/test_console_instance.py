"""`wakegate instance`: provisioning over real HTTP, with a real provider and receiver, and all that can go wrong."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import aiohttp
import pytest
from aiohttp import web

from support.console import Console, Ran
from support.desk import new_id
from support.http_servers import http_server
from wakegate_provider.service import running
from wakegate_receiver.service import receiving
from wakegate_receiver.stopping import Stop
from wakegate_schema import clock
from wakegate_schema.keys import load_key
from wakegate_schema.records import Challenge, Instance, Registration, Suspension
from wakegate_schema.sealing import unseal_credential, unseal_signing_secret
from wakegate_schema.settings import load_settings
from wakegate_schema.signing import SigningSecret
from wakegate_schema.states import State
from wakegate_schema.store import Store, open_store

T = TypeVar("T")
TOKEN = "planted-provisioner-token"
CREDENTIAL = "planted-credential"
SECRET = SigningSecret.generate().reveal()
PROVIDER = "https://provider.example"
URL = "https://agents.example/aap/events"


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Console:
    made = Console(tmp_path, monkeypatch, capsys)
    made.secret_file("token", TOKEN + "\n")
    made.secret_file("credential", CREDENTIAL + "\n")
    made.secret_file("secret", SECRET + "\n")
    made.set("WAKEGATE_LISTEN", "127.0.0.1:0")
    made.set("WAKEGATE_PROVIDER_LISTEN", "127.0.0.1:0")
    made.set("WAKEGATE_PROVIDER_DATABASE", f"sqlite:///{tmp_path}/provider.db")
    made.set("WAKEGATE_PROVIDER_PROVISIONER_TOKEN_FILE", str(tmp_path / "token"))
    return made


async def run(console: Console, *arguments: str) -> Ran:
    """Run a command beside this event loop."""
    return await asyncio.to_thread(console, *arguments)


async def provision(console: Console, provider: str, url: str, *options: str, wait: float = 0) -> Ran:
    """Run `instance provision`."""
    return await run(
        console, "instance", "provision", "--provider-url", provider, "--provisioner-token-file", "token",
        "--url", url, "--name", "desk", "--wait", str(wait), *options,
    )  # fmt: skip


async def look(console: Console, work: Callable[[Store], Awaitable[T]]) -> T:
    """Do something in the console's store."""
    async with await open_store(console.database, mode="use") as store:
        return await work(store)


async def registrations(console: Console) -> list[Registration]:
    """The registrations on record."""
    return await look(console, lambda store: store.registrations())


@asynccontextmanager
async def peers() -> AsyncIterator[tuple[str, str]]:
    """A provider and a receiver; gives the base URL and the URL of the events path."""
    settings = load_settings()
    async with running(settings) as provider, receiving(settings, Stop()) as receiver:
        yield provider, receiver.url


async def test_an_instance_is_provisioned_through_the_challenge(console: Console) -> None:
    async with peers() as (provider, url):
        ran = await provision(console, provider, url)
    assert (ran.code, ran.err) == (0, "")
    instance = (await run(console, "instance", "list", "--json")).json[0]
    assert ran.out == f"desk provisioned as {instance['instance_id']}\n"
    assert (instance["name"], instance["state"], instance["delivery"]) == ("desk", "active", "webhook")
    assert [each.state for each in await registrations(console)] == ["verified"]


async def test_the_credential_is_sealed_for_the_worker_and_the_secret_for_the_receiver(console: Console) -> None:
    async with peers() as (provider, url):
        await provision(console, provider, url)
    settings = load_settings()
    [instance] = await look(console, lambda store: store.instances())
    [registration] = await registrations(console)
    credential = unseal_credential(
        load_key(settings.worker_key_path),
        instance.sealed_credential or b"",
        provider=provider,
        instance_id=instance.instance_id,
    )
    assert credential.token.reveal()
    assert unseal_signing_secret(
        load_key(settings.receiver_key_path),
        registration.sealed_secret,
        provider=provider,
        registration_id=registration.registration_id,
    ).reveal()


async def test_a_finished_instance_is_only_named(console: Console) -> None:
    async with peers() as (provider, url):
        first = await provision(console, provider, url)
        again = await provision(console, provider, url)
        requests = (await run(console, "instance", "list", "--json")).json
    assert again.code == 0
    assert again.out == first.out.replace("provisioned as", "was provisioned before, as")
    assert len(requests) == 1


async def test_the_credential_is_saved_for_a_harness_and_again_from_the_sealed_one(
    console: Console, tmp_path: Path
) -> None:
    saved, again = tmp_path / "saved.token", tmp_path / "again.token"
    async with peers() as (provider, url):
        ran = await provision(console, provider, url, "--save-credential", str(saved))
        assert ran.code == 0, ran.err
    text = saved.read_text()
    assert saved.stat().st_mode & 0o777 == 0o600
    assert text.strip() not in ran.out + ran.err
    for path in (again, saved):  # nobody is asked for it any more
        ran = await provision(console, provider, url, "--save-credential", str(path))
        assert (ran.code, path.read_text()) == (0, text), ran.err
        assert text.strip() not in ran.out + ran.err
    [held] = await look(console, lambda store: store.instances())
    assert held.sealed_credential is not None
    unsealed = unseal_credential(
        load_key(tmp_path / "worker.key"), held.sealed_credential, provider=held.provider, instance_id=held.instance_id
    )
    assert unsealed.token.reveal() == text.strip()


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_file_with_something_else_is_not_replaced_by_a_credential(console: Console, is_known: bool) -> None:
    async with peers() as (provider, url):
        if is_known:
            assert (await provision(console, provider, url)).code == 0
        ran = await provision(console, provider, url, "--save-credential", "credential")
    assert (ran.code, "is not replaced" in ran.err) == (2, True), ran.err
    assert Path("credential").read_text() == CREDENTIAL + "\n"
    assert len(await look(console, lambda store: store.instances())) == is_known  # nothing was asked for in vain


async def test_what_the_receiver_did_not_answer_goes_on_once_it_does(console: Console) -> None:
    settings = load_settings()
    async with running(settings) as provider:
        async with receiving(settings, Stop()) as receiver:
            console.set("WAKEGATE_LISTEN", receiver.url.split("/")[2])
        first = await provision(console, provider, receiver.url)
        assert first.code == 1
        assert receiver.url in first.err
        assert first.err.count("\n") == 1
        [begun] = await registrations(console)
        async with receiving(load_settings(), Stop()):
            again = await provision(console, provider, receiver.url)
    assert again.code == 0, again.err
    [finished] = await registrations(console)
    assert (finished.registration_id, finished.sealed_secret) == (begun.registration_id, begun.sealed_secret)


async def test_provisioning_waits_for_what_is_only_just_starting(console: Console) -> None:
    settings = load_settings()
    async with running(settings) as provider, receiving(settings, Stop()) as receiver:
        url = receiver.url
    (console.directory / "token").rename(console.directory / "later")
    console.set("WAKEGATE_PROVIDER_LISTEN", provider.removeprefix("http://"))
    console.set("WAKEGATE_LISTEN", url.split("/")[2])
    provisioning = asyncio.create_task(provision(console, provider, url, wait=20))
    await asyncio.sleep(0.4)
    (console.directory / "later").rename(console.directory / "token")
    await asyncio.sleep(0.4)
    async with running(load_settings()):
        await asyncio.sleep(0.4)
        async with receiving(load_settings(), Stop()):
            ran = await provisioning
    assert (ran.code, ran.out.split(" as ")[0]) == (0, "desk provisioned")
    told = [line for line in ran.err.splitlines() if line.startswith("waiting")]
    assert told == [
        "waiting up to 20 s for token, which `wakegate provider` makes when it starts",
        "waiting up to 20 s for the provider to listen",
        "waiting up to 20 s for the receiver to answer the provider's challenge",
    ]
    assert len(await registrations(console)) == 1


async def test_what_waits_is_asked_for_again_with_the_same_submission(console: Console) -> None:
    async def refusing(_: web.Request) -> web.StreamResponse:
        return web.Response(status=422, body=refused("webhook_verification_failed"))

    async with http_server(refusing) as provider:
        ran = await provision(console, provider.url, URL, wait=2)
    assert ran.code == 1
    assert len(provider.seen) >= 3
    assert len({(each.headers["Idempotency-Key"], each.body) for each in provider.seen}) == 1


async def test_a_receiver_that_uses_another_store_is_not_waited_for(console: Console, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    settings = load_settings()
    other = settings.model_copy(update={"database": f"sqlite:///{tmp_path}/elsewhere/wakegate.db"})
    async with running(settings) as provider, receiving(other, Stop()) as receiver:
        ran = await provision(console, provider, receiver.url, wait=20)
    assert (ran.code, ran.out) == (1, "")
    assert "refused the challenge (403)" in ran.err
    assert f"does it use this store ({tmp_path}/wakegate.db)?".lower() in ran.err.lower()
    assert "`wakegate refusal list`" in ran.err
    assert "waiting" not in ran.err


async def test_a_lost_answer_is_asked_for_again_with_the_same_submission(console: Console) -> None:
    async with peers() as (provider, url), aiohttp.ClientSession() as session:

        async def losing(request: web.Request) -> web.StreamResponse:
            headers = {name: request.headers[name] for name in ("Authorization", "Idempotency-Key", "Content-Type")}
            async with session.post(provider + request.path, data=await request.read(), headers=headers) as answer:
                body, status = await answer.read(), answer.status
            if len(between.seen) == 1 and request.transport is not None:
                request.transport.abort()
            return web.Response(status=status, body=body, content_type="application/json")

        async with http_server(losing) as between:
            first = await provision(console, between.url, url)
            again = await provision(console, between.url, url)
    assert first.code == 1
    assert "run the same command again" in first.err
    assert (again.code, again.err) == (0, "")
    one, two = between.seen
    assert one.body == two.body
    assert one.headers["Idempotency-Key"] == two.headers["Idempotency-Key"]
    assert len(await registrations(console)) == 1


def refused(code: str, kind: str = "invalid_request") -> bytes:
    """An error body as AAP has it."""
    return json.dumps({"error": {"type": kind, "code": code, "message": TOKEN, "request_id": new_id()}}).encode()


ANSWERS = [
    (401, refused("invalid_token", "authentication"), {}, "--provisioner-token-file"),
    (403, refused("forbidden", "authorization"), {}, "--provisioner-token-file"),
    (404, b"<html>", {}, "--provider-url"),
    (302, b"", {"Location": "https://elsewhere.example"}, "redirects are not followed"),
    (400, refused("invalid_webhook_url"), {}, URL),
    (400, refused("odd"), {}, "--name"),
    (409, refused("instance_deleted", "conflict"), {}, "another name"),
    (422, refused("webhook_verification_failed"), {}, URL),
    (429, refused("rate_limit", "rate_limit"), {"Retry-After": "7"}, "try again in 7 s"),
    (503, refused("unavailable", "dependency"), {}, "try again later"),
    (500, b"\xff" * 100, {}, "try again later"),
    (201, b"{}", {}, "not what AAP defines"),
    (201, b'{"instance": ' + b" " * 70_000, {}, "not what AAP defines"),
    (200, b"<html>" + TOKEN.encode(), {}, "not what AAP defines"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "headers", "words"), ANSWERS, ids=lambda value: str(value)[:24])
async def test_every_refusal_says_what_to_do_and_no_secret(
    console: Console, status: int, body: bytes, headers: dict[str, str], words: str
) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, body=body, headers=headers)

    async with http_server(answer) as provider:
        ran = await provision(console, provider.url, URL)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("wakegate: the ")
    assert ran.err.count("\n") == 1
    assert words in ran.err
    assert TOKEN not in ran.err
    assert len(provider.seen) == 1
    assert (await run(console, "instance", "list", "--json")).json[0]["state"] == "expected"


async def test_an_answer_with_another_delivery_is_not_kept(console: Console) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        body = {"instance": {"id": new_id(), "name": "desk"}, "credential": {"token": CREDENTIAL}}
        return web.Response(status=201, body=json.dumps(body).encode())

    async with http_server(answer) as provider:
        ran = await provision(console, provider.url, URL)
    assert ran.code == 1
    assert CREDENTIAL not in ran.err
    assert await look(console, lambda store: store.instances()) == []


async def test_an_answer_for_an_instance_that_was_not_challenged_is_not_kept(console: Console) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        delivery = json.loads(await request.read())["delivery"]
        del delivery["signing_secret"]
        body = {"instance": {"id": new_id(), "name": "desk", "delivery": delivery}, "credential": {"token": CREDENTIAL}}
        return web.Response(status=201, body=json.dumps(body).encode())

    async with http_server(answer) as provider:
        ran = await provision(console, provider.url, URL)
    assert ran.code == 1
    assert "not verified" in ran.err
    assert await look(console, lambda store: store.instances()) == []


async def test_a_provider_that_is_not_there_is_one_line(console: Console) -> None:
    async with http_server(lambda _: asyncio.sleep(0, web.Response())) as provider:
        pass
    ran = await provision(console, provider.url, URL)
    assert ran.code == 1
    assert provider.url in ran.err
    assert ran.err.count("\n") == 1


async def _refusing(_: web.Request) -> web.StreamResponse:
    return web.Response(status=503)


async def test_an_unfinished_registration_keeps_its_url(console: Console) -> None:
    async with http_server(_refusing) as provider:
        await provision(console, provider.url, URL)
        ran = await provision(console, provider.url, URL + "/other")
    assert ran.code == 1
    assert URL in ran.err
    assert len(provider.seen) == 1


async def test_a_retired_registration_makes_room_for_another(console: Console) -> None:
    async with http_server(_refusing) as provider:
        await provision(console, provider.url, URL)
        assert (await run(console, "instance", "retire", "desk")).code == 0
        await provision(console, provider.url, URL + "/other")
    first, second = provider.seen
    assert first.headers["Idempotency-Key"] != second.headers["Idempotency-Key"]


async def test_a_name_in_use_is_refused_before_anything_is_sent(console: Console) -> None:
    await imported(console, "--instance-id", new_id(), "--credential-file", "credential", "--name", "desk")
    async with http_server(_refusing) as provider:
        ran = await provision(console, provider.url, URL)
    assert ran.code == 1
    assert "desk" in ran.err
    assert provider.seen == []


async def imported(console: Console, *options: str) -> Ran:
    """Run `instance import`."""
    return await run(console, "instance", "import", "--provider-url", PROVIDER, *options)


async def test_an_imported_registration_waits_for_its_challenge_and_then_takes_its_credential(console: Console) -> None:
    registration, instance = new_id(), new_id()
    ran = await imported(console, "--registration-id", registration, "--secret-file", "secret", "--name", "desk")
    assert (ran.code, ran.err) == (0, "")
    early = await run(console, "instance", "credential", instance, "--credential-file", "credential")
    assert early.code == 1
    await look(console, lambda store: store.bind(Challenge(registration, instance, clock.now())))
    ran = await run(
        console, "instance", "credential", instance,
        "--credential-file", "credential", "--credential-expires-at", "2031-01-01T00:00:00Z",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    view = (await run(console, "instance", "show", "desk", "--json")).json
    assert (view["instance_id"], view["state"]) == (instance, "active")
    assert view["credential_expires_at"] == "2031-01-01T00:00:00Z"
    assert [each["registration_id"] for each in view["registrations"]] == [registration]


async def test_a_registration_imported_with_its_instance_is_live(console: Console) -> None:
    registration, instance = new_id(), new_id()
    ran = await imported(
        console, "--registration-id", registration, "--secret-file", "secret",
        "--instance-id", instance, "--credential-file", "credential", "--name", "desk",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    view = (await run(console, "instance", "show", registration, "--json")).json
    assert (view["instance_id"], view["state"], view["delivery"]) == (instance, "active", "webhook")
    assert view["registrations"][0]["state"] == "verified"


async def test_an_instance_imported_alone_has_no_webhook(console: Console) -> None:
    instance = new_id()
    ran = await imported(console, "--instance-id", instance, "--credential-file", "credential")
    assert ran.code == 0
    view = (await run(console, "instance", "show", instance, "--json")).json
    assert (view["name"], view["delivery"], view["registrations"]) == (instance, "none", [])


@pytest.mark.parametrize("with_registration", [True, False])
async def test_importing_under_a_name_in_use_leaves_nothing(console: Console, with_registration: bool) -> None:
    credential = ("--credential-file", "credential", "--name", "desk")
    await imported(console, "--instance-id", new_id(), *credential)
    more = ("--registration-id", new_id(), "--secret-file", "secret") if with_registration else ()
    ran = await imported(console, "--instance-id", new_id(), *credential, *more)
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert len(await look(console, lambda store: store.instances())) == 1
    assert await registrations(console) == []


UNTIL = "2031-01-01T00:00:00Z"


@pytest.mark.parametrize("named", [True, False])
async def test_the_same_import_again_changes_nothing(console: Console, named: bool) -> None:
    registration, instance = new_id(), new_id()
    options = (
        "--registration-id", registration, "--secret-file", "secret", "--instance-id", instance,
        "--credential-file", "credential", *(("--name", "desk") if named else ()),
    )  # fmt: skip
    first = await imported(console, *options, "--credential-expires-at", UNTIL)
    name = "desk" if named else instance
    assert first.out == f"{name} imported as instance {instance} with registration {registration}\n"
    before = await look(console, lambda store: store.instances())
    for more in ((), ("--credential-expires-at", UNTIL)):
        again = await imported(console, *options, *more)
        assert (again.code, again.err) == (0, "")
        assert again.out == first.out.replace("imported", "was imported before,")
    assert await look(console, lambda store: store.instances()) == before


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"--name": "other"}, "with the name desk, which it keeps"),
        ({"--credential-file": "credential2"}, "with another credential (to replace it: wakegate instance credential"),
        ({"--credential-expires-at": "2032-01-01T00:00:00Z"}, f"with a credential that ends {UNTIL}"),
    ],
)
async def test_an_import_with_other_values_is_refused_and_changes_nothing(
    console: Console, changed: dict[str, str], says: str
) -> None:
    console.secret_file("credential2", "another-credential\n")
    options = {
        "--instance-id": new_id(), "--credential-file": "credential", "--name": "desk", "--credential-expires-at": UNTIL
    }  # fmt: skip
    await imported(console, *(part for pair in options.items() for part in pair))
    before = await look(console, lambda store: store.instances())
    ran = await imported(console, *(part for pair in (options | changed).items() for part in pair))
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert says in ran.err
    assert "nothing was changed" in ran.err
    assert await look(console, lambda store: store.instances()) == before


async def test_a_registration_with_another_secret_is_refused(console: Console) -> None:
    console.secret_file("secret2", SigningSecret.generate().reveal())
    registration = new_id()
    assert (await imported(console, "--registration-id", registration, "--secret-file", "secret")).code == 0
    assert (await imported(console, "--registration-id", registration, "--secret-file", "secret")).code == 0
    ran = await imported(console, "--registration-id", registration, "--secret-file", "secret2")
    assert ran.code == 1
    assert "with another signing secret" in ran.err
    assert SECRET not in ran.err


async def test_the_same_credential_again_keeps_its_end(console: Console) -> None:
    await imported(
        console, "--instance-id", new_id(), "--credential-file", "credential", "--name", "desk",
        "--credential-expires-at", UNTIL,
    )  # fmt: skip
    ran = await run(console, "instance", "credential", "desk", "--credential-file", "credential")
    assert ran.out == f"desk: credential stored again, the same, good until {UNTIL}\n"
    assert (await run(console, "instance", "show", "desk", "--json")).json["credential_expires_at"] == UNTIL


async def test_another_credential_without_an_end_says_that_the_end_is_unknown_now(console: Console) -> None:
    console.secret_file("credential2", "another-credential\n")
    await imported(
        console, "--instance-id", new_id(), "--credential-file", "credential", "--name", "desk",
        "--credential-expires-at", UNTIL,
    )  # fmt: skip
    ran = await run(console, "instance", "credential", "desk", "--credential-file", "credential2")
    assert f"nobody has said when it ends (the one before: {UNTIL})" in ran.out
    assert (await run(console, "instance", "show", "desk", "--json")).json["credential_expires_at"] is None


async def test_an_expected_registration_is_listed_by_its_own_id(console: Console) -> None:
    registration = new_id()
    await imported(console, "--registration-id", registration, "--secret-file", "secret", "--name", "desk")
    line = (await run(console, "instance", "list")).out.splitlines()[1]
    assert line.split()[:3] == [registration, "desk", "expected"]
    assert line.endswith("not_verified")
    assert (await run(console, "instance", "show", registration[:8], "--json")).json["name"] == "desk"


async def test_a_secret_that_another_registration_has_is_refused(console: Console) -> None:
    await imported(console, "--registration-id", new_id(), "--secret-file", "secret", "--name", "desk")
    console.secret_file("own", SigningSecret.generate().reveal())
    ran = await imported(console, "--registration-id", new_id(), "--secret-file", "secret", "--name", "other")
    assert ran.code == 1
    assert ran.err.count("\n") == 1
    assert "desk" in ran.err
    assert SECRET not in ran.err
    own = await imported(console, "--registration-id", new_id(), "--secret-file", "own", "--name", "other")
    assert own.code == 0
    assert len(await registrations(console)) == 2


async def test_a_new_credential_unparks(console: Console) -> None:
    instance_id = new_id()
    await imported(console, "--instance-id", instance_id, "--credential-file", "credential", "--name", "desk")

    async def park(store: Store) -> Instance:
        instance = await store.instance(PROVIDER, instance_id)
        await store.park_instance(PROVIDER, instance_id, "credential_refused", instance.sealed_credential or b"")
        return await store.instance(PROVIDER, instance_id)

    assert (await look(console, park)).state == "parked"
    assert "parked" in (await run(console, "instance", "list")).out
    shown = (await run(console, "instance", "show", "desk")).out
    assert "wakegate instance credential desk --credential-file FILE" in shown
    assert (await run(console, "instance", "credential", instance_id, "--credential-file", "credential")).code == 0
    assert (await run(console, "instance", "show", "desk", "--json")).json["state"] == "active"


async def test_retiring_abandons_what_is_unfinished_and_erases_the_credential(console: Console) -> None:
    instance_id = new_id()
    await imported(console, "--instance-id", instance_id, "--credential-file", "credential", "--name", "desk")
    suspension = Suspension(
        new_id(), PROVIDER, instance_id, new_id(), "issue_refund", b"{}", None, None, "30m", None, "worker", "none",
        None, clock.now(),
    )  # fmt: skip
    await look(console, lambda store: store.save(suspension))
    ran = await run(console, "instance", "retire", "desk")
    assert (ran.code, ran.out) == (0, "desk retired; executions abandoned: 1\n")
    execution = await look(console, lambda store: store.execution(suspension.execution_id))
    assert execution.state is State.ABANDONED
    assert (await look(console, lambda store: store.instance(PROVIDER, instance_id))).sealed_credential is None
    assert (await run(console, "instance", "retire", instance_id)).code == 0


async def test_one_name_at_two_providers_needs_the_provider(console: Console) -> None:
    instance_id = new_id()
    for provider in (PROVIDER, "https://other.example"):
        await run(
            console, "instance", "import", "--provider-url", provider, "--instance-id", instance_id,
            "--credential-file", "credential", "--name", provider.removeprefix("https://"),
        )  # fmt: skip
    ran = await run(console, "instance", "show", instance_id)
    assert ran.code == 1
    assert "--provider-url" in ran.err
    ran = await run(console, "instance", "show", instance_id, "--provider-url", PROVIDER, "--json")
    assert ran.json["name"] == "provider.example"


async def test_an_unknown_instance_is_a_bad_thing_asked_about(console: Console) -> None:
    await run(console, "db", "migrate")
    for arguments in (["show", "x"], ["retire", "x"], ["credential", new_id(), "--credential-file", "credential"]):
        ran = await run(console, "instance", *arguments)
        assert (ran.code, ran.err.count("\n")) == (1, 1)


async def test_nothing_that_is_shown_holds_a_secret(console: Console) -> None:
    registration, instance = new_id(), new_id()
    shown = [
        await imported(
            console, "--registration-id", registration, "--secret-file", "secret",
            "--instance-id", instance, "--credential-file", "credential", "--name", "desk",
        ),
        await run(console, "instance", "list"),
        await run(console, "instance", "list", "--json"),
        await run(console, "instance", "show", "desk"),
        await run(console, "instance", "show", "desk", "--json"),
        await run(console, "instance", "credential", instance, "--credential-file", "credential"),
        await run(console, "instance", "retire", "desk"),
    ]  # fmt: skip
    for ran in shown:
        assert ran.code == 0
        for planted in (CREDENTIAL, SECRET, SECRET.removeprefix("whsec_"), "sealed"):
            assert planted not in ran.out + ran.err


async def test_a_key_that_others_may_read_stops_before_anything_is_sent(console: Console) -> None:
    (console.directory / "worker.key").touch(mode=0o600)
    (console.directory / "worker.key").chmod(0o644)
    async with http_server(_refusing) as provider:
        ran = await provision(console, provider.url, URL)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "worker.key" in ran.err
    assert provider.seen == []
