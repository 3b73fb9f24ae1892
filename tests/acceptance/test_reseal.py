"""`wakegate db reseal`: a new key for everything sealed, while receiver and worker go on working."""

import asyncio
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from cryptography.fernet import Fernet

from support.aap_peer import Peer, refusal
from support.console import Console, run
from support.desk import new_id
from support.stage import Stage, prepare, staged
from support.workers import WorkerDesk, eventually
from wakegate_receiver.service import receiving
from wakegate_receiver.stopping import Stop
from wakegate_schema import clock
from wakegate_schema.key_changes import changing
from wakegate_schema.keys import KeyFileMissing, ensure_key, load_key, read_keys
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import Sealer, seal_credential, seal_signing_secret
from wakegate_schema.settings import load_settings
from wakegate_schema.signing import SigningSecret
from wakegate_schema.states import State
from wakegate_schema.store import Store, open_store


@pytest.fixture
async def stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Stage]:
    async with staged(prepare(Console(tmp_path, monkeypatch, capsys))) as stage:
        yield stage


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    """A provider that approves at once."""
    peer = Peer(at_submission=Peer.approve)
    async with peer.serving():
        yield peer


@pytest.fixture
async def desk(store: Store, tmp_path: Path, peer: Peer) -> WorkerDesk:
    return await WorkerDesk(store, tmp_path, peer.url).open()


async def reseal(desk: WorkerDesk) -> None:
    """Reseal the worker's credentials."""
    ran = await asyncio.to_thread(run, desk.directory, "db", "reseal", "--key", "worker")
    assert (ran.code, ran.err) == (0, "")


async def test_everything_is_sealed_under_one_new_key_and_the_old_one_is_kept_beside(stage: Stage) -> None:
    folder = stage.console.directory
    old = {name: read_keys(folder / name) for name in ("receiver.key", "worker.key")}
    ran = await stage.run("db", "reseal")
    assert (ran.code, ran.err) == (0, "")
    for line, (name, before) in zip(ran.out.splitlines(), old.items(), strict=True):
        assert line == (
            f"{name.removesuffix('.key')}: sealed anew under a new key: 1;"
            f" old keys moved to {folder / name}.old: 1 (backups made before need them)"
        )
        assert len(read_keys(folder / name)) == 1
        assert read_keys(folder / name) != before
        assert read_keys(folder / f"{name}.old") == before
        assert stat.S_IMODE((folder / f"{name}.old").stat().st_mode) == 0o600
    (registration,) = await stage.registrations()
    assert load_key(folder / "receiver.key").is_newest(registration.sealed_secret)
    assert load_key(folder / "worker.key").is_newest((await stage.instance()).sealed_credential or b"")


async def test_a_running_receiver_takes_what_comes_before_and_after(stage: Stage) -> None:
    (registration,) = await stage.registrations()
    sender = await stage.sender(registration)
    for _ in range(3):
        assert (await stage.post(sender.notification())).status == 204
        assert (await stage.run("db", "reseal", "--key", "receiver")).code == 0
    assert (await stage.post(sender.notification())).status == 204
    assert (await stage.provision("second")).code == 0
    second = (await stage.registrations())[-1]
    assert second.state == "verified"
    assert stage.receiver.refusals.entries() == []


async def test_a_running_worker_goes_on_submitting_and_reading(desk: WorkerDesk, peer: Peer) -> None:
    async with desk.worker():
        for _ in range(3):
            saved = await desk.save()
            assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
            await reseal(desk)
        saved = await desk.save()
        assert (await desk.settled(saved.execution_id)).state is State.SUCCEEDED
    assert len(peer.submissions) == len(desk.effects) == 4


