"""Jobs: what somebody does, stopped before every word it says to others, so that anything may happen in between."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from enum import StrEnum
from typing import Any


class Fate(StrEnum):
    """What becomes of a word that was stopped."""

    GO = "go"
    """It is said and answered."""
    REFUSED = "refused"
    """It does not arrive, and whoever said it learns that it failed."""
    LOST = "lost"
    """It arrives and has its effect, and its answer is lost."""
    BLIND = "blind"
    """As lost, and nothing can be read either until the next word."""


class Job:
    """One task that runs from stop to stop. One that is never let on is a process that died, or sleeps."""

    def __init__(self, name: str, process: str, subject: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Take what it is called, whose it is, the execution it is about, and what it does; `begin` starts it."""
        self.name = name
        self.process = process
        self.subject = subject
        self.at = "begin"
        """The word it is stopped before."""
        self.dead = False
        self.blind = False
        self.lease_number = 0
        """Of the lease it works under, if it does."""
        self._work = work
        self._still = asyncio.Event()
        self._fate: asyncio.Future[Fate] | None = None
        self.task: asyncio.Task[Any] | None = None

    def __repr__(self) -> str:
        return f"<{self.name} by {self.process} of {self.subject[-2:]} before {self.at!r}>"

    @property
    def done(self) -> bool:
        """Whether it came to its end."""
        return self.task is not None and self.task.done()

    async def begin(self) -> None:
        """Run to the first stop, or to the end."""
        token = _present.set(self)
        try:
            self.task = asyncio.get_running_loop().create_task(self._work())
        finally:
            _present.reset(token)
        self.task.add_done_callback(lambda _: self._still.set())
        await self._still.wait()

    async def go(self, fate: Fate = Fate.GO) -> None:
        """Let the word be said, with this fate, and run to the next stop, or to the end."""
        if self.done or self._fate is None:
            return
        self._still.clear()
        waiting, self._fate = self._fate, None
        waiting.set_result(fate)
        await self._still.wait()

    async def finish(self) -> None:
        """Run to the end, undisturbed."""
        while not self.done:
            await self.go()

    async def stop(self, word: str) -> Fate:
        """Wait, before a word, to be let on."""
        self.at, self.blind = word, False
        self._fate = asyncio.get_running_loop().create_future()
        self._still.set()
        fate = await self._fate
        self.blind = fate is Fate.BLIND
        return fate


_present: ContextVar[Job | None] = ContextVar("job", default=None)


def present() -> Job | None:
    """The job that does what is done now, if one does."""
    return _present.get()


async def stop(word: str) -> Fate:
    """Stop the present job before a word; what belongs to none goes on."""
    job = _present.get()
    return Fate.GO if job is None else await job.stop(word)
