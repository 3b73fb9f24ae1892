"""The units as shipped: systemd takes them, thinks well of them, and they agree with the code and the layout."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.units import FOLDER, RECEIVER, SOCKET, WORKER, Unit, program
from wakegate_console import layout
from wakegate_receiver.listener import BACKLOG
from wakegate_receiver.stopping import longest_stop
from wakegate_schema.settings import Settings, load_settings
from wakegate_schema.store.group_commit import PATIENCE_S
from wakegate_schema.watchdog import PROBE_S
from wakegate_worker.registry import DEFAULT_TIMEOUT
from wakegate_worker.service import LEAVE_S
from wakegate_worker.worker import stop_seconds

SERVICES = (RECEIVER, WORKER)
PROGRAM = "/opt/wakegate/bin/wakegate"


@pytest.mark.parametrize("name", [RECEIVER, WORKER])
def test_systemd_finds_nothing_wrong_with_them(name: str, tmp_path: Path) -> None:
    for each in FOLDER.iterdir():
        text = each.read_text().replace(PROGRAM, str(Path(sys.executable).with_name("wakegate")))
        (tmp_path / each.name).write_text(text)
    checked = [str(tmp_path / each) for each in (name, SOCKET)]
    done = subprocess.run(
        [program("systemd-analyze"), "verify", "--man=no", *checked], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", SERVICES)
def test_their_exposure_is_at_most_1_5(name: str) -> None:
    done = subprocess.run(
        [program("systemd-analyze"), "security", "--offline=yes", "--threshold=15", "--no-pager", str(FOLDER / name)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert said is not None
    assert float(said[1]) <= 1.5


def test_they_are_the_layouts_units_with_its_users_and_paths() -> None:
    assert {each.name for each in FOLDER.iterdir()} == set(layout.UNIT_NAMES)
    receiver, worker, sockets = Unit(RECEIVER), Unit(WORKER), Unit(SOCKET)
    assert (receiver.one("User"), worker.one("User")) == (layout.RECEIVER_USER, layout.WORKER_USER)
    assert {receiver.one("Group"), worker.one("Group")} == {layout.GROUP}
    assert {unit.environment["WAKEGATE_CONFIG"] for unit in (receiver, worker)} == {str(layout.SETTINGS)}
    assert receiver.one("ReadWritePaths").split() == [str(layout.STATE), str(layout.RUNTIME)]
    assert worker.one("ReadWritePaths").split() == [str(layout.STATE)]
    assert worker.one("WorkingDirectory") == str(layout.TOOLS), "imports look there first: nobody but root may write it"
    assert sockets.all("ListenStream") == [str(Settings.model_fields["listen"].default), str(layout.CONTROL)]
    assert (sockets.one("SocketUser"), sockets.one("SocketGroup")) == (layout.RECEIVER_USER, layout.HARNESS_GROUP)
    assert (sockets.one("SocketMode"), sockets.one("Backlog")) == ("0660", str(BACKLOG))


def test_each_is_handed_its_own_secrets_and_none_of_the_others() -> None:
    receiver, worker = Unit(RECEIVER), Unit(WORKER)
    assert receiver.credentials == {"receiver_key": str(layout.RECEIVER_KEY)}
    assert worker.credentials == {"worker_key": str(layout.WORKER_KEY), "wake_secret": str(layout.WAKE_SECRET)}
    for unit in (receiver, worker):
        told = {f"WAKEGATE_{name.upper()}_FILE": f"%d/{name}" for name in unit.credentials}
        assert told.items() <= unit.environment.items(), "or the settings file's own path would be read"


@pytest.mark.parametrize("name", SERVICES)
def test_their_environment_is_settings_and_no_others(name: str, tmp_path: Path) -> None:
    unit = Unit(name)
    environment = {key: value.replace("%d", str(tmp_path)) for key, value in unit.environment.items()}
    environment["WAKEGATE_CONFIG"] = str(tmp_path / "wakegate.toml")
    (tmp_path / "wakegate.toml").touch()
    assert load_settings(environ=environment).log_format == "json"


def test_the_receiver_sees_who_is_at_its_socket_and_reaches_nobody() -> None:
    unit = Unit(RECEIVER)
    assert unit.all("PrivateUsers") == []
    assert (unit.one("PrivateNetwork"), unit.one("RestrictAddressFamilies")) == ("yes", "AF_UNIX")


@pytest.mark.parametrize("name", SERVICES)
def test_they_try_again_without_end_and_dump_no_secrets(name: str) -> None:
    unit = Unit(name)
    assert (unit.one("Type"), unit.one("Restart"), unit.one("StartLimitIntervalSec")) == ("notify", "always", "0")
    assert unit.one("LimitCORE") == "0"
    assert unit.one("KillMode") == "mixed", "programs of tools are not told to stop before their tools have ended"


@pytest.mark.parametrize("name", SERVICES)
def test_trouble_of_half_the_watchdogs_period_kills_nobody(name: str) -> None:
    assert Unit(name).seconds("WatchdogSec") / 4 >= PROBE_S


def test_the_receivers_stop_has_the_time_the_code_takes() -> None:
    default = Settings.model_fields["shutdown_timeout"].default
    assert Unit(RECEIVER).seconds("TimeoutStopSec") > longest_stop(default)


def test_the_workers_stop_has_the_time_the_code_takes() -> None:
    allowed = Unit(WORKER).seconds("TimeoutStopSec")
    assert allowed > stop_seconds(DEFAULT_TIMEOUT) + PATIENCE_S + LEAVE_S
    assert allowed > stop_seconds(240) + PATIENCE_S + LEAVE_S, "as the unit says of tools of four minutes"
