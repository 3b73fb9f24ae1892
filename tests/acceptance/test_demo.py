"""`wakegate demo`, as a person runs it."""

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.console import command, environment, run
from wakegate_console.demo.cases import CASES


def processes_of(directory: Path) -> list[int]:
    """Process ids of everything that runs in a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                where = (entry / "cwd").readlink()
            except OSError:
                continue
            if where == directory:
                found.append(int(entry.name))
    return found


def begun(directory: Path, stage: Path) -> subprocess.Popen[str]:
    """A demo that has said that calls are saved."""
    demo = subprocess.Popen(
        command("demo", "--keep", str(stage)),
        cwd=directory,
        env=environment(directory),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    for line in demo.stdout:
        if "harness saves" in line:
            return demo
    raise AssertionError("the demo ended early")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder with a name short enough for a socket below it."""
    with tempfile.TemporaryDirectory(prefix="wg") as name:
        yield Path(name)


def test_every_call_ends_as_it_must(tmp_path: Path, temporary: Path) -> None:
    ran = run(
        tmp_path, "demo", settings={"TMPDIR": str(temporary), "WAKEGATE_LISTEN": "this is another wakegate's setting"}
    )
    assert (ran.code, ran.err) == (0, ""), ran.out
    row = r"^(.+?) +(?:approved, \w+|denied, \w+|cancelled|expired) +(\w+) +(\d)× +(\d)× +(\d) "
    found = re.findall(row, ran.out, flags=re.MULTILINE)
    assert [each[:2] + each[3:] for each in found] == [
        (case.tells, str(case.ends), str(case.times), str(case.times)) for case in CASES
    ]
    assert [each[2] for each in found] == ["2", *["1"] * 8]
    assert ran.out.splitlines()[-1].startswith("All 9 calls ended as they must; 5 refunds were made")
    assert "delivers one notification a second time" in ran.out
    assert "wakegate demo --keep DIR" in ran.out
    assert all(len(line) <= 100 and line == line.rstrip() for line in ran.out.splitlines())
    assert all(len(line) <= 80 for line in ran.out.splitlines() if "  " in line)
    assert list(temporary.iterdir()) == []
    assert not (tmp_path / "wakegate.db").exists()


def test_what_is_kept_can_be_looked_at(tmp_path: Path) -> None:
    stage = tmp_path / "kept"
    ran = run(tmp_path, "demo", "--keep", str(stage))
    assert ran.code == 0
    assert f"  wakegate --config {stage}/wakegate.toml execution list\n" in ran.out
    kept = environment(tmp_path)
    del kept["WAKEGATE_DATABASE"]
    listed = subprocess.run(
        command("--config", str(stage / "wakegate.toml"), "execution", "list", "--json"),
        cwd=tmp_path, env=kept, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert listed.stdout.count('"execution_id"') == len(CASES)
    assert processes_of(stage) == []
    resolving = next(line for line in ran.out.splitlines() if " resolve " in line)
    settled = subprocess.run(
        command(*resolving.replace("NAME", "Mira").replace("TEXT", "asked-the-bank").split()[1:]),
        cwd=tmp_path, env=kept, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert settled.stdout.endswith(": in_doubt → succeeded (happened), by Mira\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    stage = tmp_path / "kept"
    demo = begun(tmp_path, stage)
    assert len(processes_of(stage)) >= 3
    demo.send_signal(number)
    out, err = demo.communicate(timeout=15)
    assert demo.returncode == 130, out + err
    assert err == ""
    assert processes_of(stage) == []


def test_a_killed_demo_leaves_no_process(tmp_path: Path) -> None:
    stage = tmp_path / "kept"
    demo = begun(tmp_path, stage)
    demo.kill()
    demo.communicate(timeout=15)
    until = time.monotonic() + 15
    while processes_of(stage) and time.monotonic() < until:
        time.sleep(0.05)
    assert processes_of(stage) == []


def test_a_path_too_long_for_a_socket_is_named_before_anything_starts(tmp_path: Path) -> None:
    temporary = tmp_path / ("x" * 110)
    temporary.mkdir()
    ran = run(tmp_path, "demo", settings={"TMPDIR": str(temporary)})
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert list(temporary.iterdir()) == []


def test_a_demo_whose_receiver_dies_fails_and_says_where_the_logs_are(tmp_path: Path) -> None:
    stage = tmp_path / "kept"
    demo = begun(tmp_path, stage)
    for process in processes_of(stage):
        if Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[-2] == b"receiver":
            os.kill(process, signal.SIGKILL)
    _, err = demo.communicate(timeout=30)
    assert demo.returncode == 1
    assert "receiver" in err
    assert err.splitlines()[-1] == f"wakegate: the logs are in {stage}"
    assert (stage / "receiver.log").exists()
    assert processes_of(stage) == []
