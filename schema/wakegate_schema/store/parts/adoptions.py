"""Adoptions: requests that nobody saved here, and whose framework is resumed."""

from collections.abc import Sequence

from wakegate_schema.records import Adoption, AdoptionLease, RunEnd
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import adoptions


class Adoptions(Part):
    """See the module."""

    async def unmatched_wait(self) -> bool:
        """Return whether `adopt_unmatched` has anything to look through."""
        return await self._reader.read(adoptions.wait)

    async def adopt_unmatched(self, at: int, limit: int = 500) -> int:
        """Take one bounded step over the notifications that have come; adopt the requests that nobody saved here.

        Those of the last five seconds wait: an id may be attached yet. Returns how many it has passed; 0 when it is
        up to date.
        """
        return await self._writer.do(adoptions.adopt_unmatched, (at, limit))

    async def lease_adoptions(self, frameworks: Sequence[str], limit: int, at: int, until: int) -> list[Adoption]:
        """Lease up to `limit` adoptions that are due, each due again at `until`.

        Those of these frameworks, and those whose framework is not known yet; not while a run has their thread.
        """
        return await self._writer.do(adoptions.take, (tuple(frameworks), limit, at, until))

    async def adoption_learned(self, lease: AdoptionLease, framework: str, thread: str, at: int) -> bool:
        """Keep which thread of which framework waits; its notifications are handled with that.

        False when the lease was lost, or a call was saved here for the request meanwhile, which ends the adoption.
        """
        return await self._writer.do(adoptions.learned, (lease, framework, thread, at))

    async def adoption_run(self, lease: AdoptionLease, at: int, until: int) -> bool:
        """Take the thread until `until`, before a resumer is started. False when another run has it."""
        return await self._writer.do(adoptions.run, (lease, at, until))

    async def adoption_keep(self, lease: AdoptionLease, at: int, until: int) -> bool:
        """Keep the thread until `until`. False when it was lost: end the resumer."""
        return await self._writer.do(adoptions.keep, (lease, at, until))

    async def adoption_again(
        self, lease: AdoptionLease, due_at: int, problem: str | None, end: RunEnd | None = None
    ) -> bool:
        """Give lease and thread back and look again at `due_at`; `end` is how a run has ended, if one has.

        A `problem` counts as a try that brought nothing; a run that has ended without one clears both, and neither
        leaves both as they are. False when the lease was lost.
        """
        return await self._writer.do(adoptions.again, (lease, due_at, problem, end))

    async def adoption_ended(self, lease: AdoptionLease, reason: str, at: int) -> bool:
        """Do nothing more for it. False when the lease was lost."""
        return await self._writer.do(adoptions.ended, (lease, reason, at))

    async def adoption(self, provider: str, instance_id: str, request_id: str) -> Adoption | None:
        """Return the adoption of a request, if there is one."""
        return await self._reader.read(adoptions.one, provider, instance_id, request_id)

    async def latest_adoptions(self, before: int | None = None, limit: int = 500) -> list[tuple[int, Adoption]]:
        """Return a page of adoptions with their row numbers, the latest first, before row `before`."""
        return await self._reader.read(adoptions.latest, before, limit)

    async def resumers_wanted(self, at: int) -> dict[str, int]:
        """Return which frameworks owed adoptions name that no living worker can resume, and how many each."""
        return await self._reader.read(adoptions.resumers_wanted, at)
