"""A worker without the key of its store's credentials does not start, and makes none in its place."""

from pathlib import Path

import pytest

from support.console import run
from support.desk import Desk
from wakegate_schema import clock
from wakegate_schema.keys import ensure_key
from wakegate_schema.sealing import seal_credential
from wakegate_schema.store import open_store


@pytest.fixture
async def key(tmp_path: Path) -> Path:
    """The key under which the credential in the store is sealed."""
    path = tmp_path / "worker.key"
    sealer = ensure_key(path)
    async with await open_store(f"sqlite:///{tmp_path}/wakegate.db", mode="service") as store:
        desk = await Desk(store).open()
        sealed = seal_credential(sealer, provider=desk.provider, instance_id=desk.instance_id, token="opaque")
        await store.set_credential(desk.provider, desk.instance_id, sealed, None, clock.now())
    return path


def test_a_lost_key_stops_the_start_and_no_new_one_is_made(key: Path) -> None:
    key.unlink()
    ran = run(key.parent, "worker")
    assert (ran.code, key.exists()) == (2, False)
    assert ran.err.count("\n") == 1
    assert str(key) in ran.err


def test_a_key_that_opens_no_credential_stops_the_start(key: Path) -> None:
    key.unlink()
    ensure_key(key)
    ran = run(key.parent, "worker")
    assert ran.code == 2
    assert str(key) in ran.err


@pytest.mark.parametrize("service", ["receiver", "worker", "provider"])
def test_a_key_file_that_a_setting_names_must_be_there(tmp_path: Path, service: str) -> None:
    named, setting = tmp_path / "named.key", f"WAKEGATE_{service.upper()}_KEY_FILE"
    ran = run(tmp_path, service, settings={setting: str(named)})
    assert (ran.code, named.exists()) == (2, False)
    assert ran.err.count("\n") == 1
    assert setting in ran.err
