"""Who holds what, with real users of one machine: each service works, and reads nothing of the other's.

The harness, and so the agent, has the control socket and nothing else. What root does between leaves all that as it is.
"""

import json
import re
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import click
import pytest

from support.installed import CALL, HARNESS_UID, Installed, installed, rights
from support.machine import PYTHON, ROOT, Who
from wakegate_console import layout
from wakegate_console.cli import wakegate

SECRETS = [str(place.path) for place in layout.PLACES if place.kind == "secret"]
HANDED = {
    "receiver": ["/run/credentials/wakegate-receiver.service/receiver_key"],
    "worker": [f"/run/credentials/wakegate-worker.service/{name}" for name in ("worker_key", "wake_secret")],
}
STORE = [f"{layout.STORE}{end}" for end in ("", "-wal", "-shm", "-next", "-turn", "-open")]


@pytest.fixture(scope="module")
def site() -> Iterator[Installed]:
    """Both services running, and a harness that may use one instance."""
    with installed() as site:
        site.fine("harness", "add", "refunds", "--uid", str(HARNESS_UID), "--instance", "refund-desk")
        yield site


def resumed(site: Installed, key: str) -> object:
    """Suspend a call as the harness's user, over the socket, and return what became of it."""
    done = site.machine.run(PYTHON, "-c", CALL, key, who=site.harness)
    assert done.returncode == 0, done.stderr + site.log("receiver")
    status, said = json.loads(done.stdout)
    assert status == 200, said
    assert said["state"] == "succeeded", f"{said} {site.log('worker')}"
    return said["result"]


def test_a_call_goes_from_suspended_to_run_under_three_users(site: Installed) -> None:
    assert len({site.receiver.uid, site.worker.uid, site.harness.uid, 0}) == 4
    assert resumed(site, "first") == {"refunded": 49}


def everything(site: Installed, who: Who) -> dict[str, str]:
    """What a user may do with every file of the installation while both services run, as far as it may anything."""
    places = [str(place.path) for place in layout.PLACES if site.machine.outside(place.path).exists()]
    paths = [*places, *STORE, *HANDED["receiver"], *HANDED["worker"], f"{layout.TOOLS}/my_tools.py"]
    return {path: right for path, right in rights(site, who, paths).items() if right}


OF_ALL = {str(place.path): "r" for place in layout.PLACES if place.mode & 0o004}
"""What every user of a machine may read: the units, and what makes the socket's directory."""


def test_a_harness_has_the_socket_and_nothing_else(site: Installed) -> None:
    assert everything(site, site.harness) == OF_ALL | {str(layout.RUNTIME): "r"}


def test_another_user_has_nothing(site: Installed) -> None:
    assert everything(site, site.stranger) == OF_ALL


@pytest.mark.parametrize("service", ["receiver", "worker"])
def test_a_service_has_the_store_and_its_own_secrets_only(site: Installed, service: str) -> None:
    who = site.receiver if service == "receiver" else site.worker
    store = dict.fromkeys([*STORE, str(layout.STATE)], "rw")
    settings = dict.fromkeys(map(str, (layout.ETC, layout.SETTINGS, layout.TOOLS)), "r")
    own = dict.fromkeys(HANDED[service], "r") | settings | {f"{layout.TOOLS}/my_tools.py": "r"}
    runtime = {str(layout.RUNTIME): "rw"} if service == "receiver" else {}
    assert everything(site, who) == OF_ALL | store | own | runtime


def test_nobody_but_root_reads_the_secrets_where_they_are_kept(site: Installed) -> None:
    for who in (site.receiver, site.worker, site.harness, site.stranger):
        assert set(rights(site, who, SECRETS).values()) == {""}
    assert len(SECRETS) == 3


CONNECT = "import socket; socket.socket(socket.AF_UNIX).connect('/run/wakegate/control.sock')"


def test_only_the_harness_group_can_connect(site: Installed) -> None:
    outcomes = {}
    for name in ("harness", "receiver", "worker", "stranger"):
        done = site.machine.run(PYTHON, "-c", CONNECT, who=getattr(site, name))
        outcomes[name] = "PermissionError" if "PermissionError" in done.stderr else done.returncode
    assert outcomes == {"harness": 0, "receiver": 0, "worker": "PermissionError", "stranger": "PermissionError"}


def test_the_documentation_shows_how_to_check_it(site: Installed) -> None:
    """Every command of the section, in its order, says what the page says."""
    page = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
    section = page.split("## Checking the separation yourself")[1].split("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", section, flags=re.DOTALL)
    steps = [step.split("\n", 1) for block in blocks for step in block.split("$ ")[1:]]
    assert len(steps) > 10
    for command, expected in steps:
        done = site.machine.run("sh", "-c", command)
        assert done.stdout + done.stderr == expected, command


def test_root_runs_no_service_where_it_would_lock_the_services_out(site: Installed) -> None:
    before = owners(site)
    for service in ("receiver", "worker", "up"):
        done = site.root(service)
        assert done.returncode == 2, done.stderr
        assert "root must not run a service" in done.stderr
    assert owners(site) == before


def owners(site: Installed) -> dict[str, tuple[int, int, str]]:
    """Owner, group and mode of everything under the three folders."""
    found = {}
    for folder in (layout.ETC, layout.STATE, layout.RUNTIME):
        top = site.machine.outside(folder)
        for path in (top, *sorted(top.rglob("*"))):
            status = path.lstat()
            found[f"{folder}/{path.relative_to(top)}"] = (status.st_uid, status.st_gid, stat.filemode(status.st_mode))
    return found


