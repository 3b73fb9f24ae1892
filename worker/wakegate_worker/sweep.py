"""The sweep: everything that only time tells of, found again from the store."""

import asyncio
import time
from collections.abc import Callable

from wakegate_schema.clock import DAY
from wakegate_schema.records import Instance
from wakegate_schema.store import Store
from wakegate_worker.log import log

LIMIT = 64
"""Rows of one kind that one sweep changes at most, so that it holds the turn for milliseconds; more are swept right
after."""
PRUNE_EVERY_S = 60.0
"""How often retention looks for what is over, in seconds."""
PRUNE_LIMIT = 64
"""Rows of one kind in one step of retention: as many as receivers write at once. Event ids are random, so each row is
a page of its own to read, change and log."""
WARN_EVERY_S = 3600.0
"""How often credentials are looked through, in seconds."""
WARN_AHEAD = 7 * DAY
"""How long before a credential expires it is warned of, in µs."""


class Sweep:
    """What is lost, lapsed, over or about to be."""

    def __init__(
        self,
        store: Store,
        *,
        retention_days: int,
        now: Callable[[], int],
        woken: asyncio.Event,
        doubted: asyncio.Event,
    ) -> None:
        """Take the store, the retention, the wall clock in µs, and what to set when wakes or probes are owed."""
        self._store = store
        self._retention = retention_days * DAY
        self._now = now
        self._woken = woken
        self._doubted = doubted
        self._warned: dict[tuple[str, str], int] = {}

    async def sweep(self) -> None:
        """Put started calls that fell silent in doubt, let approvals lapse and holds go."""
        full = True
        while full:
            swept = await self._store.sweep(self._now(), LIMIT)
            kinds = (swept.in_doubt, swept.lapsed, swept.abandoned)
            full = any(len(kind) >= LIMIT for kind in kinds)
            if not any(kinds):
                return
            for execution_id in swept.in_doubt:
                log.error("in doubt", action="sweep", execution_id=execution_id, reason="lease_lost")
            log.info("swept", action="sweep", in_doubt=len(kinds[0]), lapsed=len(kinds[1]), abandoned=len(kinds[2]))
            self._woken.set()
            if swept.in_doubt:
                self._doubted.set()

    async def prune(self) -> None:
        """Take steps of retention until nothing is left to do. Between them others have as much time as they took."""
        total = 0
        while True:
            begun = time.monotonic()
            pruned = (await self._store.prune(self._now(), self._now() - self._retention, PRUNE_LIMIT)).total
            if not pruned:
                break
            total += pruned
            await asyncio.sleep(time.monotonic() - begun)
        if total:
            log.info("pruned", action="prune", rows=total)

    async def warn(self) -> None:
        """Warn, once a day each, of credentials that expire within seven days and of those that have."""
        now = self._now()
        for instance in await self._store.instances():
            key = instance.identity
            if is_expiring(instance, now) and now >= self._warned.get(key, 0) + DAY:
                self._warned[key] = now
                log.warning(
                    "a credential expires; give the instance a new one with `wakegate instance credential`",
                    action="credential_expires",
                    instance=instance.name,
                    days=((instance.credential_expires_at or now) - now) // DAY,
                )


def is_expiring(instance: Instance, now: int) -> bool:
    """Return whether the credential expires within seven days, or has expired (DESIGN, the start, step 2)."""
    expires_at = instance.credential_expires_at
    return instance.state != "retired" and expires_at is not None and expires_at - WARN_AHEAD <= now
