"""The programs of wakes, as real processes: what they are given, what they cannot reach, and how each of them ends."""

import asyncio
import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from support.wake_programs import children, command, entry, gone, open_descriptors, parent, program, shell, written
from wakegate_schema.wake_targets import WakeTarget
from wakegate_worker import wake_programs
from wakegate_worker.wake_programs import TAIL, Ended, Hold, NotHeld, run

WAKE_ID = "89dce729-b9ed-42b2-931b-235edea41308_6"
MESSAGE = b'{"type": "execution.resolved", "data": {"key": "run-7"}}'

LOOK = """\
import json, os, sys
found = {
    "environment": dict(os.environ),
    "descriptors": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
                    if os.path.exists(f"/proc/self/fd/{fd}")},
    "directory": os.getcwd(),
    "leads": [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
    "blocked": [number for number in range(1, 32) if number not in (9, 19)
                and __import__("signal").getsignal(number) == __import__("signal").SIG_IGN and number not in (13, 25)],
    "argv": sys.argv[1:],
}
with open(sys.argv[1], "w") as file:
    json.dump(found, file)
"""


async def of(target: WakeTarget, message: bytes = MESSAGE) -> Ended:
    """Run a target's program."""
    return await run(wake_programs.of_target(target), WAKE_ID, message)


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 0", None),
        ("exit 1", "exit_1"),
        ("exit 255", "exit_255"),
        ("kill -TERM $$", "signal_15"),
        ("kill -KILL $$", "signal_9"),
        ("kill -SEGV $$", "signal_11"),
    ],
)
async def test_only_exit_code_0_acknowledges(script: str, problem: str | None) -> None:
    assert (await of(shell(f"cat > /dev/null; {script}"))).problem == problem


async def test_the_message_is_on_standard_input_and_the_id_in_the_environment(tmp_path: Path) -> None:
    body, name = tmp_path / "body", tmp_path / "name"
    large = json.dumps({"data": "x" * 1_000_000}).encode()
    ended = await of(shell('cat > "$1"; printf %s "$WAKEGATE_WAKE_ID" > "$2"', body, name), large)
    assert ended == Ended(None)
    assert (body.read_bytes(), name.read_text()) == (large, WAKE_ID)


async def test_arguments_are_handed_on_as_they_are_without_a_shell(tmp_path: Path) -> None:
    target = program(tmp_path, LOOK, str(tmp_path / "found"), "$HOME; touch /tmp/x", "two words", "", "*")
    assert (await of(target)).problem is None
    found = json.loads((tmp_path / "found").read_text())
    assert found["argv"][1:] == ["$HOME; touch /tmp/x", "two words", "", "*"]