async def test_a_credential_sealed_anew_while_it_is_refused_is_parked_all_the_same(
    desk: WorkerDesk, peer: Peer, store: Store
) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        if len(peer.submissions) == 1:
            await reseal(desk)
        return refusal(401, "authentication", "invalid_credential")

    peer.interference = refuse
    async with desk.worker():
        saved = await desk.save()

        async def parked() -> bool:
            return (await store.instance(desk.provider, desk.instance_id)).state == "parked"

        await eventually(parked)
        waiting = await desk.when(saved.execution_id, lambda execution: execution.problem == "instance_parked")
        assert len(peer.submissions) == 2
        await reseal(desk)
        assert await parked()
        peer.interference = None
        await store.set_credential(desk.provider, desk.instance_id, desk.sealed("new"), None, clock.now())
        assert (await desk.settled(waiting.execution_id)).state is State.SUCCEEDED


async def test_old_keys_can_stay_in_the_file(stage: Stage) -> None:
    path = stage.console.directory / "receiver.key"
    (old,) = read_keys(path)
    ran = await stage.run("db", "reseal", "--key", "receiver", "--keep-old")
    assert ran.out == "receiver: sealed anew under a new key: 1; old keys kept in the file: 1\n"
    assert read_keys(path)[1:] == [old]
    assert not path.with_name("receiver.key.old").exists()
    await stage.run("db", "reseal", "--key", "receiver")
    assert len(read_keys(path)) == 1
    assert len(read_keys(path.with_name("receiver.key.old"))) == 2


async def test_what_was_interrupted_goes_on_with_the_key_made_then(stage: Stage) -> None:
    path = stage.console.directory / "receiver.key"
    (old,), new = read_keys(path), Fernet.generate_key()
    path.write_bytes(new + b"\n" + old + b"\n")
    ran = await stage.run("db", "reseal", "--key", "receiver")
    assert ran.out.startswith("receiver: sealed anew under the new key made before: 1;")
    assert read_keys(path) == [new]


async def test_a_backup_made_before_opens_with_the_keys_kept_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    console = prepare(Console(tmp_path, monkeypatch, capsys))
    async with staged(console) as stage:
        assert (await stage.run("db", "backup", "before.db")).code == 0
        assert (await stage.run("db", "reseal")).code == 0
    assert (await stage.run("db", "restore", "before.db")).code == 0
    for name in ("receiver", "worker"):
        path = tmp_path / f"{name}.key"
        refused = await stage.run("db", "reseal", "--key", name)
        assert (refused.code, f"took out of use are in {path}.old" in refused.err) == (2, True)
        with path.open("ab") as file:
            file.write(path.with_name(f"{name}.key.old").read_bytes())
        ran = await stage.run("db", "reseal", "--key", name)
        assert ran.out.startswith(f"{name}: sealed anew under the new key made before: 1;")
        assert len(read_keys(path)) == 1


async def test_a_command_that_waited_for_a_new_key_seals_under_it(stage: Stage) -> None:
    path = stage.console.directory / "worker.key"
    stage.console.secret_file("credential", "opaque")
    importing = (
        "instance", "import", "--provider-url", stage.provider, "--instance-id", new_id(), "--credential-file",
        "credential", "--name", "imported",
    )  # fmt: skip
    with changing(path, "worker_key_file") as held:
        waiting = asyncio.create_task(stage.run(*importing))
        await asyncio.sleep(0.3)
        held.replace([Fernet.generate_key(), *held.keys])
        assert not waiting.done()
    assert (await waiting).code == 0
    (imported,) = [each for each in await stage.look(lambda store: store.instances()) if each.name == "imported"]
    assert load_key(path).is_newest(imported.sealed_credential or b"")


async def test_a_receiver_starts_with_a_new_key_once_all_its_registrations_are_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with staged(prepare(Console(tmp_path, monkeypatch, capsys))) as stage:
        pass
    (tmp_path / "receiver.key").unlink()
    with pytest.raises(KeyFileMissing):
        async with receiving(load_settings(), Stop()):
            pass
    await stage.run("instance", "retire", "desk")
    async with receiving(load_settings(), Stop()):
        assert (tmp_path / "receiver.key").exists()


