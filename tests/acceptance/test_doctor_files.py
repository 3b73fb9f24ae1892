"""The doctor and real trouble with files: keys, modes, other users, folders, copies, tools and targets."""

import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from support.clinic import Diagnosis, diagnosed, listing, planted, read, suspended
from support.console import Console, Ran
from support.machine import ROOT_USER, WAKEGATE, Machine, Who, machine

RECEIVER, WORKER, GROUP, HARNESS, STRANGERS = 54_321, 54_322, 54_330, 54_340, 54_350
STRANGE = "/var/lib/strange"
"""A folder, and users and groups that no list of users names."""
as_root = pytest.mark.skipif(
    os.geteuid() != 0 and "CI" not in os.environ, reason="gives files to other users, which only root can"
)


def offline(console: Console) -> Diagnosis:
    """What the doctor says of the files alone."""
    return diagnosed(console, "--offline")


def test_a_development_folder_is_fine_and_the_separation_noted(console: Console) -> None:
    planted(console)
    said = offline(console)
    assert "opens 1 sealed value" in said.of("keys.receiver", "ok")
    assert "opens 1 sealed value" in said.of("keys.worker", "ok")
    assert "a habit, not a fact" in said.of("keys.separate", "note")
    for check in ("keys.secrets", "keys.backups", "users.folder", "users.files", "settings.file", "settings.tests"):
        assert {each.verdict for each in said.found[check]} == {"ok"}
    assert "keys.old" not in said.found


def test_nothing_is_made_and_nothing_is_changed_where_there_is_nothing(console: Console) -> None:
    said = diagnosed(console)
    assert "there is no store" in said.of("store.file", "problem")
    assert list(console.directory.iterdir()) == []


def test_nothing_is_changed_in_a_store_that_is_at_rest(console: Console) -> None:
    planted(console)
    console.set("WAKEGATE_TOOLS", "my_tools")
    (console.directory / "my_tools.py").write_text(TOOLS)
    before = listing(console.directory)
    assert diagnosed(console).one("store.integrity").verdict == "ok"
    assert listing(console.directory) == before


@pytest.mark.parametrize("name", ["receiver", "worker"])
def test_a_key_that_others_may_read_is_a_problem(console: Console, name: str) -> None:
    planted(console)
    (console.directory / f"{name}.key").chmod(0o640)
    said = offline(console)
    assert "can be used by others" in said.of(f"keys.{name}", "problem")
    assert "chmod 600" in said.of(f"keys.{name}", "problem")


def test_a_key_that_is_gone_is_a_problem_while_something_is_sealed_under_it(console: Console) -> None:
    planted(console)
    (console.directory / "worker.key").unlink()
    assert "1 value in the store is sealed under it" in offline(console).of("keys.worker", "problem")


def test_a_key_of_another_installation_is_a_problem(console: Console) -> None:
    planted(console)
    console.secret_file("receiver.key", Fernet.generate_key().decode() + "\n")
    assert "does not open 1 of 1 value" in offline(console).of("keys.receiver", "problem")


def test_a_malformed_key_is_a_problem_and_not_shown(console: Console) -> None:
    planted(console)
    console.secret_file("worker.key", "planted-malformed-key\n")
    said = offline(console)
    assert "not a Fernet key" in said.of("keys.worker", "problem")
    assert "planted-malformed" not in said.ran.out + said.ran.err


def test_an_unfinished_resealing_is_noted(console: Console) -> None:
    planted(console)
    key = console.directory / "worker.key"
    key.write_text(Fernet.generate_key().decode() + "\n" + key.read_text())
    assert "wakegate db reseal" in offline(console).of("keys.worker", "note")


def test_a_key_that_a_setting_names_must_be_there(console: Console) -> None:
    console.set("WAKEGATE_WORKER_KEY_FILE", str(console.directory / "elsewhere.key"))
    assert "a setting names it" in offline(console).of("keys.worker", "problem")


def test_keys_out_of_use_are_noted(console: Console) -> None:
    planted(console)
    assert console("db", "reseal").code == 0
    assert "took out of use" in offline(console).of("keys.old", "note")


def test_another_secret_that_others_may_read_is_a_problem(console: Console) -> None:
    planted(console)
    console.secret_file("wake.secret", "planted\n").chmod(0o644)
    said = offline(console)
    assert "wake.secret (wake_secret_file) can be used by others" in said.of("keys.secrets", "problem")
    assert "planted" not in said.ran.out.replace(str(console.directory), "")


def test_a_backup_beside_the_keys_is_warned_of(console: Console) -> None:
    planted(console)
    assert console("db", "backup", "copy.db").code == 0
    assert "copy.db is a copy of the store" in offline(console).of("keys.backups", "warning")


