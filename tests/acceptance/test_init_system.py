"""`wakegate init --system`, as root on a machine of its own: everything as the table says, once, and never over it."""

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.machine import WAKEGATE, Machine, Who, machine
from wakegate_console import layout
from wakegate_console.installation.drop_ins import PLACES
from wakegate_schema.keys import load_key
from wakegate_schema.secret_files import load_signing_secrets
from wakegate_schema.settings import load_settings

NAMES = (*layout.GROUPS, *(user.name for user in layout.USERS))


@pytest.fixture
def bare() -> Iterator[Machine]:
    """A machine with nothing of wakegate but the program."""
    with machine() as made:
        yield made


@pytest.fixture(scope="module")
def made() -> Iterator[Machine]:
    """One that `init --system` was run on."""
    with machine() as made:
        code, steps = init(made)
        assert code == 0, steps
        assert {step["state"] for step in steps.values() if step["kind"] != "program"} == {"made"}
        assert steps[WAKEGATE]["state"] == "was there"
        yield made


def init(made: Machine, *arguments: str, who: Who | None = None) -> tuple[int, dict[str, dict[str, str]]]:
    """Run `init --system`; return its exit code and what it says of each thing, by name."""
    done = made.wakegate("init", "--system", "--json", *arguments, **({} if who is None else {"who": who}))  # type: ignore[arg-type]
    assert not done.stderr, done.stderr
    steps: list[dict[str, str]] = json.loads(done.stdout)
    return done.returncode, {step["name"] if step["kind"] != "user" else f"user {step['name']}": step for step in steps}


def snapshot(made: Machine) -> dict[str, Any]:
    """Everything under the folders of the layout, with owner, mode and content, and the accounts."""
    found: dict[str, Any] = {}
    for folder in (layout.ETC, layout.STATE, layout.RUNTIME, layout.UNITS, layout.TMPFILES.parent):
        top = made.outside(folder)
        for path in (top, *sorted(top.rglob("*"))):
            status = path.lstat()
            content = path.read_bytes() if path.is_file() else None
            found[str(path)] = (status.st_uid, status.st_gid, status.st_mode, status.st_mtime_ns, content)
    for name in ("passwd", "group"):
        found[name] = made.outside(f"/etc/{name}").read_text()
    return found


def deviations(made: Machine) -> list[str]:
    """What is not as the table says."""
    uids = {"root": 0, **{user.name: made.user(user.name).uid for user in layout.USERS}}
    gids = {"root": 0, **{group: made.gid(group) for group in layout.GROUPS}}
    found = []
    for place in layout.PLACES:
        status = made.outside(place.path).lstat()
        kind = stat.S_ISDIR if place.kind == "directory" else stat.S_ISREG
        right = (uids[place.owner], gids[place.group], place.mode)
        if not kind(status.st_mode) or (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) != right:
            found.append(str(place.path))
    return found


def test_everything_is_as_the_table_says_and_again_nothing_changes(made: Machine) -> None:
    assert deviations(made) == []
    before = snapshot(made)
    code, steps = init(made)
    assert (code, {step["state"] for step in steps.values()}) == (0, {"was there"})
    assert snapshot(made) == before


def test_the_users_cannot_log_in_and_have_no_home_and_one_group(made: Machine) -> None:
    lines = [line.split(":") for line in made.outside("/etc/passwd").read_text().splitlines()]
    users = {fields[0]: fields for fields in lines if fields[0] in NAMES}
    assert set(users) == {user.name for user in layout.USERS}
    for name, (_, _, uid, gid, _, home, shell) in users.items():
        assert int(uid) not in (0, made_uid(users, name))
        assert (int(gid), home, shell) == (made.gid(layout.GROUP), "/nonexistent", "/usr/sbin/nologin")
    shadow = [line.split(":") for line in made.outside("/etc/shadow").read_text().splitlines()]
    assert {fields[0]: fields[1][:1] for fields in shadow if fields[0] in users} == dict.fromkeys(users, "!")
    assert made.user(layout.RECEIVER_USER).groups == made.user(layout.WORKER_USER).groups == ()


def made_uid(users: dict[str, list[str]], name: str) -> int:
    """The uid of the other user."""
    return next(int(fields[2]) for other, fields in users.items() if other != name)


def test_the_secrets_are_good_and_the_settings_load_and_name_them(made: Machine) -> None:
    keys = [load_key(made.outside(path)) for path in (layout.RECEIVER_KEY, layout.WORKER_KEY)]
    assert not keys[0].opens(keys[1].seal("it", b"x"))
    assert len(load_signing_secrets(made.outside(layout.WAKE_SECRET), "it")) == 1
    settings = load_settings(made.outside(layout.SETTINGS), {})
    assert settings.database_path == layout.STORE
    assert settings.control_address == layout.CONTROL
    paths = (settings.receiver_key_path, settings.worker_key_path, settings.wake_secret_path)
    assert paths == (layout.RECEIVER_KEY, layout.WORKER_KEY, layout.WAKE_SECRET)