def registration_of(key: Sealer, number: int) -> Registration:
    """A registration with a secret sealed under the key."""
    name, provider, now = f"00000000-0000-4000-8000-{number:012}", "https://provider.example", clock.now()
    sealed = seal_signing_secret(key, provider=provider, registration_id=name, secret=SigningSecret.generate())
    return Registration(name, provider, name, "expected", sealed, None, None, None, now, now + clock.HOUR)


async def test_a_key_that_opens_nothing_in_use_changes_nothing(database: str, tmp_path: Path) -> None:
    async with await open_store(database, mode="service") as store:
        await store.add_registration(registration_of(ensure_key(tmp_path / "lost.key"), 1))
    ensure_key(tmp_path / "receiver.key")
    before = (tmp_path / "receiver.key").read_bytes()
    ran = run(tmp_path, "db", "reseal", "--key", "receiver")
    assert (ran.code, str(tmp_path / "receiver.key") in ran.err) == (2, True)
    assert (tmp_path / "receiver.key").read_bytes() == before


async def test_what_opens_under_no_key_is_named_and_left_and_the_rest_is_done(database: str, tmp_path: Path) -> None:
    key = ensure_key(tmp_path / "receiver.key")
    lost = registration_of(ensure_key(tmp_path / "lost.key"), 1)
    async with await open_store(database, mode="service") as store:
        for registration in (lost, registration_of(key, 2), registration_of(key, 3)):
            await store.add_registration(registration)
    ran = run(tmp_path, "db", "reseal", "--key", "receiver")
    assert (ran.code, "sealed anew under a new key: 2" in ran.out) == (1, True)
    assert f"(registration {lost.registration_id}) opens under no key" in ran.err
    newest = load_key(tmp_path / "receiver.key")
    async with await open_store(database, mode="read") as store:
        found = {each.registration_id: each.sealed_secret for each in await store.registrations()}
    assert found.pop(lost.registration_id) == lost.sealed_secret
    assert all(map(newest.is_newest, found.values()))


async def test_hundreds_of_values_are_exchanged_in_batches(database: str, tmp_path: Path) -> None:
    key = ensure_key(tmp_path / "worker.key")
    now, provider = clock.now(), "https://provider.example"
    async with await open_store(database, mode="service") as store:

        async def add(number: int) -> None:
            name = f"00000000-0000-4000-8000-{number:012}"
            sealed = seal_credential(key, provider=provider, instance_id=name, token="x")
            await store.add_instance(Instance(provider, name, name, "active", None, "none", sealed, None, now), None)

        await asyncio.gather(*map(add, range(250)))
    ran = run(tmp_path, "db", "reseal", "--key", "worker")
    assert (ran.code, "sealed anew under a new key: 250;" in ran.out) == (0, True), ran.err
    newest = load_key(tmp_path / "worker.key")
    async with await open_store(database, mode="read") as store:
        assert all(newest.is_newest(each.sealed_credential or b"") for each in await store.instances())


def test_without_a_store_or_a_key_file_nothing_is_made(tmp_path: Path) -> None:
    ran = run(tmp_path, "db", "reseal")
    assert (ran.code, "there is no store" in ran.err) == (2, True)
    run(tmp_path, "db", "migrate")
    ran = run(tmp_path, "db", "reseal")
    assert (ran.code, "receiver.key does not exist" in ran.err) == (2, True)
    assert not list(tmp_path.glob("*.key*"))


@pytest.mark.parametrize("key", ["receiver", "worker"])
def test_each_user_reseals_with_its_own_key_alone(tmp_path: Path, key: str) -> None:
    run(tmp_path, "db", "migrate")
    ensure_key(tmp_path / f"{key}.key")
    ran = run(tmp_path, "db", "reseal", "--key", key)
    assert (ran.code, ran.out.startswith(f"{key}: ")) == (0, True), ran.err