def test_a_settings_file_that_others_may_write_is_a_problem(console: Console) -> None:
    file = console.directory / "wakegate.toml"
    file.write_text('listen = "127.0.0.1:8099"\n')
    file.chmod(0o666)
    said = offline(console)
    assert "everybody may write" in said.of("settings.file", "problem")
    assert "listen (wakegate.toml: listen)" in said.of("settings.set", "ok")
    file.chmod(0o660)
    assert "may write" in offline(console).of("settings.file", "warning")


def test_settings_that_cannot_be_used_end_it_with_2_and_each_is_named(console: Console) -> None:
    (console.directory / "wakegate.toml").write_text('lissten = "127.0.0.1:8099"\nlog_level = "loud"\n')
    said = diagnosed(console)
    assert said.ran.code == 2
    told = said.of("settings.load", "problem")
    assert "did you mean listen?" in told
    assert "log_level: must be debug, info, warning or error" in told
    assert console("doctor").code == 2


TOOLS = """
from wakegate_worker import Attempt, tool

@tool(version="3", timeout=5)
async def issue_refund(attempt: Attempt, amount: int) -> int:
    return amount
"""


def test_tools_are_named_with_their_versions(console: Console) -> None:
    (console.directory / "my_tools.py").write_text(TOOLS)
    console.set("WAKEGATE_TOOLS", "my_tools")
    assert "1 tool: issue_refund 3" in offline(console).of("settings.tools", "ok")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ValueError('planted-value')", "ValueError"),
        ("import os; os._exit(7)", "ended the process (exit code 7)"),
        ("print('no tool')", "has no tool"),
    ],
)
def test_tools_that_cannot_be_imported_are_a_problem(console: Console, source: str, words: str) -> None:
    (console.directory / "bad_tools.py").write_text(source)
    console.set("WAKEGATE_TOOLS", "bad_tools")
    said = offline(console)
    assert words in said.of("settings.tools", "problem")
    assert "planted-value" not in said.ran.out


@pytest.mark.parametrize("said", ['{"tools": 5}', "[1]", "null", "[" * 60_000])
def test_tools_that_speak_for_themselves_are_not_believed(console: Console, said: str) -> None:
    """A module can write to the pipe that tells of it."""
    writing = f"for fd in range(3, 64):\n  try: os.write(fd, {said.encode()!r})\n  except OSError: pass\n"
    (console.directory / "forging.py").write_text(f"import os\n{writing}os._exit(0)")
    console.set("WAKEGATE_TOOLS", "forging")
    assert "ended the process" in offline(console).of("settings.tools", "problem")


def test_no_tools_are_noted(console: Console) -> None:
    assert "set WAKEGATE_TOOLS" in offline(console).of("settings.tools", "note")


def test_a_tool_that_a_saved_call_needs_and_nobody_has_is_a_problem(console: Console) -> None:
    (console.directory / "my_tools.py").write_text(TOOLS)
    console.set("WAKEGATE_TOOLS", "my_tools")
    suspended(console, planted(console), tool="close_account")
    said = offline(console)
    assert "1 unfinished call for the tool close_account" in said.of("settings.needed", "problem")


