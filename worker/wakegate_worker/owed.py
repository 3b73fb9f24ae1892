"""Owed: what executions are to tell their provider, told until it has answered."""

import random
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import structlog

from wakegate_schema import timestamps
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Execution, Instance
from wakegate_schema.store import Store, StoreError, StoreUnavailable
from wakegate_worker.backoff import retry_at
from wakegate_worker.decisions import CredentialRefused, DecisionError, DecisionSource
from wakegate_worker.log import log
from wakegate_worker.parking import park
from wakegate_worker.repeats import is_told
from wakegate_worker.sources import INSTANCE_PARKED, NoCredential, Sources
from wakegate_worker.stopping import Interrupted, Stop

LEASE_S = 120.0
"""Seconds that one is being worked on; longer than two exchanges with the provider may take together."""
PARKED_RETRY_S = 3600.0
"""Seconds between two looks where the instance has no usable credential; a new one makes all of it due at once."""


class Owed(ABC):
    """One kind of word: a cancel, or a report."""

    action: ClassVar[str]
    """Its name in the log."""

    def __init__(self, store: Store, sources: Sources, *, now: Callable[[], int], stop: Stop) -> None:
        """Take the store, the sources, the wall clock in µs and the stop."""
        self._store = store
        self._sources = sources
        self._now = now
        self._stop = stop

    async def take(self, limit: int) -> list[Execution]:
        """Return up to `limit` executions of which it is due."""
        now = self._now()
        return await self._lease(limit, now, now + round(LEASE_S * SECOND))

    async def handle(self, execution: Execution) -> None:
        """Tell it once, or put it off."""
        structlog.contextvars.bind_contextvars(execution_id=execution.execution_id)
        instance = await self._store.instance(execution.provider, execution.instance_id)
        if instance.state == "retired":  # it ended, or was leased, while that happened
            await self._forget(execution)
            return
        try:
            source = self._sources.of(instance)
            with self._stop.interruptible():
                answer = await self._tell(execution, source)
        except Interrupted:
            await self._retry(execution, self._now())
        except CredentialRefused as error:
            await self._park(execution, instance, error)
        except DecisionError as error:
            await self._put_off(execution, error)
        except StoreUnavailable:
            raise
        except StoreError as error:  # the provider names another execution's request
            await self._put_off(execution, DecisionError(reason=error.reason))
        else:
            await self._settle(execution, answer)

    async def _park(self, execution: Execution, instance: Instance, error: CredentialRefused) -> None:
        if await park(self._store, instance, error):
            await self._put_off(execution, NoCredential(reason=INSTANCE_PARKED))
        else:  # it was stored or sealed anew meanwhile: once more, with the one there is now
            await self._retry(execution, self._now())

    async def _put_off(self, execution: Execution, error: DecisionError) -> None:
        now, tries = self._now(), self._tries(execution)
        if now >= self._give_up_at(execution):
            await self._give_up(execution, error.problem)
            return
        due_at = retry_at(tries, now, random.random, retry_after_s=error.retry_after_s)
        if error.problem == INSTANCE_PARKED:
            due_at = now + round(PARKED_RETRY_S * SECOND)
        if is_told(tries + 1):
            due = timestamps.render(due_at)
            log.info("to be tried again", action=self.action, problem=error.problem, tries=tries + 1, due_at=due)
        await self._retry(execution, due_at)

    @abstractmethod
    async def _lease(self, limit: int, at: int, until: int) -> list[Execution]:
        """Lease what is due."""

    @abstractmethod
    async def _tell(self, execution: Execution, source: DecisionSource) -> str:
        """Tell it; return the answer's word. Raises a `DecisionError` when it is to be tried again."""

    @abstractmethod
    async def _settle(self, execution: Execution, answer: str) -> None:
        """Owe it no more: it was answered."""

    @abstractmethod
    async def _give_up(self, execution: Execution, problem: str) -> None:
        """Owe it no more: it could not be told in all the time that there is."""

    @abstractmethod
    async def _forget(self, execution: Execution) -> None:
        """Owe it no more: without the instance's credential nothing can be told."""

    @abstractmethod
    async def _retry(self, execution: Execution, due_at: int) -> None:
        """Owe it again at `due_at`."""

    @abstractmethod
    def _tries(self, execution: Execution) -> int:
        """Return how often it was tried."""

    @abstractmethod
    def _give_up_at(self, execution: Execution) -> int:
        """Return when it is given up, µs."""
