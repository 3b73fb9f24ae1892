"""`wakegate receiver`, `worker`, `provider` and `up`, as an init system runs them."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from support.console import command, environment, run
from wakegate_console.faults import CannotStart
from wakegate_console.supervision import GaveUp, Patience, Program, supervise


@contextmanager
def launched(directory: Path, program: list[str], **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """A program in a process of its own, its log in `log`; killed at the end, with what it has started."""
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            program, cwd=directory, env=environment(directory, **settings), stdout=log, stderr=log
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def started(directory: Path, *arguments: str, **settings: str) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """A command in a process of its own, as `launched`."""
    return launched(directory, command(*arguments), **settings)


def log(directory: Path) -> str:
    """What was logged so far."""
    return (directory / "log").read_text()


def until(holds: Callable[[], bool], within: float = 60) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def children(process: subprocess.Popen[bytes]) -> dict[str, int]:
    """The programs that a process has started, by their last argument."""
    found = {}
    for each in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        with suppress(OSError, IndexError):  # it may be ending, or not be that program yet
            found[Path(f"/proc/{each}/cmdline").read_text().split("\0")[-2]] = int(each)
    return found


def is_running(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


READY = "ready program=worker"
WORKING = (READY, "listening program=receiver")
"""What receiver and worker say when they work."""
SETTINGS = {"WAKEGATE_LISTEN": "127.0.0.1:0", "WAKEGATE_TOOLS": "wakegate_console.demo.tools"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["receiver"], "listening program=receiver "),
        (["worker"], "ready program=worker"),
        (["provider"], "listening program=provider "),
        (["provider", "run"], "listening program=provider "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_runs_until_it_is_told_to_stop(
    tmp_path: Path, arguments: list[str], word: str, number: signal.Signals
) -> None:
    with started(tmp_path, *arguments, **SETTINGS, WAKEGATE_PROVIDER_LISTEN="127.0.0.1:0") as service:
        until(lambda: word in log(tmp_path))
        service.send_signal(number)
        assert service.wait(15) == 0, log(tmp_path)


@pytest.mark.parametrize(
    ("service", "setting"), [("receiver", "WAKEGATE_LISTEN"), ("provider", "WAKEGATE_PROVIDER_LISTEN")]
)
def test_a_taken_port_is_one_line_that_says_what_to_do(tmp_path: Path, service: str, setting: str) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        ran = run(tmp_path, service, settings={setting: address})
    assert (ran.code, ran.out) == (2, "")
    assert [line for line in ran.err.splitlines() if line.startswith("wakegate: ")] == [
        f"wakegate: {setting}: cannot listen on {address}: Address already in use; stop what listens there,"
        " or choose another port"
    ]
    assert "Traceback" not in ran.err


def test_up_runs_receiver_and_worker_and_stops_both(tmp_path: Path) -> None:
    with started(tmp_path, "up", **SETTINGS) as up:
        until(lambda: all(word in log(tmp_path) for word in WORKING))
        pids = children(up)
        assert pids.keys() == {"receiver", "worker"}
        up.terminate()
        assert up.wait(15) == 0, log(tmp_path)
    assert not any(map(is_running, pids.values()))


def test_up_starts_the_worker_once_the_receiver_is_ready(tmp_path: Path) -> None:
    with started(tmp_path, "up", **SETTINGS) as up:
        until(lambda: READY in log(tmp_path))
        assert log(tmp_path).index(WORKING[1]) < log(tmp_path).index("started program=worker")
        up.terminate()
        assert up.wait(15) == 0


def test_up_starts_again_what_was_killed(tmp_path: Path) -> None:
    with started(tmp_path, "up", **SETTINGS) as up:
        until(lambda: READY in log(tmp_path))
        first = children(up)
        os.kill(first["worker"], signal.SIGKILL)
        until(lambda: log(tmp_path).count(READY) == 2)
        second = children(up)
        assert second["receiver"] == first["receiver"]
        assert second["worker"] != first["worker"]
        assert "ending=SIGKILL" in log(tmp_path)
        up.terminate()
        assert up.wait(15) == 0


def test_up_starts_nothing_with_wrong_tools(tmp_path: Path) -> None:
    ran = run(tmp_path, "up", settings=SETTINGS | {"WAKEGATE_TOOLS": "no.such.module"})
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("wakegate: WAKEGATE_TOOLS: ")
    assert "no.such.module" in ran.err
    assert ran.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_up_starts_no_worker_when_the_port_is_taken(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        ran = run(tmp_path, "up", settings=SETTINGS | {"WAKEGATE_LISTEN": address})
    assert (ran.code, ran.out) == (2, "")
    said = [line for line in ran.err.splitlines() if line.startswith("wakegate: receiver: ")]
    assert said == ran.err.splitlines()[-1:]
    assert f"WAKEGATE_LISTEN: cannot listen on {address}" in said[0]
    assert "started program=receiver" in ran.err
    assert "program=worker" not in ran.err


def test_the_worker_can_only_check_its_tools(tmp_path: Path) -> None:
    ran = run(tmp_path, "worker", "--check", settings=SETTINGS)
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert not list(tmp_path.iterdir())


def saying(*lines: str, code: int) -> list[str]:
    """A program that says lines to its supervisor and ends."""
    said = "".join(f"{line}\n" for line in lines)
    return [
        sys.executable,
        "-c",
        f"import os; os.write(int(os.environ['_WAKEGATE_LAST_WORDS']), {said!r}.encode()); raise SystemExit({code})",
    ]


async def test_the_next_program_waits_for_one_that_announces(tmp_path: Path) -> None:
    silent = Program("silent", saying("no room", code=2), announces=True)
    after = Program("after", ["touch", str(tmp_path / "started")])
    with pytest.raises(CannotStart, match=r"\Asilent: no room\Z"):
        await supervise([silent, after])
    assert not (tmp_path / "started").exists()


async def test_being_ready_is_no_last_word(tmp_path: Path) -> None:
    ready = Program("ready", saying("ready", "no room", code=2), announces=True)
    with pytest.raises(CannotStart, match=r"\Aready: no room\Z"):
        await supervise([ready])


@pytest.mark.parametrize("service", ["worker", "up"])
def test_tools_in_the_working_directory_are_found(tmp_path: Path, service: str) -> None:
    (tmp_path / "tools_of_mine.py").write_text(
        "from wakegate_worker import tool\n\n\n@tool()\ndef noop(attempt):\n    return None\n"
    )
    program = [str(Path(sys.executable).with_name("wakegate")), service]
    with launched(tmp_path, program, **(SETTINGS | {"WAKEGATE_TOOLS": "tools_of_mine"})) as running:
        until(lambda: READY in log(tmp_path))
        running.terminate()
        assert running.wait(15) == 0


def test_two_signals_at_once_are_one(tmp_path: Path) -> None:
    with started(tmp_path, "up", **SETTINGS) as up:
        until(lambda: all(word in log(tmp_path) for word in WORKING))
        pids = children(up)
        os.kill(pids["worker"], signal.SIGSTOP)
        up.send_signal(signal.SIGINT)
        up.send_signal(signal.SIGTERM)
        until(lambda: not is_running(pids["receiver"]))
        assert is_running(pids["worker"])
        os.kill(pids["worker"], signal.SIGCONT)
        assert up.wait(15) == 0
    assert "killing" not in log(tmp_path)
    assert 'stopping; again to kill action=stop programs="receiver, worker"' in log(tmp_path)


def test_up_killed_takes_its_programs_along(tmp_path: Path) -> None:
    with started(tmp_path, "up", **SETTINGS) as up:
        until(lambda: all(word in log(tmp_path) for word in WORKING))
        pids = children(up)
        up.kill()
        up.wait()
        until(lambda: not any(map(is_running, pids.values())))


def test_a_second_signal_kills(tmp_path: Path) -> None:
    with started(tmp_path, "up", **SETTINGS) as up:
        until(lambda: all(word in log(tmp_path) for word in WORKING))
        pids = children(up)
        os.kill(pids["worker"], signal.SIGSTOP)
        up.terminate()
        until(lambda: not is_running(pids["receiver"]))
        assert is_running(pids["worker"])
        time.sleep(0.5)
        up.terminate()
        assert up.wait(15) == 0
    assert not is_running(pids["worker"])


async def test_what_crashes_again_and_again_is_given_up(tmp_path: Path) -> None:
    crashing = Program(
        "crashing", [sys.executable, "-c", f"open('{tmp_path}/runs', 'a').write('x'); raise SystemExit(3)"]
    )
    lasting = Program("lasting", [sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(GaveUp, match="crashing has crashed 3 times in a row; the last time with exit code 3"):
        await supervise([lasting, crashing], Patience(crashes=3, first_delay=0.01))
    assert (tmp_path / "runs").read_text() == "xxx"


def test_each_restart_waits_twice_as_long_up_to_a_bound() -> None:
    assert [Patience().delay(crashes) for crashes in range(1, 7)] == [0.5, 1, 2, 4, 8, 8]


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    run(tmp_path, "db", "migrate")
    reading, writing = os.pipe()
    os.close(reading)
    listed = subprocess.Popen(
        command("execution", "list"),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    _, err = listed.communicate(timeout=30)
    assert (listed.returncode, err) == (141, "")


def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    run(tmp_path, "db", "migrate")
    with Path("/dev/full").open("w") as full:
        listed = subprocess.run(
            command("execution", "list"),
            cwd=tmp_path,
            env=environment(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert listed.returncode == 1
    assert listed.stderr.startswith("wakegate: ")
    assert listed.stderr.count("\n") == 1