def test_wake_targets_are_looked_at(console: Console) -> None:
    program = console.directory / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o600)
    (console.directory / "wakegate.toml").write_text(
        '[wake.far]\nkind = "http"\nurl = "https://harness.example/wakes?token=planted"\n'
        f'[wake.gone]\nkind = "command"\nargv = ["{console.directory}/nothing"]\n'
        f'[wake.stuck]\nkind = "command"\nargv = ["{program}"]\n'
        '[wake.fine]\nkind = "command"\nargv = ["/bin/true"]\n'
        '[wake.lost]\nkind = "python"\nentry_point = "no_such_package.agents:resume"\n'
        '[wake.found]\nkind = "python"\nentry_point = "json.tool:main"\n'
    )
    suspended(console, planted(console), wake="forgotten")
    said = offline(console)
    problems, fine = said.of("settings.wake", "problem"), said.of("settings.wake", "ok")
    for words in ("wake target gone runs", "which is not there", "may not execute", "no module no_such_package"):
        assert words in problems
    assert "for the wake target forgotten, which is in no settings file" in problems
    assert "called at https://harness.example" in fine
    assert "json.tool:main" in fine
    assert "planted" not in said.ran.out.replace(str(console.directory), "")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Path]:
    """A folder that other users reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="wg", dir="/tmp") as name:
        yield Path(name)


@as_root
def test_two_users_of_one_group_are_a_fact(console: Console) -> None:
    separated(console)
    said = offline(console)
    assert f"the receiver's key is uid {RECEIVER}'s alone" in said.of("keys.separate", "ok")
    assert "may put another file in the place of" in said.of("keys.separate", "note")
    assert said.one("users.folder").verdict == "ok"
    assert said.one("users.files").verdict == "ok"
    assert "runs as root" in said.of("users.me", "note")


@as_root
@pytest.mark.parametrize("end", ["", "-turn", "-open"])
def test_a_file_that_locks_a_service_out_is_a_problem(console: Console, end: str) -> None:
    separated(console)
    os.chown(f"{console.directory}/wakegate.db{end}", 0, 0)
    told = offline(console).of("users.files", "problem")
    assert f"wakegate.db{end} locks the receiver (uid {RECEIVER}) out: it is root:root" in told
    assert f"the worker (uid {WORKER})" in told


@as_root
def test_a_wal_with_a_mode_that_locks_the_other_out_is_a_problem(console: Console) -> None:
    separated(console)
    wal = console.directory / "wakegate.db-wal"
    wal.touch(mode=0o600)
    wal.write_bytes(b"what a crash has left" * 100)
    os.chown(wal, RECEIVER, GROUP)
    said = offline(console)
    assert f"wakegate.db-wal locks the worker (uid {WORKER}) out" in said.of("users.files", "problem")
    assert "without its index" in said.of("store.file", "problem")
    assert not (console.directory / "wakegate.db-shm").exists()


@as_root
def test_a_store_that_everybody_reads_is_a_problem(console: Console) -> None:
    separated(console)
    (console.directory / "wakegate.db").chmod(0o664)
    assert "can be used by everybody" in offline(console).of("users.files", "problem")


@as_root
@pytest.mark.parametrize(
    ("mode", "verdict", "words"),
    [
        (0o2777, "problem", "everybody may put files"),
        (0o2750, "problem", "may not write"),
        (0o770, "warning", "chmod g+s"),
    ],
)
def test_the_folders_mode_is_judged(console: Console, mode: int, verdict: str, words: str) -> None:
    separated(console)
    console.directory.chmod(mode)
    assert words in offline(console).of("users.folder", verdict)


@pytest.fixture(scope="module")
def box() -> Iterator[Machine]:
    """A machine whose other users can run wakegate."""
    with machine() as made:
        yield made


def test_a_stranger_is_told_what_it_cannot_see_and_changes_nothing(box: Machine) -> None:
    home = box.outside("/var/lib/strange")
    home.mkdir(mode=0o775)
    assert box.wakegate("db", "migrate", WAKEGATE_DATABASE=f"sqlite:///{STRANGE}/wakegate.db").returncode == 0
    for name, owner in (("receiver", RECEIVER), ("worker", WORKER)):
        _key(home / f"{name}.key", owner)
    (home / "wakegate.db").chmod(0o664)
    before = listing(home)
    stranger = Who(STRANGERS, STRANGERS)
    said = doctor(box, stranger, WAKEGATE_DATABASE=f"sqlite:///{STRANGE}/wakegate.db")
    assert "so it is not known whether it opens" in said.of("keys.receiver", "note")
    assert f"run this as root, or as uid {WORKER}" in said.of("keys.worker", "note")
    assert said.one("store.integrity").verdict == "ok"
    assert listing(home) == before


def test_tools_are_imported_as_the_workers_user_when_root_asks(box: Machine) -> None:
    home = box.outside("/var/lib/tools")
    home.mkdir()
    (home / "my_tools.py").write_text(f"import os\nassert os.getuid() == {WORKER}\n{TOOLS}")
    _key(home / "worker.key", WORKER)
    said = doctor(
        box, ROOT_USER, cwd="/var/lib/tools", WAKEGATE_TOOLS="my_tools", WAKEGATE_DATABASE="sqlite:///wakegate.db"
    )
    assert f"1 tool (imported as uid {WORKER}): issue_refund 3" in said.of("settings.tools", "ok")
    assert not (home / "__pycache__").exists()


@as_root
def test_a_settings_file_that_a_service_cannot_read_is_a_problem(house: Path, console: Console) -> None:
    separated(console)
    house.chmod(0o755)
    file = house / "wakegate.toml"
    file.write_text('log_level = "info"\n')
    os.chown(file, 0, GROUP)
    file.chmod(0o640)
    console.set("WAKEGATE_CONFIG", str(file))
    assert "is in force" in offline(console).of("settings.file", "ok")
    file.chmod(0o600)
    found = offline(console).of("settings.file", "problem")
    assert f"the receiver (uid {RECEIVER}) and the worker (uid {WORKER}) cannot read {file}" in found
    assert "harnesses_unreadable" in found


@as_root
def test_the_control_socket_and_the_harnesses_that_cannot_reach_it(house: Path, console: Console) -> None:
    control = house / "c.sock"
    console.set("WAKEGATE_CONTROL", str(control))
    planted(console)
    (console.directory / "wakegate.toml").write_text(
        f'[harness.shop]\nuid = {HARNESS}\ninstances = ["desk"]\n'
        f'[harness.other]\ntoken_sha256 = "{"0" * 64}"\ninstances = ["nobody"]\n'
    )
    house.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(control))
        control.chmod(0o660)
        said = offline(console)
        assert said.one("users.control").verdict == "ok"
        assert f"harness shop (uid {HARNESS}) cannot connect" in said.of("users.harnesses", "problem")
        told = said.of("users.harnesses", "warning")
        assert f"there is no user with the number {HARNESS}" in told
        assert "harness other: there is no instance nobody" in told
        control.chmod(0o666)
        assert "everybody may use" in offline(console).of("users.control", "problem")
        control.chmod(0o600)
        assert "keeps its group out" in offline(console).of("users.control", "warning")
    control.unlink()
    control.write_text("")
    assert "is no socket" in offline(console).of("users.control", "problem")


@pytest.mark.parametrize("apart", [False, pytest.param(True, marks=as_root)])
def test_a_harness_whose_user_reads_the_store_itself_is_told(console: Console, apart: bool) -> None:
    if apart:
        separated(console)
    else:
        planted(console)
    (console.directory / "wakegate.toml").write_text(f'[harness.shop]\nuid = {os.geteuid()}\ninstances = ["desk"]\n')
    said = offline(console).of("users.harnesses", "warning" if apart else "note")
    assert "can read" in said
    assert "so the control API keeps nothing from it" in said


def test_listening_elsewhere_without_tls_is_noted(console: Console) -> None:
    assert offline(console).one("url.listen").verdict == "ok"
    console.set("WAKEGATE_LISTEN", "0.0.0.0:8080")
    assert "without TLS" in offline(console).of("url.listen", "note")


def test_a_user_is_not_known_on_tcp(console: Console) -> None:
    console.set("WAKEGATE_CONTROL", "127.0.0.1:18099")
    (console.directory / "wakegate.toml").write_text('[harness.shop]\nuid = 1\ninstances = ["desk"]\n')
    assert "where users are not known" in offline(console).of("users.harnesses", "problem")


def separated(console: Console) -> None:
    """Give the folder and the keys to two users of one group, as a deployment does."""
    planted(console)
    for file in console.directory.iterdir():
        os.chown(file, WORKER if file.name == "worker.key" else RECEIVER, GROUP)
    os.chown(console.directory, RECEIVER, GROUP)
    console.directory.chmod(0o2770)
    assert stat.S_IMODE((console.directory / "wakegate.db").stat().st_mode) == 0o660


def doctor(box: Machine, who: Who, *, cwd: str = "/", **settings: str) -> Diagnosis:
    """Run the doctor as a user of a machine."""
    command = box.command(WAKEGATE, "doctor", "--json", "--offline", who=who, cwd=cwd, **settings)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return read(Ran(done.returncode, done.stdout, done.stderr))


def _key(path: Path, owner: int) -> None:
    path.touch(mode=0o600)
    path.write_bytes(Fernet.generate_key() + b"\n")
    os.chown(path, owner, GROUP)


def test_resumers_are_imported_as_the_worker_would_and_what_fails_is_told(console: Console) -> None:
    folder = console.directory / "desk"
    folder.mkdir()
    (folder / "agents.py").write_text(
        "import os\nassert 'PLANTED' not in os.environ\n\ndef resume():\n    raise OSError\n"
    )
    (folder / "broken.py").write_text("raise RuntimeError('planted-secret')\n")
    (folder / "leaving.py").write_text("import os\nos._exit(0)\n")
    console.set("PLANTED", "of the doctor's own environment")
    console.set("WAKEGATE_RESUMERS_DIRECTORY", str(folder))
    console.set(
        "WAKEGATE_RESUMERS",
        "langgraph=agents:resume,adk=agents:gone,pydantic-ai=nowhere:resume,claude-agent-sdk=broken:resume,"
        "openai-agents=leaving:resume",
    )
    said = offline(console)
    assert said.of("settings.resumers", "ok").startswith("langgraph is resumed by agents:resume")
    wrong = said.of("settings.resumers", "problem").splitlines()
    assert [line.split(",")[0].removeprefix("the resumer for ") for line in wrong] == [
        "adk", "claude-agent-sdk", "openai-agents", "pydantic-ai",
    ]  # fmt: skip
    assert "'gone'" in wrong[0]
    assert "RuntimeError (broken.py, line 1)" in wrong[1]
    assert "ended the process (exit code 0)" in wrong[2]
    assert "No module named 'nowhere'" in wrong[3]
    assert "planted-secret" not in said.ran.out