def commands(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """All commands with their full names."""
    if isinstance(command, click.Group):
        for sub in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), sub)
            assert found is not None
            yield from commands(f"{name} {sub}".strip(), found)
    else:
        yield name, command


ELSEWHERE = {"demo", "init", "receiver", "worker", "up", "verify"}
"""What does not work on the installed store: services, and what makes or needs no store."""


def test_what_root_does_while_the_services_run_locks_none_out(site: Installed) -> None:
    """A key is changed as the documentation says; the services go on before, between and after."""
    first = site.fine("db", "reseal")
    assert first.count("restart the services") == 2, first
    assert resumed(site, "before-the-restart") == {"refunded": 49}
    restarted(site)
    assert resumed(site, "after-the-restart") == {"refunded": 49}
    second = site.fine("db", "reseal")
    assert second.count("the new key made before: 1") == 2, second
    assert resumed(site, "afterwards") == {"refunded": 49}
    restarted(site)
    assert resumed(site, "under-the-new-key-alone") == {"refunded": 49}
    assert wrong(site) == {}


def restarted(site: Installed) -> None:
    for service in ("worker", "receiver"):
        assert site.stop(service) == 0, site.log(service)
        site.start(service)
    site.ready("receiver", "worker")


IN_A_ROW = """
import json, sys
from wakegate_console.cli import main
print(json.dumps([main(["--config", "/etc/wakegate/wakegate.toml", *each]) for each in json.loads(sys.argv[1])]))
"""


def in_a_row(site: Installed, *commands: list[str]) -> list[int]:
    """Run commands as root, one after the other in one process, and return their exit codes."""
    done = site.machine.run(PYTHON, "-c", IN_A_ROW, json.dumps(commands))
    assert done.returncode == 0, done.stderr
    codes: list[int] = json.loads(done.stdout.splitlines()[-1])
    return codes


def test_what_root_does_between_locks_no_service_out(site: Installed) -> None:
    """Every operator command, with the services stopped and the store's locks gone: all made anew, by root."""
    assert resumed(site, "one-before") == {"refunded": 49}
    for service in ("worker", "receiver"):
        assert site.stop(service) == 0, site.log(service)
    for end in ("-next", "-turn", "-open"):
        site.machine.outside(f"{layout.STORE}{end}").unlink()
    fine = [
        ["db", "migrate"],
        *([group, "list"] for group in ("execution", "notification", "instance", "harness", "refusal")),
        *(["clock", "show"], ["db", "check"], ["db", "prune"], ["instance", "show", "refund-desk"]),
        ["execution", "show", "one-before"],
        ["harness", "add", "others", "--uid", "61009", "--instance", "refund-desk"],
        ["harness", "remove", "others"],
        ["db", "reseal", "--keep-old"],
        ["db", "backup", "/opt/backup.db"],
        ["db", "restore", "/opt/backup.db"],
    ]
    assert in_a_row(site, *fine) == [0] * len(fine)
    known = {tuple(name.split()): command for name, command in commands("", wakegate) if is_operators(name)}
    ran = {name for name in known for each in fine if tuple(each[: len(name)]) == name}
    others = [[*name, *asked(command)] for name, command in known.items() if name not in ran]
    assert set(in_a_row(site, *others)) <= {0, 1, 2}
    assert wrong(site) == {}
    for service in ("receiver", "worker"):
        site.start(service)
    site.ready("receiver", "worker")
    assert released_and_resumed(site) == {"refunded": 49}


def is_operators(name: str) -> bool:
    """Whether a command works on the installed store and ends by itself."""
    return name not in ELSEWHERE and not name.startswith("provider")


def asked(command: click.Command) -> list[str]:
    """Something for each argument that a command must have: it opens the store and finds nothing of that name."""
    return ["nothing-there" for each in command.params if isinstance(each, click.Argument) and each.required]


def released_and_resumed(site: Installed) -> object:
    """After a restore new calls wait for a person too; root releases this one while the harness waits."""
    with ThreadPoolExecutor(1) as harness:
        waiting = harness.submit(resumed, site, "after-all-that")
        while not waiting.done():
            held = json.loads(site.fine("execution", "list", "--json"))
            if any(call["problem"] == "older_epoch" for call in held):
                site.fine("execution", "release", "--all", "--by", "tester", "--note", "restored a moment ago", "--yes")
            time.sleep(0.3)
        return waiting.result()


def wrong(site: Installed) -> dict[str, tuple[int, int, str]]:
    """What keeps its user out: of the store's folder what is not both services', of the others what is not as made."""
    services = (site.receiver.uid, site.worker.uid)
    group = site.machine.gid(layout.GROUP)

    def is_right(path: str, uid: int, gid: int, mode: str) -> bool:
        if path.startswith(str(layout.STATE)):
            shared = gid == group and mode[1:3] == mode[4:6] == "rw"
            return uid in services and (shared or "refusals" in path) and mode[7:] == "---"
        if path.startswith(str(layout.RUNTIME)):
            return uid == site.receiver.uid
        secret = path.startswith(str(layout.CREDENTIALS))
        tool = path.startswith(f"{layout.TOOLS}/my_")
        return uid == 0 and (mode[4:] == "------" if secret else gid == group or tool)

    return {path: found for path, found in owners(site).items() if not is_right(path, *found)}
