"""Supervision: several programs run together; what crashes is started again, and a stop stops them all."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from wakegate_console.child import LAST_WORDS, READY
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
    announces: bool = False
    """Whether it says that it is ready, by the pipe for its last words; the next one is started only then."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that it has beside this process's."""
    descriptors: tuple[int, ...] = ()
    """Open files that it inherits, each time it is started."""


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


async def supervise(
    programs: Sequence[Program],
    patience: Patience | None = None,
    *,
    ready: Callable[[], None] = lambda: None,
    stopping: Callable[[], None] = lambda: None,
) -> None:
    """Run the programs until SIGTERM or SIGINT; the first is passed on to them, a later second one kills them.

    They are started in turn, each when the one before is ready.

    Args:
        programs: what is run.
        patience: how crashes are borne.
        ready: called once all of those that announce it are ready.
        stopping: called once the stop has begun, before anybody has ended.

    Raises:
        CannotStart: one of them said that it cannot; the others were stopped first.
        GaveUp: one of them crashes again and again; the others were stopped first.
    """
    stop = _Stop(stopping)
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    asked = spaced(stop.ask)
    for number in signals:
        loop.add_signal_handler(number, asked)
    try:
        keepers = await _start(programs, patience or Patience(), stop)
        if len(keepers) == len(programs) and not stop.asked.is_set() and not any(keeper.done() for keeper in keepers):
            ready()
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

    def __init__(self, stopping: Callable[[], None]) -> None:
        self.asked = asyncio.Event()
        self._stopping = stopping
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
            self._stopping()
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


async def _start(programs: Sequence[Program], patience: Patience, stop: _Stop) -> list[asyncio.Task[None]]:
    """Start the programs in turn, as far as it comes: no more once a stop was asked for or one has ended for good."""
    keepers: list[asyncio.Task[None]] = []
    for program in programs:
        ready = asyncio.Event()
        keepers.append(asyncio.create_task(_keep(program, patience, stop, ready)))
        if program.announces:
            waits = [asyncio.create_task(event.wait()) for event in (ready, stop.asked)]
            await asyncio.wait([*waits, *keepers], return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
            if stop.asked.is_set() or any(keeper.done() for keeper in keepers):
                break
    return keepers


async def _keep(program: Program, patience: Patience, stop: _Stop, ready: asyncio.Event) -> None:
    """Run one program, again after every crash, until a stop or until patience ends; tell when it was ready once."""
    loop = asyncio.get_running_loop()
    crashes = 0
    while not stop.asked.is_set():
        began = loop.time()
        code, words = await _run(program, stop, ready)
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


async def _run(program: Program, stop: _Stop, ready: asyncio.Event) -> tuple[int, list[str]]:
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
                pass_fds=(writing, *program.descriptors),
                env={**os.environ, **program.environment, LAST_WORDS: str(writing)},
            )
        finally:
            os.close(writing)
        log.info("started", action="start", program=program.name, pid=process.pid)
        stop.started(program.name, process)
        ear = _Ear(reading, ready)
        try:
            code = await process.wait()
        finally:
            stop.ended(program.name)
            ear.close()
        return code, ear.last_words()
    finally:
        os.close(reading)


class _Ear:
    """Hears a program by its pipe: its first line at once, which may say that it is ready; the rest when it has ended.

    Until then the rest stays in the pipe: what a program has to say fits in there.
    """

    def __init__(self, pipe: int, ready: asyncio.Event) -> None:
        self._pipe = pipe
        self._ready = ready
        self._heard = b""
        asyncio.get_running_loop().add_reader(pipe, self._listen)

    def close(self) -> None:
        """Wait for no first line any more."""
        asyncio.get_running_loop().remove_reader(self._pipe)

    def last_words(self) -> list[str]:
        """Return the lines that a program that has ended has said, but for its being ready."""
        self._read()
        lines = self._heard.decode("utf-8", "replace").splitlines()
        return lines[1:] if lines[:1] == [READY] else lines

    def _listen(self) -> None:
        more = self._read()
        if not more or b"\n" in more:
            self.close()
        if self._heard.startswith(f"{READY}\n".encode()):
            self._ready.set()

    def _read(self) -> bytes:
        try:
            more = os.read(self._pipe, WORDS_LIMIT)
        except BlockingIOError:
            return b""
        self._heard += more
        return more


def _ending(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
