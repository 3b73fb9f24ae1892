"""Wake programs: what a target's program is run with, and what its end means (docs/wakes.md, "Programs")."""

import asyncio
import contextlib
import json
import os
import pwd
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from wakegate_schema import fault_points
from wakegate_schema.wake_targets import WakeTarget
from wakegate_worker import resume_entry, wake_entry, wake_keeper
from wakegate_worker.log import log

AT_ONCE: Final = 4
"""How many programs of one target run at once, in one worker."""
GRACE_S: Final = 10.0
"""Seconds after a program's time in which its keeper has told of it, or is killed itself."""
TAIL: Final = 1000
"""Characters of standard error that are logged, at most."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WAKE_ID: Final = "WAKEGATE_WAKE_ID"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    problem: str | None
    """A machine word; None when it has acknowledged the wake."""
    detail: str | None = field(default=None, repr=False)
    """The end of what it wrote to standard error, as one printable line; for the log, never for the store."""


@dataclass(frozen=True, slots=True)
class Program:
    """What is run, and how."""

    kind: str
    """`command`, `python` or `resumer`."""
    name: str
    """Of the target, or of the framework."""
    argv: tuple[str, ...] = field(repr=False)
    directory: str
    """Where it runs."""
    timeout: float
    """Seconds that it may take before it is killed."""


def of_target(target: WakeTarget) -> Program:
    """Return the program of a wake target that runs one."""
    argv = target.argv if target.kind == "command" else _python(wake_entry, target.entry_point or "", target.directory)
    return Program(target.kind, target.name, argv, _absolute(target.directory) or "/", target.timeout)


def of_resumer(framework: str, entry_point: str, directory: Path | None, timeout: float) -> Program:
    """Return the program that resumes a framework's runs by what an entry point returns."""
    argv = _python(resume_entry, entry_point, directory)
    return Program("resumer", framework, argv, _absolute(directory) or "/", timeout)


class NotHeld(Exception):
    """A program was ended because it was held no longer."""


class Hold:
    """Until when a program may run, on this system's monotonic clock: its keeper ends it then, asked or not."""

    def __init__(self, until: float) -> None:
        """Take the first end, in seconds."""
        self.until = until
        self._keeper: asyncio.StreamWriter | None = None

    def lengthen(self, until: float) -> None:
        """Let it run until then."""
        self.until = until
        if self._keeper is not None and not self._keeper.is_closing():
            self._keeper.write(b"%r\n" % until)

    def tell(self, keeper: asyncio.StreamWriter) -> None:
        """Tell a keeper from now on; it has its message."""
        self._keeper = keeper
        self.lengthen(self.until)


async def run(program: Program, wake_id: str, message: bytes, hold: Hold | None = None) -> Ended:
    """Run a program for one wake, in a process without anything of this one, and say how it ended.

    Cancelled, it ends the program first.

    Args:
        program: what to run.
        wake_id: what the program finds in `WAKEGATE_WAKE_ID`.
        message: its standard input.
        hold: until when it may run, whatever its own time is.

    Raises:
        NotHeld: it was ended because it was held no longer.
    """
    try:
        await fault_points.passing("wake.begin", program.kind)
        keeper = await asyncio.create_subprocess_exec(
            *_keeper(program, hold), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, env=environment(wake_id), cwd="/", start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        return Ended("program_not_started", error.strerror)
    except UnicodeEncodeError:
        return Ended("program_not_started", "this locale cannot name it")
    try:
        async with asyncio.timeout(program.timeout + GRACE_S):
            report = await _report(keeper, message, hold)
            if report.get("ended") == "not_held":
                raise NotHeld
            await fault_points.passing("wake.end", program.kind)
    except TimeoutError:
        return Ended("timeout")
    finally:
        await _let_go(keeper)
    return _judge(program, report)


def environment(wake_id: str) -> dict[str, str]:
    """Return all that a program finds in its environment."""
    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        home = "/"
    return {"PATH": PATH, "LANG": "C.UTF-8", "HOME": home, WAKE_ID: wake_id}


def tell_of_missing(targets: Iterable[WakeTarget]) -> None:
    """Warn of programs that are not there: the worker does everything else meanwhile."""
    for target in targets:
        if target.kind == "command" and not os.access(target.argv[0], os.X_OK):
            log.warning(
                "the program of a wake target is not there, or this user may not run it",
                action="wake",
                target=target.name,
                problem="program_not_started",
            )


def _keeper(program: Program, hold: Hold | None) -> list[str]:
    seconds, held = f"{program.timeout}", "inf" if hold is None else f"{hold.until}"
    return [sys.executable, "-I", "-S", _script(wake_keeper), seconds, held, program.directory, *program.argv]


def _python(script: Any, entry_point: str, directory: Path | None) -> tuple[str, ...]:
    return sys.executable, "-P", _script(script), entry_point, _absolute(directory)


def _absolute(directory: Path | None) -> str:
    return "" if directory is None else str(directory.absolute())


def _script(module: Any) -> str:
    return str(Path(module.__file__).absolute())


async def _report(keeper: asyncio.subprocess.Process, message: bytes, hold: Hold | None) -> dict[str, Any]:
    """Hand the message over and return what the keeper tells; nothing if it was killed."""
    if keeper.stdin is None or keeper.stdout is None:
        return {}
    with contextlib.suppress(ConnectionError):
        keeper.stdin.write(b"%d\n%b" % (len(message), message))
        await keeper.stdin.drain()
        if hold is not None:
            hold.tell(keeper.stdin)
    try:
        report = json.loads(await keeper.stdout.readline())
    except ValueError:
        return {}
    return report if isinstance(report, dict) else {}


async def _let_go(keeper: asyncio.subprocess.Process) -> None:
    """Close the keeper's input, at which it ends whatever still runs, and wait until it is gone."""
    if keeper.stdin is not None:
        keeper.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        keeper.send_signal(signal.SIGCONT)  # its program may have stopped it; killed, it would leave others behind
    try:
        async with asyncio.timeout(2 * wake_keeper.END_S):
            await keeper.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            keeper.kill()
        await keeper.wait()


def _judge(program: Program, report: dict[str, Any]) -> Ended:
    if report.get("left"):
        log.warning("a wake program has left processes that cannot be ended", action="wake", target=program.name)
    detail = _one_line(str(report.get("stderr", "")))
    status = report.get("status")
    match report.get("ended"):
        case "exited" if status == 0:
            return Ended(None)
        case "exited" if program.kind != "command" and status == wake_entry.NOT_FOUND:
            return Ended("entry_point_missing", detail)
        case "exited" if program.kind != "command" and status == wake_entry.RAISED:
            return Ended("entry_point_raised", detail)
        case "exited":
            return Ended(f"exit_{status}", detail)
        case "killed":
            return Ended(f"signal_{status}", detail)
        case "not_started":
            return Ended("program_not_started", detail)
        case "timeout":
            return Ended("timeout", detail)
    return Ended("keeper_lost", detail)


def _one_line(text: str) -> str | None:
    line = "".join(character if character.isprintable() else " " for character in text)
    return " ".join(line.split())[-TAIL:] or None
