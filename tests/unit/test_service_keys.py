"""Which key a service starts with, and when a first one may be made."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from wakegate_schema import logs
from wakegate_schema.keys import KeyFileError, KeyFileMissing, ensure_key, load_key
from wakegate_schema.records import Instance, Registration
from wakegate_schema.sealing import CannotUnseal
from wakegate_schema.service_keys import Sealed, ServiceKey
from wakegate_schema.settings import Settings

NOTHING = Sealed(())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "receiver.key"


def unnamed(path: Path) -> ServiceKey:
    return ServiceKey(path, "receiver_key_file", named=False)


def named(path: Path) -> ServiceKey:
    return ServiceKey(path, "receiver_key_file", named=True)


def sealed(path: Path) -> bytes:
    return ensure_key(path).seal("p", b"data")


def elsewhere(path: Path) -> bytes:
    return sealed(path.with_name("other.key"))


def test_a_first_key_is_made_where_nothing_is_sealed(path: Path) -> None:
    unnamed(path).check()
    assert not path.exists()
    unnamed(path).open(NOTHING)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("missing", [named, unnamed])
def test_no_key_is_made_in_the_place_of_a_lost_one(path: Path, missing: Callable[[Path], ServiceKey]) -> None:
    with pytest.raises(KeyFileMissing):
        missing(path).open(Sealed((elsewhere(path),)))
    assert not path.exists()


def test_a_named_file_must_be_there_even_while_nothing_is_sealed(path: Path) -> None:
    with pytest.raises(KeyFileMissing, match="WAKEGATE_RECEIVER_KEY_FILE"):
        named(path).check()
    with pytest.raises(KeyFileMissing):
        named(path).open(NOTHING)
    assert not path.exists()


def test_a_file_that_is_there_is_looked_at_first(path: Path) -> None:
    path.touch(mode=0o600)
    with pytest.raises(KeyFileError, match="line 1"):
        unnamed(path).check()


def test_a_key_that_opens_nothing_in_use_is_refused(path: Path) -> None:
    ensure_key(path)
    with pytest.raises(CannotUnseal, match=str(path)):
        unnamed(path).open(Sealed((elsewhere(path), b"junk")))


def test_one_value_that_opens_is_enough_whatever_it_was_sealed_for(path: Path) -> None:
    unnamed(path).open(Sealed((elsewhere(path), sealed(path))))


def test_what_is_retired_does_not_count_and_the_log_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json")
    retired = Sealed((), (elsewhere(path),))
    unnamed(path).open(retired)
    told = capsys.readouterr()
    assert "opens no secret of the retired registrations" in told.out + told.err
    assert path.exists()


def test_what_is_retired_and_opens_is_nothing_to_tell(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json")
    unnamed(path).open(Sealed((), (sealed(path), elsewhere(path))))
    told = capsys.readouterr()
    assert told.out + told.err == ""


def test_erased_secrets_are_nothing_and_retired_ones_are_kept_apart() -> None:
    live = Registration("live", "p", "live", "expected", b"live", None, None, None, 0, 0)
    retired = Registration("old", "p", "old", "retired", b"old", None, None, None, 0, 0, retired_at=1)
    erased = Registration("x", "p", "x", "retired", b"", None, None, None, 0, 0, retired_at=1)
    assert Sealed.secrets([live, retired, erased]) == Sealed((b"live",), (b"old",))
    gone = Instance("p", "i", "n", "retired", None, "none", None, None, 0, 1)
    parked = Instance("p", "j", "m", "parked", "r", "none", b"token", None, 0)
    assert Sealed.credentials([gone, parked]) == Sealed((b"token",))


def test_nothing_sealed_is_shown(path: Path) -> None:
    assert "junk" not in repr(Sealed((b"junk",), (b"junk",)))


def test_each_service_has_a_file_of_its_own(tmp_path: Path) -> None:
    settings = Settings(database=f"sqlite:///{tmp_path}/wakegate.db", worker_key_file=tmp_path / "w")
    assert ServiceKey.receiver(settings) == ServiceKey(tmp_path / "receiver.key", "receiver_key_file", named=False)
    assert ServiceKey.worker(settings) == ServiceKey(tmp_path / "w", "worker_key_file", named=True)


def test_a_key_put_on_top_by_hand_seals_from_then_on(path: Path) -> None:
    before = sealed(path)
    old = path.read_bytes()
    path.write_bytes(Fernet.generate_key() + b"\n" + old)
    sealer = unnamed(path).open(Sealed((before,)))
    assert (sealer.opens(before), sealer.is_newest(before)) == (True, False)
    assert load_key(path).is_newest(sealer.seal("p", b"x"))
