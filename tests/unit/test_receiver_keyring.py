"""The secrets in memory, and when they are read again."""

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from support.deliveries import new_id
from wakegate_receiver.keyring import REFRESH_INTERVAL_S, Keyring
from wakegate_receiver.messages import NOTIFICATION, VERIFICATION, Message
from wakegate_schema import logs
from wakegate_schema.keys import ensure_key, load_key
from wakegate_schema.records import Registration
from wakegate_schema.sealing import Sealer, seal_signing_secret
from wakegate_schema.signing import SigningSecret
from wakegate_schema.store import StoreUnavailable


class CountingSealer(Sealer):
    """A sealer that counts what it opens."""

    __slots__ = ("opened",)

    def __init__(self) -> None:
        super().__init__([Fernet(Fernet.generate_key())])
        self.opened = 0

    def unseal(self, purpose: str, sealed: bytes) -> bytes:
        self.opened += 1
        return super().unseal(purpose, sealed)


class Shelf:
    """The registrations as a reading finds them, and how often that happened."""

    def __init__(self) -> None:
        self.sealer = CountingSealer()
        self.rows: list[Registration] = []
        self.readings = 0
        self.fails = False
        self.keyring = Keyring(self.sealer, self.read)

    async def read(self) -> list[Registration]:
        self.readings += 1
        rows = list(self.rows)
        await asyncio.sleep(0.01)
        if self.fails:
            raise StoreUnavailable
        return rows

    def add(self, provider: str = "http://127.0.0.1:9", instance_id: str | None = None) -> Registration:
        registration_id = new_id()
        sealed = seal_signing_secret(
            self.sealer,
            provider=provider,
            registration_id=registration_id,
            secret=SigningSecret.generate(),
        )
        row = Registration(
            registration_id, provider, "desk", "verified", sealed, None, None, instance_id, 0, 0
        )  # fmt: skip
        self.rows.append(row)
        return row

    def known(self, kind: str, selector: str) -> int:
        return len(self.keyring.secrets_for(Message(kind, selector, {})))


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


async def test_a_registration_is_found_by_its_id_and_its_instance(shelf: Shelf) -> None:
    row = shelf.add(instance_id=new_id())
    await shelf.keyring.renew()
    assert shelf.known(VERIFICATION, row.registration_id) == 1
    assert shelf.known(NOTIFICATION, row.instance_id or "") == 1
    assert shelf.known(VERIFICATION, row.instance_id or "") == 0
    assert shelf.known(NOTIFICATION, new_id()) == 0


async def test_every_secret_of_an_instance_is_tried_over_all_providers(shelf: Shelf) -> None:
    instance_id = new_id()
    shelf.add(instance_id=instance_id)
    shelf.add(instance_id=instance_id)
    shelf.add(provider="https://other.example", instance_id=instance_id)
    await shelf.keyring.renew()
    assert shelf.known(NOTIFICATION, instance_id) == 3


async def test_everybody_who_fails_before_a_reading_begins_shares_it(shelf: Shelf) -> None:
    await asyncio.gather(*(shelf.keyring.renew() for _ in range(200)))
    assert shelf.readings == 1


async def test_a_reading_that_has_begun_is_not_enough_for_who_comes_later(shelf: Shelf) -> None:
    first = asyncio.create_task(shelf.keyring.renew())
    await asyncio.sleep(0.005)
    row = shelf.add()
    await shelf.keyring.renew()
    await first
    assert shelf.known(VERIFICATION, row.registration_id) == 1


async def test_no_flood_makes_readings_more_frequent(shelf: Shelf) -> None:
    loop = asyncio.get_running_loop()
    until = loop.time() + 5 * REFRESH_INTERVAL_S
    while loop.time() < until:
        await asyncio.gather(*(shelf.keyring.renew() for _ in range(20)))
    assert shelf.readings <= 7


async def test_a_sealed_secret_is_opened_once(shelf: Shelf) -> None:
    shelf.add()
    await shelf.keyring.renew()
    shelf.add()
    await shelf.keyring.renew()
    await shelf.keyring.renew()
    assert shelf.sealer.opened == 2


async def test_a_registration_that_is_gone_is_forgotten(shelf: Shelf) -> None:
    row = shelf.add()
    await shelf.keyring.renew()
    shelf.rows.clear()
    await shelf.keyring.renew()
    assert shelf.known(VERIFICATION, row.registration_id) == 0


