"""The units as shipped: systemd takes them, thinks well of them, and they agree with the code and the layout."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.machine import ROOT
from support.units import FOLDER, RECEIVER, SOCKET, WORKER, Unit, program
from wakegate_console import layout
from wakegate_console.installation.drop_ins import PLACES, drop_in
from wakegate_console.installation.steps import CannotInit
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
    assert exposure(FOLDER / name) <= 1.5


def exposure(unit: Path) -> float:
    """What systemd thinks of a unit, from 0 (none) to 10."""
    done = subprocess.run(
        [program("systemd-analyze"), "security", "--offline=yes", "--threshold=15", "--no-pager", str(unit)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert said is not None
    return float(said[1])


ELSEWHERE = {
    "addresses": {"WAKEGATE_DATABASE": "postgresql://w@10.0.0.5,10.0.0.6:5433/w", "WAKEGATE_QUEUE": "redis://10.0.0.9"},
    "names": {"WAKEGATE_DATABASE": "postgresql://w@db.example/w?sslmode=verify-full"},
    "sentinels": {"WAKEGATE_QUEUE": "redis+sentinel://10.0.0.7/wakegate"},
    "sockets": {
        "WAKEGATE_DATABASE": "postgresql://w@/w?host=/run/postgresql",
        "WAKEGATE_QUEUE": "unix:///run/redis.sock",
    },
    "sqlite": {},
}
"""What the settings may name, and so what the drop-ins of `wakegate init --system` open."""


@pytest.mark.parametrize("kind", ELSEWHERE)
@pytest.mark.parametrize("password", [True, False])
def test_drop_ins_open_no_more_than_a_store_elsewhere_needs(kind: str, password: bool, tmp_path: Path) -> None:
    secret = {"WAKEGATE_DATABASE_PASSWORD_FILE": str(layout.CREDENTIALS / "database_password")} if password else {}
    settings = load_settings(environ=ELSEWHERE[kind] | secret)
    made = [drop_in(place, settings) for place in PLACES]
    written(made, tmp_path)
    for unit in SERVICES:
        done = subprocess.run(
            [program("systemd-analyze"), "verify", "--man=no", str(tmp_path / unit), str(tmp_path / SOCKET)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    receiver, worker = ("" if text is None else text for text in made)
    opened = kind in ("addresses", "names", "sentinels")
    assert ("PrivateNetwork=no" in receiver) == opened
    assert "PrivateNetwork" not in worker, "it has a network in any case"
    assert ("IPAddressAllow=10.0.0.5 10.0.0.6 10.0.0.9\n" in receiver) == (kind == "addresses")
    assert ("IPAddressDeny=\n" in receiver) == (kind in ("names", "sentinels"))
    for text in (receiver, worker):
        assert (f"LoadCredential=database_password:{layout.CREDENTIALS}/database_password\n" in text) == password
        assert ("Environment=WAKEGATE_DATABASE_PASSWORD_FILE=%d/database_password\n" in text) == password
    assert (made == [None, None]) == (not opened and not password)


@pytest.mark.parametrize("kind", ["addresses", "names"])
def test_the_receivers_exposure_with_a_network_is_what_the_page_says(kind: str, tmp_path: Path) -> None:
    written([drop_in(place, load_settings(environ=ELSEWHERE[kind])) for place in PLACES], tmp_path)
    assert exposure(FOLDER / RECEIVER) == 0.4
    assert exposure(tmp_path / RECEIVER) == 1.2
    assert "its score is 1.2 with the drop-in and 0.4 without" in (ROOT / "docs" / "deployment.md").read_text()


def written(made: list[str | None], folder: Path) -> None:
    """Put the units and their drop-ins into a folder."""
    for each in FOLDER.iterdir():
        text = each.read_text().replace(PROGRAM, str(Path(sys.executable).with_name("wakegate")))
        (folder / each.name).write_text(text)
    for place, drop in zip(PLACES, made, strict=True):
        if drop is not None:
            (folder / place.path.parent.name).mkdir()
            (folder / place.path.parent.name / place.path.name).write_text(drop)


def test_a_password_file_that_a_unit_cannot_name_is_refused() -> None:
    for path in ("relative/file", "/etc/with blank", "/etc/100%"):
        settings = load_settings(environ=ELSEWHERE["names"] | {"WAKEGATE_DATABASE_PASSWORD_FILE": path})
        with pytest.raises(CannotInit, match="such as /etc/wakegate/credentials/database_password"):
            drop_in(PLACES[0], settings)


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
