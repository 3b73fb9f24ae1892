"""A service: one process of the soak, started again whenever it has ended, and never ended but by its own id."""

import asyncio
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from soak.journal import Journal

WORKS = (b'"action": "ready"', b'"action": "listening"')
"""What a worker, a receiver or a provider logs once it works."""
RESTART_S = 0.5
"""How long after it ended by itself a service is started again, in seconds."""
STOP_S = 20.0
"""How long a service may take to end when it is told to."""


class Service:
    """One process with a name. What ends it, whether that was meant and whether it has worked, is in the journal."""

    def __init__(
        self, name: str, command: Sequence[str], environment: Mapping[str, str], folder: Path, journal: Journal
    ) -> None:
        """Take what to run, in which environment, where it logs, and the journal."""
        self.name = name
        self._command = command
        self._environment = environment
        self._folder = folder
        self._log = folder / f"{name}.log"
        self._journal = journal
        self._process: asyncio.subprocess.Process | None = None
        self._watching: asyncio.Task[None] | None = None
        self._wanted = False
        self._log_begins = 0
        self._works = False
        self._meant: set[int] = set()
        self._paused = False

    @property
    def role(self) -> str:
        """What it is, whichever of its kind."""
        return self.name.partition("-")[0]

    @property
    def runs(self) -> bool:
        """Whether its process is there, whatever it does."""
        return self._process is not None and self._process.returncode is None

    @property
    def works(self) -> bool:
        """Whether this life has come to work, by its part of the log; a harness works from the first."""
        if not self._works:
            with self._log.open("rb") as log:
                log.seek(self._log_begins)
                said = log.read()
            self._works = self.role == "harness" or any(word in said for word in WORKS)
        return self._works

    async def start(self) -> None:
        """Start it, and from now on whenever it ends by itself."""
        self._wanted = True
        with self._log.open("ab") as log:
            self._log_begins, self._works = log.tell(), False
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                cwd=self._folder,
                env=self._environment,
                process_group=0,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._journal.note(event="start", service=self.name, pid=self._process.pid)
        self._watching = asyncio.create_task(self._watch(self._process))

    async def end(self, how: signal.Signals) -> None:
        """End it by SIGKILL or SIGTERM and wait until it has ended; it stays down until `start`."""
        self._wanted = False
        process = self._process
        if process is None or process.returncode is not None:
            await self._watched()
            return
        self._meant.add(process.pid)
        self._journal.note(event=how.name, service=self.name, pid=process.pid)
        self._send(how)
        if self._paused:
            self.go_on()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            self._journal.note(event="does_not_stop", service=self.name, pid=process.pid)
            self._send(signal.SIGKILL)
            await process.wait()
        await self._watched()

    def pause(self) -> None:
        """Stop it where it is."""
        self._paused = True
        self._note_signal(signal.SIGSTOP)
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let a paused one go on."""
        self._paused = False
        self._send(signal.SIGCONT)
        self._note_signal(signal.SIGCONT)

    def _note_signal(self, what: signal.Signals) -> None:
        if self._process is not None:
            self._journal.note(event=what.name, service=self.name, pid=self._process.pid)

    def _send(self, what: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(what)

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        meant = process.pid in self._meant
        self._journal.note(event="end", service=self.name, pid=process.pid, code=code, meant=meant, worked=self.works)
        if self._wanted and not meant:
            await asyncio.sleep(RESTART_S)
            if self._wanted:
                await self.start()

    async def _watched(self) -> None:
        if self._watching is not None and self._watching is not asyncio.current_task():
            await asyncio.wait({self._watching})
