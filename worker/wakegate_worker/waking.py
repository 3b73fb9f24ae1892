"""Waking: the wakes that are owed, each delivered until it is acknowledged or its time is over."""

from collections.abc import Callable

import structlog

from wakegate_schema import timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Wake
from wakegate_schema.store import Store
from wakegate_worker.repeats import is_told
from wakegate_worker.wake_sender import Delivered, RetryAt, WakeSender

LEASE_S = 15.0
"""Seconds a wake is being delivered: longer than one attempt may take, and no longer than a dead worker may cost."""

log = structlog.get_logger()


class Waking:
    """Delivers wakes and records what became of them."""

    def __init__(self, store: Store, sender: WakeSender, *, now: Callable[[], int]) -> None:
        """Take the store, what delivers a wake, and the wall clock in µs."""
        self._store = store
        self._sender = sender
        self._now = now

    async def take(self, limit: int) -> list[Wake]:
        """Return up to `limit` wakes that are due."""
        now = self._now()
        return await self._store.lease_wakes(limit, now, now + round(LEASE_S * SECOND))

    async def handle(self, wake: Wake) -> None:
        """Try once to deliver a wake."""
        structlog.contextvars.bind_contextvars(execution_id=wake.execution_id, wake_id=wake.wake_id)
        execution = await self._store.execution(wake.execution_id)
        result = await self._sender.deliver(wake, execution, self._now())
        if isinstance(result, Delivered):
            log.info("woken", action="wake", target=wake.target, state=wake.to_state)
            await self._store.wake_delivered(wake.wake_id, self._now())
        elif isinstance(result, RetryAt):
            self._tell(wake, result)
            await self._store.wake_failed(wake.wake_id, result.due_at, result.problem)
        else:
            log.error("undelivered", action="wake", target=wake.target, problem=result.problem)
            await self._store.wake_failed(wake.wake_id, None, result.problem)

    def _tell(self, wake: Wake, result: RetryAt) -> None:
        tries = wake.tries + 1
        if is_told(tries, changed=result.problem != wake.problem):
            log.info(
                "to be tried again",
                action="wake",
                target=wake.target,
                problem=result.problem,
                tries=tries,
                due_at=timestamps.render(result.due_at),
            )