def test_no_secret_is_shown(bare: Machine) -> None:
    done = bare.wakegate("init", "--system")
    secrets = [bare.outside(place.path).read_text().strip() for place in layout.PLACES if place.kind == "secret"]
    assert len(secrets) == 3
    assert not any(secret in done.stdout + done.stderr for secret in secrets)


def test_the_units_start_the_program_that_ran_init(made: Machine) -> None:
    for name in layout.UNIT_NAMES:
        text = made.outside(layout.UNITS / name).read_text()
        started = [line for line in text.splitlines() if line.startswith("ExecStart=")]
        assert len(started) == name.endswith(".service")
        assert all(line.startswith(f"ExecStart={WAKEGATE} ") for line in started)


def test_what_was_killed_is_completed(bare: Machine) -> None:
    for seconds in ("0.2", "0.35", "0.5"):
        bare.run("timeout", "-s", "KILL", seconds, WAKEGATE, "init", "--system")
    code, steps = init(bare)
    assert code == 0, steps
    assert deviations(bare) == []


def test_what_is_missing_is_made_and_the_rest_stays(bare: Machine) -> None:
    init(bare)
    before = snapshot(bare)
    gone = {f"user {layout.WORKER_USER}", str(layout.WORKER_KEY), str(layout.TOOLS), str(layout.TMPFILES)}
    # not by userdel, which refuses while any process of the whole machine has that number
    undone = "sed -i /^wakegate-worker:/d /etc/passwd /etc/shadow"
    files = f"{layout.WORKER_KEY} {layout.TMPFILES}"
    done = bare.run("sh", "-ec", f"{undone}; rm {files}; rmdir {layout.TOOLS}")
    assert done.returncode == 0, done.stderr
    code, steps = init(bare)
    assert code == 0, steps
    assert {name for name, step in steps.items() if step["state"] == "made"} == gone
    assert deviations(bare) == []
    kept = {path: found for path, found in snapshot(bare).items() if Path(path).is_file()}
    changed = {Path(path).name for path in kept if kept[path] != before[path]}
    assert changed == {"worker_key", "wakegate.conf"}


SPOILT = {
    "chmod 0755 /var/lib/wakegate": (str(layout.STATE), "chmod 2770"),
    "chown root /var/lib/wakegate/wakegate.db": (str(layout.STORE), "chown wakegate-receiver:wakegate"),
    "chmod 0644 /etc/wakegate/credentials/wake_secret": (str(layout.WAKE_SECRET), "chmod 0600"),
    "usermod --shell /bin/sh wakegate-worker": ("user wakegate-worker", "usermod --shell"),
    "usermod --gid nogroup wakegate-worker": ("user wakegate-worker", "usermod --append --groups wakegate"),
    "rmdir /run/wakegate; ln -s /nowhere /run/wakegate": (str(layout.RUNTIME), "move it away"),
    "echo '# mine' >> /etc/systemd/system/wakegate-receiver.service": (
        str(layout.UNITS / "wakegate-receiver.service"),
        "systemctl edit",
    ),
}


def test_a_store_elsewhere_gets_drop_ins_and_they_are_not_left_behind_unsaid(bare: Machine) -> None:
    """The settings are edited after the first run, and the second one makes what they need."""
    names = [str(place.path) for place in PLACES]
    assert init(bare)[0] == 0
    settings = bare.outside(layout.SETTINGS)
    before = settings.read_text()
    named = 'database = "postgresql://w@10.0.0.5/w"'
    settings.write_text(before.replace(f'database = "sqlite:///{layout.STORE}"', named))
    code, steps = init(bare)
    assert code == 0
    assert [steps[name]["state"] for name in names if name in steps] == ["made"], "the worker has a network already"
    assert "IPAddressAllow=10.0.0.5" in bare.outside(PLACES[0].path).read_text()
    password = f'database_password_file = "{layout.CREDENTIALS}/database_password"'
    settings.write_text(settings.read_text().replace(named, f"{named}\n{password}"))
    code, steps = init(bare)
    assert (code, steps[names[0]]["state"], steps[names[1]]["state"]) == (1, "differs", "made")
    bare.outside(PLACES[0].path).unlink()
    code, steps = init(bare)
    assert (code, steps[names[0]]["state"], steps[names[1]]["state"]) == (0, "made", "was there")
    settings.write_text(before)
    code, steps = init(bare)
    assert code == 1
    assert {steps[name]["detail"] for name in names} == {
        "is not needed: the settings name nothing that it is for; remove it"
    }


def test_what_differs_is_left_and_said(bare: Machine) -> None:
    init(bare)
    for spoil in SPOILT:
        done = bare.run("sh", "-ec", spoil)
        assert done.returncode == 0, done.stderr
    before = snapshot(bare)
    code, steps = init(bare)
    assert code == 1
    assert {name for name, step in steps.items() if step["state"] == "differs"} == {name for name, _ in SPOILT.values()}
    for name, remedy in SPOILT.values():
        assert remedy in steps[name]["detail"] or name.startswith("user")
    assert snapshot(bare) == before


