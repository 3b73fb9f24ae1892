"""Recording: an attempt's outcome is told to the store until the store has it."""

import asyncio
import random
from collections.abc import Callable

from wakegate_schema.records import Execution, Lease, Outcome
from wakegate_schema.states import State
from wakegate_schema.store import Store, StoreError, StoreOutdated, StoreUnavailable
from wakegate_schema.wake_targets import NONE
from wakegate_worker.backoff import delay_s
from wakegate_worker.log import log

LONGEST_WAIT_S = 5.0
"""Seconds between two tries to record an outcome, at most."""


class Recorder:
    """Keeps attempts' outcomes until they are on record."""

    def __init__(
        self,
        store: Store,
        *,
        now: Callable[[], int],
        woken: asyncio.Event,
        doubted: asyncio.Event,
    ) -> None:
        """Take the store, the wall clock in µs, and what to set for wakes and probes."""
        self._store = store
        self._now = now
        self._woken = woken
        self._doubted = doubted
        self._late: set[asyncio.Task[None]] = set()
        self._ended = False

    async def record(self, lease: Lease, outcome: Outcome) -> None:
        """Record the outcome, trying until the store answers: it is known, and only this process knows it."""
        tries = 0
        while True:
            try:
                execution = await self._store.finish(lease, outcome, self._now())
            except (StoreUnavailable, StoreOutdated) as error:
                log.warning(
                    "the outcome waits for the store",
                    action="finish",
                    execution_id=lease.execution_id,
                    reason=error.reason,
                    tries=tries,
                )
                await asyncio.sleep(delay_s(tries, random.random, base_s=0.1, cap_s=LONGEST_WAIT_S))
                tries += 1
            except StoreError as error:  # `not_your_attempt`: the start was never committed
                log.warning("not recorded", action="finish", execution_id=lease.execution_id, reason=error.reason)
                return
            else:
                self._recorded(execution, outcome)
                return

    def record_later(self, lease: Lease, outcome: Outcome) -> None:
        """Record the outcome beside whatever else goes on; once this is finished it is too late for that."""
        if self._ended:
            log.error(
                "the worker has ended; the call stays in doubt",
                action="late_word",
                execution_id=lease.execution_id,
                outcome=outcome.kind,
            )
            return
        task = asyncio.get_running_loop().create_task(self.record(lease, outcome))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def finish(self, seconds: float) -> None:
        """Wait up to `seconds` for what is still being recorded, and take no more."""
        self._ended = True
        if not self._late:
            return
        _, left = await asyncio.wait(self._late, timeout=seconds)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _recorded(self, execution: Execution, outcome: Outcome) -> None:
        if outcome.kind in ("succeeded", "failed") and outcome.kind != execution.state:
            log.error(
                "what the attempt says is not what was settled; kept as an anomaly, see `wakegate execution show`",
                action="late_word",
                execution_id=execution.execution_id,
                state=execution.state,
                outcome=outcome.kind,
            )
            return
        level = log.error if execution.state is State.IN_DOUBT else log.info
        level(
            "finished",
            action="finish",
            execution_id=execution.execution_id,
            state=execution.state,
            reason=execution.reason,
        )
        if execution.wake != NONE:
            self._woken.set()
        if execution.state is State.IN_DOUBT:
            self._doubted.set()