async def test_a_program_finds_nothing_of_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting, no credential, no file that is open: not by accident either."""
    for name in ("WAKEGATE_DATABASE", "WAKEGATE_WORKER_KEY_FILE", "CREDENTIALS_DIRECTORY", "PYTHONPATH", "SECRET"):
        monkeypatch.setenv(name, "planted")
    secret = tmp_path / "secret"
    secret.write_text("planted")
    kept = os.open(secret, os.O_RDONLY)
    os.set_inheritable(kept, True)
    try:
        assert (await of(program(tmp_path, LOOK, str(tmp_path / "found")))).problem is None
    finally:
        os.close(kept)
    found = json.loads((tmp_path / "found").read_text())
    assert found["environment"] == wake_programs.environment(WAKE_ID)
    assert set(found["environment"]) == {"PATH", "LANG", "HOME", "WAKEGATE_WAKE_ID"}
    assert "planted" not in json.dumps(found)
    opened = {fd: what for fd, what in found["descriptors"].items() if not what.startswith("/proc/")}
    assert set(opened) == {"0", "1", "2"}
    assert opened["1"] == "/dev/null"
    assert found["directory"] == "/"
    assert found["leads"] == [True, True]
    assert found["blocked"] == []


async def test_a_program_runs_in_the_directory_that_is_named(tmp_path: Path) -> None:
    await of(command("/bin/sh", "-c", "pwd > here", directory=tmp_path))
    assert (tmp_path / "here").read_text() == f"{tmp_path}\n"


@pytest.mark.parametrize(
    ("argv", "directory", "said"),
    [
        (("/nothing/there",), None, "the program: No such file or directory"),
        (("/etc",), None, "the program: Permission denied"),
        (("/bin/true",), Path("/nothing/there"), "its directory: No such file or directory"),
    ],
)
async def test_what_cannot_be_started_is_told_with_the_reason(
    argv: tuple[str, ...], directory: Path | None, said: str
) -> None:
    assert await of(command(*argv, directory=directory)) == Ended("program_not_started", said)


async def test_a_program_that_hangs_is_killed_at_its_time(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    ended = await of(shell("trap '' TERM INT HUP; echo $$ > \"$1\"; while :; do sleep 1; done", pid, timeout=3.0))
    assert ended.problem == "timeout"
    assert time.monotonic() - began < 20
    assert await gone(int(pid.read_text()))


@pytest.mark.parametrize("leave", ["exit 0", "exit 5", "sleep 600"])
async def test_nothing_that_a_program_has_started_outlives_it(tmp_path: Path, leave: str) -> None:
    """Not a grandchild that holds its pipes, nor one in a session of its own whose parent has gone."""
    plain, daemon = tmp_path / "plain", tmp_path / "daemon"
    script = (
        'sh -c \'echo $$ > "$1"; sleep 600\' x "$1" & '
        '(setsid sh -c \'trap "" TERM; echo $$ > "$1"; sleep 600\' x "$2" &) ; '
        f'while [ ! -s "$1" ] || [ ! -s "$2" ]; do sleep 0.01; done; {leave}'
    )
    began = time.monotonic()
    ended = await of(shell(script, plain, daemon, timeout=5.0 if leave == "sleep 600" else 60.0))
    assert ended.problem == {"exit 0": None, "exit 5": "exit_5", "sleep 600": "timeout"}[leave]
    assert time.monotonic() - began < 40
    for path in (plain, daemon):
        assert await gone(int(path.read_text()))


async def test_output_without_end_is_taken_and_not_kept() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ended = await of(shell("head -c 100000000 /dev/zero; head -c 100000000 /dev/zero >&2; echo the end >&2; exit 9"))
    assert ended.problem == "exit_9"
    assert ended.detail is not None
    assert ended.detail.endswith("the end")
    assert len(ended.detail) <= TAIL
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


async def test_what_is_logged_of_standard_error_is_one_printable_line() -> None:
    ended = await of(shell("printf 'a\\033[31mred\\nb\\377\\0c\\n' >&2; exit 1"))
    assert ended.detail is not None
    assert ended.detail.isprintable()
    assert "red" in ended.detail
    assert "red" not in repr(ended)


async def test_a_program_need_not_read_what_it_is_given() -> None:
    assert await of(shell("exit 0"), b"x" * 2_000_000) == Ended(None)
    assert (await of(shell("exec 0<&-; exit 4"), b"x" * 2_000_000)).problem == "exit_4"


async def test_a_program_is_ended_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    waiting = asyncio.ensure_future(of(shell('echo $$ > "$1"; sleep 600', pid)))
    number = int(await written(pid))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await gone(number)


async def test_a_program_dies_with_its_keeper(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    waiting = asyncio.ensure_future(of(shell('echo $$ > "$1"; exec sleep 600', pid)))
    number = int(await written(pid))
    os.kill(parent(number), signal.SIGKILL)
    assert await waiting == Ended("keeper_lost")
    assert await gone(number)


BEHIND = '(setsid sh -c \'echo $$ > "$1"; exec sleep 600\' x "$1" &); exec sleep 600'
"""What has a child in a session of its own, whose parent has gone."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
async def test_a_keeper_that_is_told_to_end_ends_what_it_keeps(tmp_path: Path, number: signal.Signals) -> None:
    pid = tmp_path / "pid"
    waiting = asyncio.ensure_future(of(shell(BEHIND, pid)))
    left = int(await written(pid))
    while (keeper := parent(left)) not in children(os.getpid()):  # until what is left behind has come to it
        await asyncio.sleep(0.01)
    os.kill(keeper, number)
    assert (await waiting).problem == "keeper_lost"
    assert await gone(left)


async def test_a_keeper_that_hangs_is_ended_by_the_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it keeps: a program that stops its keeper gains nothing by it."""
    monkeypatch.setattr(wake_programs, "GRACE_S", 0.5)
    pid = tmp_path / "pid"
    waiting = asyncio.ensure_future(of(shell(f"kill -STOP $PPID; {BEHIND}", pid, timeout=2.0)))
    left = int(await written(pid))
    assert (await waiting).problem == "timeout"
    assert await gone(left)


async def test_what_the_locale_cannot_name_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake_programs, "_keeper", lambda *_: ["/bin/true", "\ud800"])
    assert (await of(shell("exit 0"))).problem == "program_not_started"


async def test_many_programs_leave_no_descriptor_open(tmp_path: Path) -> None:
    await of(shell("exit 0"))
    before = len(open_descriptors())
    await asyncio.gather(*(of(shell("exit 0")) for _ in range(6)), *(of(command("/nothing")) for _ in range(3)))
    await asyncio.sleep(0)
    assert len(open_descriptors()) <= before + 1


WOKEN = """\
import json, pathlib, sys
def woken(message):
    print("to nowhere")
    pathlib.Path("woken.json").write_text(json.dumps([message, "wakegate_worker" in sys.modules, sys.path[0]]))