def test_what_it_says_to_run_puts_it_right(bare: Machine) -> None:
    init(bare)
    bare.run(
        "sh", "-ec", "chmod 0755 /var/lib/wakegate; chown root /var/lib/wakegate; usermod -s /bin/sh wakegate-worker"
    )
    _, steps = init(bare)
    for step in steps.values():
        if step["state"] == "differs":
            done = bare.run("sh", "-ec", step["detail"].split("run: ")[1])
            assert done.returncode == 0, done.stderr
    assert init(bare)[0] == 0
    assert deviations(bare) == []


def test_a_lost_key_is_not_replaced_once_there_is_a_store(bare: Machine) -> None:
    init(bare)
    done = bare.wakegate("--config", str(layout.SETTINGS), "db", "migrate")
    assert done.returncode == 0, done.stderr
    bare.outside(layout.WORKER_KEY).unlink()
    code, steps = init(bare)
    assert (code, steps[str(layout.WORKER_KEY)]["state"]) == (1, "differs")
    assert "put the key back from its backup" in steps[str(layout.WORKER_KEY)]["detail"]
    assert not bare.outside(layout.WORKER_KEY).exists()


def test_a_dry_run_makes_nothing(bare: Machine) -> None:
    names = ("passwd", "group")
    before = [bare.outside(f"/etc/{name}").read_text() for name in names]
    code, steps = init(bare, "--dry-run")
    states = {step["state"] for step in steps.values() if step["kind"] != "program"}
    assert (code, states) == (0, {"would be made"})
    assert [bare.outside(f"/etc/{name}").read_text() for name in names] == before
    assert not any(bare.outside(path).exists() for path in (layout.ETC, layout.STATE, layout.RUNTIME))


def test_only_root_can(bare: Machine) -> None:
    done = bare.wakegate("init", "--system", who=Who(61_000, 61_000))
    assert done.returncode == 1
    assert "only root can: run it by sudo" in done.stderr


def test_a_program_that_its_users_cannot_run_is_found_out(bare: Machine) -> None:
    bare.outside("/opt/wakegate").chmod(0o700)
    code, steps = init(bare)
    assert (code, steps[WAKEGATE]["state"]) == (1, "differs")
    assert "this user cannot run it (Permission denied)" in steps[WAKEGATE]["detail"]


def image(bare: Machine) -> Path:
    """Another root, with accounts of its own."""
    root = bare.outside("/opt/image")
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nwakegate-worker:x:7:77::/:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\nwakegate:x:77:\n")
    return root


def test_an_image_gets_everything_but_secrets_under_its_own_accounts(bare: Machine) -> None:
    root = image(bare)
    before = bare.outside("/etc/passwd").read_text()
    code, steps = init(bare, "--root", "/opt/image")
    assert code == 0, steps
    left_out = {name for name, step in steps.items() if step["state"] == "left out"}
    assert left_out == {str(place.path) for place in layout.PLACES if place.kind == "secret"}
    there = {place.path for place in layout.PLACES if (root / str(place.path)[1:]).exists()}
    assert there == {place.path for place in layout.PLACES if place.kind != "secret"}
    assert (root / "etc/wakegate/wakegate.toml").stat().st_gid == 77
    assert steps["user wakegate-worker"]["state"] == "was there"
    assert bare.outside("/etc/passwd").read_text() == before
    assert not bare.outside(layout.ETC).exists()


def test_a_link_in_an_image_leads_nowhere_else(bare: Machine) -> None:
    root = image(bare)
    (root / "var").mkdir()
    (root / "var/lib").symlink_to("/var/lib")
    done = bare.wakegate("init", "--system", "--root", "/opt/image")
    assert (done.returncode, "which is not in" in done.stderr) == (1, True)
    assert "/etc/wakegate/wakegate.toml" in done.stdout, "what was made before is not told"
    assert list(bare.outside("/var/lib").iterdir()) == []


@pytest.mark.parametrize("name", ["etc", "etc/passwd", "etc/shadow", "etc/group"])
def test_no_user_is_made_where_a_link_leads_out_of_an_image(bare: Machine, name: str) -> None:
    root = image(bare)
    (root / "etc").rename(root / "old") if name == "etc" else (root / name).unlink(missing_ok=True)
    (root / name).symlink_to(f"/{name}")
    accounts = {each: bare.outside(f"/etc/{each}").read_text() for each in ("passwd", "shadow", "group")}
    done = bare.wakegate("init", "--system", "--root", "/opt/image")
    assert (done.returncode, "which is not in /opt/image" in done.stderr) == (1, True)
    assert {each: bare.outside(f"/etc/{each}").read_text() for each in accounts} == accounts


def test_the_table_of_a_terminal_says_what_to_do_in_full(bare: Machine) -> None:
    bare.outside("/run/wakegate").mkdir(mode=0o755)
    script = f"stty cols 90 rows 40; {WAKEGATE} init --system --dry-run"
    done = subprocess.run(
        bare.command("script", "-qec", script, "/dev/null"), capture_output=True, text=True, check=False, timeout=60
    )
    assert "chown wakegate-receiver:wakegate-harness /run/wakegate && chmod 2750 /run/wakegate" in done.stdout
