"""Times: the hosts' clocks, and the epochs of a store that may have gone back."""

from wakegate_schema.records import (
    ClockMark,
    ClockReset,
    Epoch,
    Execution,
    PutOff,
)
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import (
    clocks,
    epochs,
)


class Times(Part):
    """See the module."""

    async def mark_clock(self, host: str, at: int) -> int:
        """Raise this host's highest wall clock reading to `at`; return the highest before that (µs, 0 for none)."""
        return await self._writer.do(clocks.mark, (host, at))

    async def clock_marks(self) -> list[ClockMark]:
        """Return every host's mark, the highest first."""
        return await self._reader.read(clocks.marks)

    async def clock_resets(self) -> list[ClockReset]:
        """Return every reset of a mark, oldest first."""
        return await self._reader.read(clocks.resets)

    async def reset_clock(self, host: str, actor: str, at: int) -> ClockReset | None:
        """Lower the host's mark to `at`, the right time, and keep for good who did. None when it is not ahead of that.

        Raises `NotFound` for a host without a mark.
        """
        return await self._writer.do(clocks.reset, (host, actor, at))

    async def bring_forward(self, at: int, resume: PutOff | None = None, limit: int = 500) -> PutOff | None:
        """Make due what a clock that was ahead has put off for more than an hour from `at`, the right time.

        No lease, hold or wake lasts or waits that long by itself; looks do, and looking early is harmless. One
        bounded step: returns where the next one resumes, or None when nothing is left.
        """
        left = await self._writer.do(clocks.bring_forward, (at, resume, limit))
        self._ringer.ring()
        return left

    async def epoch(self) -> Epoch:
        """Return the present epoch."""
        return await self._reader.read(epochs.present)

    async def raise_epoch(self, reason: str, actor: str, at: int) -> Epoch:
        """Begin the next epoch, because the store may have gone back in time.

        In the same commit every unstarted execution is held as `older_epoch`, and every lease is void: what is
        started goes in doubt with the next sweep. Cancels, holds and lapses go on.
        """
        return await self._writer.do(epochs.begin, (reason, actor, at))

    async def release_held(self, execution_id: str, *, actor: str, note: str | None, at: int) -> Execution:
        """Bring an execution of an older epoch into the present one, due now. It may run, and may have run before.

        Kept as a transition from its state to itself. Raises `NotFound`, or `NotAllowed` when nothing holds it.
        """
        released = await self._writer.do(epochs.release, (execution_id, actor, note, at))
        self._ringer.ring()
        return released

    async def held_executions(self, after: int = 0, limit: int = 500) -> list[tuple[int, Execution]]:
        """Return a page of executions that wait for a release, with their row numbers, oldest first."""
        return await self._reader.read(epochs.held, after, limit)
