"""Cancelling: telling the provider that a decision is not needed any more, until it answers (AAP, abandonment)."""

import random
from collections.abc import Callable

import structlog

from wakegate_schema import timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Execution
from wakegate_schema.store import Store, StoreError, StoreUnavailable
from wakegate_worker.backoff import give_up_at, retry_at
from wakegate_worker.boundary import identity_of
from wakegate_worker.decisions import CredentialRefused, DecisionError, DecisionSource, SubmissionRejected
from wakegate_worker.log import log
from wakegate_worker.repeats import is_told
from wakegate_worker.sources import INSTANCE_PARKED, Sources
from wakegate_worker.stopping import Interrupted, Stop

LEASE_S = 120.0
"""Seconds a cancel is being worked on; longer than a submission and a cancel may take together."""
PARKED_RETRY_S = 3600.0
"""Seconds between two looks at a cancel whose instance has no usable credential; a new one makes it due at once."""


class Cancelling:
    """Settles the cancels that abandoned, refused and unobtained executions owe."""

    def __init__(self, store: Store, sources: Sources, *, now: Callable[[], int], stop: Stop) -> None:
        """Take the store, the sources, the wall clock in µs and the stop."""
        self._store = store
        self._sources = sources
        self._now = now
        self._stop = stop

    async def take(self, limit: int) -> list[Execution]:
        """Return up to `limit` executions whose cancel is due."""
        now = self._now()
        return await self._store.lease_cancels(limit, now, now + round(LEASE_S * SECOND))

    async def handle(self, execution: Execution) -> None:
        """Settle one cancel, or put it off."""
        structlog.contextvars.bind_contextvars(execution_id=execution.execution_id)
        try:
            answer = await self._cancel(execution)
        except SubmissionRejected as error:
            answer = error.reason  # the provider has no request under this key, and takes none
        except Interrupted:
            await self._store.cancel_retry(execution.execution_id, self._now())
            return
        except DecisionError as error:
            await self._put_off(execution, error)
            return
        except StoreUnavailable:
            raise
        except StoreError as error:  # the provider names another execution's request
            await self._put_off(execution, DecisionError(reason=error.reason))
            return
        log.info("cancelled", action="cancel", answer=answer)
        await self._store.cancel_settled(execution.execution_id)

    async def _cancel(self, execution: Execution) -> str:
        instance = await self._store.instance(execution.provider, execution.instance_id)
        source = self._sources.of(instance)
        with self._stop.interruptible():
            if execution.request_id is None:
                execution = await self._learn_request(execution, source)
            return await source.cancel(execution)

    async def _learn_request(self, execution: Execution, source: DecisionSource) -> Execution:
        """Submit again under the same key: whatever that made, its id is known then."""
        reading = await source.submit(execution)
        return await self._store.attach(execution.execution_id, identity_of(reading.request), self._now())

    async def _put_off(self, execution: Execution, error: DecisionError) -> None:
        now = self._now()
        if now >= give_up_at(execution):
            log.warning("cancel given up", action="cancel", problem=error.problem)
            await self._store.cancel_settled(execution.execution_id)
            return
        due_at = retry_at(execution.cancel_tries, now, random.random, retry_after_s=error.retry_after_s)
        if isinstance(error, CredentialRefused) or error.problem == INSTANCE_PARKED:
            due_at = now + round(PARKED_RETRY_S * SECOND)
        tries = execution.cancel_tries + 1
        if is_told(tries):
            due = timestamps.render(due_at)
            log.info("to be tried again", action="cancel", problem=error.problem, tries=tries, due_at=due)
        await self._store.cancel_retry(execution.execution_id, due_at)
