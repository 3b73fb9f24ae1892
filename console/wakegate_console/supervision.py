"""Supervision: several programs run together; what crashes is started again, and a stop stops them all."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from wakegate_console.child import LAST_WORDS
from wakegate_console.faults import CannotStart
from wakegate_schema.errors import WakegateError
from wakegate_schema.signals import spaced

USAGE = 2
"""The exit code of a program that cannot start with these settings: no restart will help."""

WORDS_LIMIT = 65_536
"""Bytes that are read of what a program said last: what a pipe holds."""

log = structlog.get_logger()


class GaveUp(WakegateError):
    """A program that is supervised will not run."""

    reason = "gave_up"


@dataclass(frozen=True, slots=True)
class Program:
    """A program to keep running."""

    name: str
    command: Sequence[str]


@dataclass(frozen=True, slots=True)
class Patience:
    """How often, and after how long, a crashed program is started again. Times in seconds."""

    crashes: int = 5
    """So many crashes in a row, and it is given up."""
    first_delay: float = 0.5
    longest_delay: float = 8.0
    steady_after: float = 60.0
    """Having run so long, a program's earlier crashes are forgotten."""

    def delay(self, crashes: int) -> float:
        """Return the seconds to wait after so many crashes in a row; each time twice as long."""
        return min(self.first_delay * 2.0 ** (crashes - 1), self.longest_delay)


async def supervise(programs: Sequence[Program], patience: Patience | None = None) -> None:
    """Run the programs until SIGTERM or SIGINT; the first is passed on to them, a later second one kills them.

    Raises:
        CannotStart: one of them said that it cannot; the others were stopped first.
        GaveUp: one of them crashes again and again; the others were stopped first.
    """
    stop = _Stop()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    asked = spaced(stop.ask)
    for number in signals:
        loop.add_signal_handler(number, asked)
    keepers = [asyncio.create_task(_keep(program, patience or Patience(), stop)) for program in programs]
    try:
        await asyncio.wait(keepers, return_when=asyncio.FIRST_COMPLETED)
        stop.begin()
        results = await asyncio.gather(*keepers, return_exceptions=True)
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
    for result in results:
        if isinstance(result, BaseException):
            raise result


class _Stop:
    """That all shall stop, and how urgently."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._running: dict[str, asyncio.subprocess.Process] = {}

    def ask(self) -> None:
        """Stop the programs; asked again, kill them."""
        if self.asked.is_set():
            log.warning("killing", action="kill", programs=", ".join(self._running))
            self._send(lambda process: process.kill())
        else:
            log.info("stopping; again to kill", action="stop", programs=", ".join(self._running))
        self.begin()

    def begin(self) -> None:
        """Stop the programs, if that was not begun yet."""
        if not self.asked.is_set():
            self.asked.set()
            self._send(lambda process: process.terminate())

    def started(self, name: str, process: asyncio.subprocess.Process) -> None:
        """Take note of a running program, and stop it at once if that is what is wanted."""
        self._running[name] = process
        if self.asked.is_set():
            process.terminate()

    def ended(self, name: str) -> None:
        """A program has ended: its process id may be another's soon."""
        del self._running[name]

    async def during(self, seconds: float) -> bool:
        """Wait; return whether a stop was asked for meanwhile."""
        try:
            await asyncio.wait_for(self.asked.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def _send(self, act: Callable[[asyncio.subprocess.Process], None]) -> None:
        for process in self._running.values():
            if process.returncode is None:
                act(process)


async def _keep(program: Program, patience: Patience, stop: _Stop) -> None:
    """Run one program, again after every crash, until a stop or until patience ends."""
    loop = asyncio.get_running_loop()
    crashes = 0
    while True:
        began = loop.time()
        code, words = await _run(program, stop)
        if stop.asked.is_set():
            log.info("ended", action="ended", program=program.name, code=code)
            return
        crashes = 1 if loop.time() - began >= patience.steady_after else crashes + 1
        if code == USAGE:
            said = words or ["cannot start; its own message is above"]
            raise CannotStart("\n".join(f"{program.name}: {line}" for line in said))
        if crashes >= patience.crashes:
            times = f"has crashed {crashes} times in a row; the last time with {_ending(code)}"
            raise GaveUp("\n".join([f"{program.name} {times}", *(f"{program.name}: {line}" for line in words)]))
        delay = patience.delay(crashes)
        log.error(
            "crashed", action="restart", program=program.name, ending=_ending(code), crashes=crashes, delay_s=delay
        )
        if await stop.during(delay):
            return


async def _run(program: Program, stop: _Stop) -> tuple[int, list[str]]:
    """Run a program once, in a process group of its own: a terminal's Ctrl-C reaches it only through us.

    Returns:
        Its exit code, and the lines of its error, where it has told us of one.
    """
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *program.command,
                process_group=0,
                pass_fds=(writing,),
                env=os.environ | {LAST_WORDS: str(writing)},
            )
        finally:
            os.close(writing)
        log.info("started", action="start", program=program.name, pid=process.pid)
        stop.started(program.name, process)
        try:
            code = await process.wait()
        finally:
            stop.ended(program.name)
        return code, _heard(reading)
    finally:
        os.close(reading)


def _heard(pipe: int) -> list[str]:
    """Return the lines in the pipe: what a program that has ended had to say fits in there."""
    try:
        return os.read(pipe, WORDS_LIMIT).decode("utf-8", "replace").splitlines()
    except BlockingIOError:
        return []


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
