"""Lines: a process's way into the store, on which commits can be held up or refused, and their answers lost.

All of it happens in the event loop's own thread, so that a history repeats exactly; what comes in one turn of the loop
is committed together.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from model.jobs import Fate, present

from wakegate_schema.store import StoreUnavailable
from wakegate_schema.store.group_commit import GroupCommit, Verb
from wakegate_schema.store.reader import Reader

_T = TypeVar("_T")
_R = TypeVar("_R")


class Writer(GroupCommit):
    """The real group commit, without its thread."""

    next = Fate.GO
    """What becomes of the next commit that belongs to no job."""

    async def do(self, verb: Verb[_T, _R], item: _T) -> _R:
        """Commit, whatever the fate; a job's late words and its leases' upkeep are never stopped."""
        job = present()
        commit = super().do
        if job is None:
            fate, self.next = self.next, Fate.GO
        elif asyncio.current_task() is job.task or job.name == "claim":
            fate = await job.stop(f"commit {getattr(verb, '__name__', '')}")
        else:
            fate = Fate.GO
        return await _under(fate, lambda: commit(verb, item))

    async def close(self) -> bool:
        """Let go of the file."""
        self._closed = True
        self._engine.close()
        return True

    def _begin(self) -> None:
        asyncio.get_running_loop().call_soon(self._here)

    def _here(self) -> None:
        if not self._waiting.empty():
            self._waiting.put(None)
            self._run()

    def _end(self) -> None:
        """Keep the connection for the next batch."""


class BlindReader(Reader):
    """The real reader, without its thread; a blinded job's reading fails."""

    async def read(self, verb: Callable[..., _R], *args: Any, **kwargs: Any) -> _R:
        """Read, or not."""
        job = present()
        if job is not None and job.blind:
            raise StoreUnavailable("it cannot be read")
        return await super().read(verb, *args, **kwargs)

    async def close(self) -> None:
        """Let go of the database."""
        await super().close()
        self._session.close()

    def _submit(self, call: Callable[[], _R]) -> "Future[_R]":
        """Do it at once, in the same thread."""
        done: Future[_R] = Future()
        try:
            done.set_result(call())
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            done.set_exception(error)
        return done


async def _under(fate: Fate, commit: Callable[[], Awaitable[_T]]) -> _T:
    if fate is Fate.REFUSED:
        raise StoreUnavailable("nothing was committed")
    answer = await commit()
    if fate is not Fate.GO:
        raise StoreUnavailable("the answer is lost")
    return answer