async def woken_slowly(message):
    import asyncio
    await asyncio.sleep(0)
    woken(message)
"""

ODD = """\
class Named(type):
    @property
    def __name__(cls): raise ValueError("a token")
class Odd(ImportError, metaclass=Named):
    def __str__(self): raise ValueError("a token")
"""
"""An exception that cannot be told in the usual way."""


@pytest.mark.parametrize("function", ["woken", "woken_slowly"])
async def test_an_entry_point_is_called_with_the_message_and_acknowledges_by_returning(
    tmp_path: Path, function: str
) -> None:
    assert await of(entry(tmp_path, WOKEN, function)) == Ended(None)
    message, holds_the_worker, first = json.loads((tmp_path / "woken.json").read_text())
    assert message == json.loads(MESSAGE)
    assert not holds_the_worker
    assert first == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem", "said"),
    [
        ("def woken(m): raise ValueError('a token')", "entry_point_raised", "ValueError (agent.py, line 1)"),
        ("import sys\ndef woken(m): sys.exit(0)", "entry_point_raised", "SystemExit (agent.py, line 2)"),
        ("async def woken(m): raise KeyError('x')", "entry_point_raised", "KeyError (agent.py, line 1)"),
        ("def woken(): pass", "entry_point_raised", "TypeError"),
        ("def woken(m): yield", "entry_point_raised", "TypeError"),
        ("async def woken(m): yield", "entry_point_raised", "TypeError"),
        (f"{ODD}\ndef woken(m): raise Odd('a token')", "entry_point_raised", "Odd (agent.py"),
        (
            "import sys\nsys.stderr.close()\ndef woken(m): raise ValueError",
            "entry_point_raised",
            "ValueError (agent.py",
        ),
        (f"{ODD}\nraise Odd('a token')", "entry_point_missing", "Odd (agent.py"),
        ("raise ImportError('a token')", "entry_point_missing", "ImportError (agent.py, line 1)"),
        ("def other(m): pass", "entry_point_missing", "AttributeError: module 'agent' has no attribute 'woken'"),
        ("woken = 5", "entry_point_missing", "TypeError"),
        ("import nothing_there", "entry_point_missing", "ModuleNotFoundError: No module named 'nothing_there'"),
        ("def woken(", "entry_point_missing", "SyntaxError"),
        ("import sys; sys.exit(0)", "entry_point_missing", "SystemExit"),
        ("import os\ndef woken(m): os.kill(os.getpid(), 9)", "signal_9", None),
        ("import os\ndef woken(m): os._exit(7)", "exit_7", None),
    ],
)
async def test_an_entry_point_that_does_not_return_does_not_acknowledge(
    tmp_path: Path, text: str, problem: str, said: str | None
) -> None:
    ended = await of(entry(tmp_path, text))
    assert ended.problem == problem
    assert (ended.detail or "").startswith(said or "")
    assert "token" not in (ended.detail or "")


async def test_an_entry_point_that_loops_is_killed_at_its_time(tmp_path: Path) -> None:
    looping = "def woken(m):\n    while True: pass"
    assert (await of(entry(tmp_path, looping, timeout=1.0))).problem == "timeout"


async def test_a_thread_that_an_entry_point_leaves_behind_keeps_nobody_waiting(tmp_path: Path) -> None:
    text = "import threading, time\ndef woken(m): threading.Thread(target=time.sleep, args=(600,)).start()"
    assert await of(entry(tmp_path, text)) == Ended(None)


async def test_what_is_not_held_any_longer_is_ended_by_its_keeper(tmp_path: Path) -> None:
    """Nobody has to ask for it: the worker may be stopped itself."""
    hold = Hold(time.monotonic() + 60)
    target = shell(f"echo $$ > {tmp_path}/pid; sleep 600", timeout=600)
    running = asyncio.create_task(run(wake_programs.of_target(target), WAKE_ID, MESSAGE, hold))
    pid = int(await written(tmp_path / "pid"))
    hold.lengthen(time.monotonic() + 0.1)
    with pytest.raises(NotHeld):
        await running
    assert await gone(pid)


async def test_what_is_held_longer_runs_longer() -> None:
    hold = Hold(time.monotonic() + 60)
    target = shell("cat > /dev/null; sleep 0.5")
    running = asyncio.create_task(run(wake_programs.of_target(target), WAKE_ID, MESSAGE, hold))
    for _ in range(3):
        await asyncio.sleep(0.1)
        hold.lengthen(time.monotonic() + 60)
    assert (await running).problem is None