async def test_a_secret_that_does_not_open_stops_nobody_else(shelf: Shelf) -> None:
    bad, erased, good = shelf.add(), shelf.add(), shelf.add()
    shelf.rows[0] = replace(bad, sealed_secret=b"not sealed by this key")
    shelf.rows[1] = replace(erased, sealed_secret=b"")
    await shelf.keyring.renew()
    assert [shelf.known(VERIFICATION, row.registration_id) for row in (bad, erased, good)] == [0, 0, 1]


async def test_a_secret_sealed_for_another_registration_does_not_open(shelf: Shelf) -> None:
    victim, other = shelf.add(), shelf.add()
    shelf.rows[0] = replace(victim, sealed_secret=other.sealed_secret)
    await shelf.keyring.renew()
    assert shelf.known(VERIFICATION, victim.registration_id) == 0


async def test_a_reading_that_fails_keeps_what_was_known_and_is_told_to_all(shelf: Shelf) -> None:
    row = shelf.add()
    await shelf.keyring.renew()
    shelf.fails = True
    outcomes = await asyncio.gather(*(shelf.keyring.renew() for _ in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 3
    assert shelf.known(VERIFICATION, row.registration_id) == 1


async def test_who_stops_waiting_does_not_stop_the_reading(shelf: Shelf) -> None:
    row = shelf.add()
    impatient = asyncio.create_task(shelf.keyring.renew())
    patient = asyncio.create_task(shelf.keyring.renew())
    await asyncio.sleep(0)
    impatient.cancel()
    await patient
    assert shelf.known(VERIFICATION, row.registration_id) == 1


async def test_unsealing_does_not_hold_up_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = Shelf()
    row = shelf.add(instance_id=new_id())
    loop_thread = threading.get_ident()
    unsealing_threads: list[int] = []
    unseal = CountingSealer.unseal

    def watched(sealer: CountingSealer, purpose: str, sealed: bytes) -> bytes:
        unsealing_threads.append(threading.get_ident())
        return unseal(sealer, purpose, sealed)

    monkeypatch.setattr(CountingSealer, "unseal", watched)
    await shelf.keyring.renew()
    assert shelf.keyring.secrets_for(Message(VERIFICATION, row.registration_id, {}))
    assert unsealing_threads
    assert loop_thread not in unsealing_threads


async def test_a_reading_that_finds_nothing_new_changes_nothing() -> None:
    shelf = Shelf()
    row = shelf.add()
    await shelf.keyring.renew()
    message = Message(VERIFICATION, row.registration_id, {})
    found = shelf.keyring.secrets_for(message)
    await shelf.keyring.renew()
    assert shelf.keyring.secrets_for(message) is found


def on_file(path: Path, rows: list[Registration]) -> Keyring:
    """A keyring whose keys are in a file."""

    async def read() -> list[Registration]:
        return list(rows)

    return Keyring(load_key(path), read)


def sealed_with(path: Path) -> Registration:
    """A registration whose secret is sealed under the newest key of a file."""
    provider, registration_id = "http://127.0.0.1:9", new_id()
    sealed = seal_signing_secret(
        load_key(path), provider=provider, registration_id=registration_id, secret=SigningSecret.generate()
    )
    return Registration(registration_id, provider, "desk", "verified", sealed, None, None, None, 0, 0)


def known(keyring: Keyring, row: Registration) -> int:
    return len(keyring.secrets_for(Message(VERIFICATION, row.registration_id, {})))


async def test_a_secret_sealed_anew_opens_once_its_key_is_in_the_file(tmp_path: Path) -> None:
    path, aside = tmp_path / "receiver.key", tmp_path / "other.key"
    ensure_key(path)
    before = sealed_with(path)
    rows = [before]
    keyring = on_file(path, rows)
    await keyring.renew()
    ensure_key(aside)
    aside.replace(path)
    rows[:] = [before, sealed_with(path)]
    await keyring.renew()
    assert [known(keyring, row) for row in rows] == [1, 1], "what was read before its key left the file opens too"


async def test_a_key_file_that_is_put_right_opens_what_was_closed_and_the_log_has_it_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("json")
    path, right = tmp_path / "receiver.key", tmp_path / "right.key"
    ensure_key(path)
    ensure_key(right)
    row = sealed_with(right)
    keyring = on_file(path, [row])
    for _ in range(3):
        await keyring.renew()
        assert known(keyring, row) == 0
    right.replace(path)
    await keyring.renew()
    assert known(keyring, row) == 1
    told = capsys.readouterr()
    assert (told.out + told.err).count("a signing secret cannot be used") == 1
