"""Waking: the wakes that are owed, each delivered until it is acknowledged or its time is over."""

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import structlog

from wakegate_schema import timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Execution, Wake
from wakegate_schema.store import Store, StoreUnavailable
from wakegate_worker.keeping import Beside
from wakegate_worker.log import log
from wakegate_worker.repeats import is_told
from wakegate_worker.wake_message import GroupTold
from wakegate_worker.wake_sender import Delivered, RetryAt, Undelivered, WakeResult, WakeSender

LEASE_S = 15.0
"""Seconds a wake is being delivered: longer than one exchange may take, and no longer than a dead worker may cost."""
KEEP_EVERY_S = LEASE_S / 3
"""How often the lease is lengthened while a program runs, in seconds."""
PAGE = 16
"""Calls of a group that are read at once: their results are large."""


class Waking:
    """Delivers wakes and records what became of them."""

    def __init__(self, store: Store, sender: WakeSender, *, now: Callable[[], int]) -> None:
        """Take the store, what delivers a wake, and the wall clock in µs."""
        self._store = store
        self._sender = sender
        self._now = now

    async def take(self, limit: int, *, target: str | None = None, but: Sequence[str] = ()) -> list[Wake]:
        """Return up to `limit` wakes that are due: those of one target, or of all `but` some."""
        now = self._now()
        return await self._store.lease_wakes(limit, now, self._leased(now), target=target, but=but)

    async def handle(self, wake: Wake) -> None:
        """Try once to deliver a wake."""
        structlog.contextvars.bind_contextvars(execution_id=wake.execution_id, wake_id=wake.wake_id)
        async with self._kept(wake):
            result = await self._try(wake)
        if isinstance(result, Delivered):
            log.info("woken", action="wake", target=wake.target, state=wake.to_state)
            await self._store.wake_delivered(wake.wake_id, self._now())
        elif isinstance(result, RetryAt):
            self._tell(wake, result)
            await self._store.wake_failed(wake.wake_id, result.due_at, result.problem)
        else:
            self._tell_given_up(wake, result)
            await self._store.wake_failed(wake.wake_id, None, result.problem)

    async def _try(self, wake: Wake) -> WakeResult:
        return await self._sender.deliver(wake, await told_by(self._store, wake), self._now())

    @asynccontextmanager
    async def _kept(self, wake: Wake) -> AsyncIterator[None]:
        """Keep the wake's lease for as long as the block lasts, where one lease may not be enough."""
        if not self._sender.takes_long(wake):
            yield
            return
        async with Beside(functools.partial(self._keep, wake)):
            yield

    async def _keep(self, wake: Wake) -> None:
        """Lengthen the lease again and again; it is lost when somebody else takes the wake, who delivers it too."""
        since = wake.due_at or 0
        while True:
            until = self._leased(self._now())
            try:
                if not await self._store.keep_wake(wake.wake_id, since, until):
                    return
                since = until
            except StoreUnavailable as error:
                log.warning("the store cannot be used", action="wake", reason=error.reason)
            await asyncio.sleep(KEEP_EVERY_S)

    def _leased(self, now: int) -> int:
        return now + round(LEASE_S * SECOND)

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
                **_said(result),
            )

    def _tell_given_up(self, wake: Wake, result: Undelivered) -> None:
        log.error("undelivered", action="wake", target=wake.target, problem=result.problem, **_said(result))


async def told_by(store: Store, wake: Wake) -> Execution | GroupTold:
    """Return what a wake tells of, as it is on record now: an execution, or everything that belongs to a group."""
    if wake.group_number is None:
        return await store.execution(wake.execution_id)
    told, after = GroupTold(), 0
    while page := await store.group_executions(wake.group_number, after, PAGE):
        after = page[-1][0]
        for _, execution, resolution_id in page:
            told.add(execution, resolution_id)
    return told


def _said(result: RetryAt | Undelivered) -> dict[str, str]:
    """Return what the program said last, as a field of the line."""
    return {} if result.detail is None else {"stderr": result.detail}
