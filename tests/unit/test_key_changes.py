"""A key file is changed by one process at a time, whole, and not while something is sealed under its keys."""

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from wakegate_schema import key_changes
from wakegate_schema.key_changes import KEPT, KeyFileBusy, changing, sealing
from wakegate_schema.keys import KeyFileError, ensure_key, load_key, read_keys

HOLDER = """
import sys
from pathlib import Path
from wakegate_schema.key_changes import changing, sealing

held = sealing(Path(sys.argv[2])) if sys.argv[1] == "sealing" else changing(Path(sys.argv[2]), "worker_key_file")
with held:
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ensure_key(tmp_path / "worker.key")
    return tmp_path / "worker.key"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_changes, "PATIENCE_S", 0.1)


def holder(kind: str, path: Path) -> "subprocess.Popen[str]":
    """Another process that holds the file until it is told to let go."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, kind, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_new_key_goes_before_the_old_one_and_owner_and_mode_stay(path: Path) -> None:
    path.chmod(0o400)
    old, new = read_keys(path), Fernet.generate_key()
    if os.geteuid() == 0:
        os.chown(path, 12345, 54321)
    before = path.stat()
    with changing(path, "worker_key_file") as held:
        assert held.keys == old
        held.replace([new, *old])
        assert read_keys(path) == held.keys == [new, *old]
    after = path.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (before.st_uid, before.st_gid, 0o400)
    assert after.st_ino != before.st_ino
    assert list(path.parent.iterdir()) == [path]


def test_a_link_stays_and_the_file_it_leads_to_is_replaced(path: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(path)
    with changing(link, "worker_key_file") as held:
        held.replace([Fernet.generate_key(), *held.keys])
    assert link.is_symlink()
    assert len(read_keys(path)) == 2


def test_what_was_killed_before_leaves_nothing_in_the_way(path: Path) -> None:
    draft = path.with_name(".worker.key.new")
    draft.write_bytes(b"half")
    with changing(path, "worker_key_file") as held:
        held.replace([Fernet.generate_key(), *held.keys])
    assert not draft.exists()


def test_keys_out_of_use_are_kept_beside_the_newest_first_and_each_once(path: Path) -> None:
    first, second = Fernet.generate_key(), Fernet.generate_key()
    with changing(path, "worker_key_file") as held:
        held.set_aside([first])
        held.set_aside([second, first])
        assert held.aside == path.with_name("worker.key.old")
        assert read_keys(held.aside) == [second, first]
        assert stat.S_IMODE(held.aside.stat().st_mode) == 0o600
        held.set_aside([Fernet.generate_key() for _ in range(KEPT)])
        assert len(read_keys(held.aside)) == KEPT


@pytest.mark.usefixtures("impatient")
def test_nobody_changes_what_somebody_seals_under(path: Path) -> None:
    with sealing(path), sealing(path), pytest.raises(KeyFileBusy, match="another command"), changing(path, "x_file"):
        pass
    with changing(path, "worker_key_file"):
        pass


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["sealing", "changing"])
def test_another_process_that_holds_the_file_is_respected_and_a_dead_one_is_not(path: Path, kind: str) -> None:
    process = holder(kind, path)
    try:
        with pytest.raises(KeyFileBusy), changing(path, "worker_key_file"):
            pass
    finally:
        process.kill()
        process.communicate()
    with changing(path, "worker_key_file"):
        pass


def test_who_waited_holds_the_file_that_came_meanwhile(path: Path) -> None:
    seen: list[list[bytes]] = []

    def wait_and_look() -> None:
        with sealing(path):
            seen.append(read_keys(path))

    with changing(path, "worker_key_file") as held:
        waiting = threading.Thread(target=wait_and_look)
        waiting.start()
        held.replace([Fernet.generate_key(), *held.keys])
        held.replace(held.keys[:1])
        assert seen == []
    waiting.join(10)
    assert seen == [read_keys(path)]


def test_a_directory_that_cannot_be_written_is_named_and_nothing_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = read_keys(path)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", refuse)
    with changing(path, "worker_key_file") as held, pytest.raises(KeyFileError, match=str(path.parent)):
        held.replace([Fernet.generate_key(), *old])
    assert load_key(path).opens(Fernet(old[0]).encrypt(b"x"))
