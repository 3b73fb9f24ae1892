"""Orphans: calls whose tool no living worker has. They wait; what needs no tool is done for them all the same.

A denial, a cancel at the provider, a deadline and the end of an approval must not wait for a worker that may never
come: nothing is run for them, and the harness waits for the word. So any worker asks what became of a request that was
made, a few at a time. A call that was never submitted stays as it is, because nobody shall be asked to approve what
nobody can run, until it is given up like every other that got no decision.
"""

import random
from collections.abc import Callable
from typing import Final

from wakegate_schema.clock import HOUR, SECOND
from wakegate_schema.records import Execution, MissingTool
from wakegate_schema.store import Store
from wakegate_worker.log import log
from wakegate_worker.pump import Pump
from wakegate_worker.slots import Slots

ORPHANS_EVERY_S: Final = 1.0
"""How often they are looked for at most, in seconds."""
AT_ONCE: Final = 16
"""How many are taken at a time, and for how many tools they are looked for, however many there are: this worker's own
work goes on beside them, and other writers wait for this one's turn to end."""


class Orphans:
    """Takes some of them, round by round."""

    def __init__(
        self,
        store: Store,
        owner: str,
        pump: Pump[Execution],
        slots: Slots,
        *,
        lease_s: float,
        now: Callable[[], int],
    ) -> None:
        """Take the store, who leases, what works on executions, its slots, a lease's length, and the clock in µs."""
        self._store = store
        self._owner = owner
        self._pump = pump
        self._slots = slots
        self._lease_us = round(lease_s * SECOND)
        self._now = now
        self._told: dict[tuple[str, str | None], int] = {}

    async def round(self) -> None:
        """Take up to `AT_ONCE`, and tell of the tools that are missing, each once an hour."""
        now = self._now()
        missing = await self._store.missing_tools(now)
        if not missing:
            return
        self._tell(missing, now)
        room = min(AT_ONCE, self._slots.free)
        if room:
            some = random.sample(missing, min(AT_ONCE, len(missing)))  # so that each of the tools has its turn
            for execution in await self._store.lease_orphans(self._owner, some, room, now, now + self._lease_us):
                self._pump.begin(execution)

    def _tell(self, missing: list[MissingTool], now: int) -> None:
        self._told = {key: at for key, at in self._told.items() if at <= now < at + HOUR}
        for one in missing:
            if (one.tool, one.version) not in self._told:
                self._told[one.tool, one.version] = now
                log.warning(
                    "calls wait for a tool that no living worker has",
                    action="orphans",
                    tool=one.tool,
                    version=one.version,
                    calls=one.calls,
                    hint="run a worker with its module in WAKEGATE_TOOLS; wakegate pool list shows who has what",
                )
