"""Deadlines: what is due becomes a decision in time, without anybody asking."""

import structlog

from wakegate_provider.bell import IDLE_SECONDS, Bell, heard
from wakegate_provider.decisions import decide_due, next_due
from wakegate_provider.store import ProviderStore, StoreThread
from wakegate_schema.clock import SECOND, now
from wakegate_schema.store.errors import StoreUnavailable

log = structlog.get_logger()


async def keep_deadlines(store: StoreThread, bell: Bell) -> None:
    """Expire requests at their deadline and carry out the policy's delayed decisions, for ever.

    Args:
        store: the store's thread.
        bell: rings when a request may have come that is due sooner.
    """
    with bell.listening() as event:
        while True:
            try:
                seconds = await store(_step, now())
            except StoreUnavailable as error:
                log.warning("deciding what is due failed", action="expire", reason=error.reason)
                seconds = 1.0
            if seconds > 0:
                await heard(event, seconds)


def _step(store: ProviderStore, at: int) -> float:
    """Decide a bounded step of what is due; return the seconds until more is."""
    due_at = next_due(store)
    if due_at is None:
        return IDLE_SECONDS
    if due_at > at:
        return min((due_at - at) / SECOND, IDLE_SECONDS)
    log.info("decided what was due", action="expire", requests=decide_due(store, at))
    return 0.0
