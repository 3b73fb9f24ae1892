"""The claim: `async with adapter.claim(...)`, from the spent permission to the recorded outcome."""

import asyncio
import os
import re
from collections.abc import Callable
from types import TracebackType
from typing import Any

from wakegate_adapter.attempt import Attempt
from wakegate_adapter.callee import MayNotBegin
from wakegate_adapter.grants import Grants
from wakegate_adapter.log import log
from wakegate_schema import clock_mark, ids
from wakegate_schema.calls import Grant, Standing
from wakegate_schema.calls.outcomes import LAPSED_AT_START, untold
from wakegate_schema.calls.persistence import ended, to_the_end
from wakegate_schema.records import Outcome


class Claim:
    """An async context manager that gives an `Attempt`, keeps its lease, and reports its outcome at the end."""

    def __init__(self, grants: Grants, execution_id: str, label: str | None = None) -> None:
        """Take what `Adapter.claim` was given."""
        self._grants = grants
        self._execution_id = execution_id
        self._label = label
        self._attempt: Attempt | None = None
        self._grant: Grant | None = None
        self._unfit: Callable[[], Outcome | None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._ending: asyncio.Future[Any] | None = None
        self.standing: Standing | None = None
        """Where the call stands once its outcome is recorded."""

    async def __aenter__(self) -> Attempt:
        """Spend the permission, if there is one."""
        found = await self._grants.take(self._execution_id, new_claim_id(self._label))
        self._attempt, self._grant, self._unfit = Attempt(found), found.grant, found.unfit
        if found.grant is not None:
            self._keeper = asyncio.get_running_loop().create_task(
                self._keep(self._attempt, found.grant, found.lease_seconds)
            )
        return self._attempt

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record what was told, or that nobody knows. Does not end before that, even when cancelled.

        Raises:
            OutcomeNotRecorded: the store could not be reached for long.
        """
        if self._attempt is None or self._grant is None:
            return
        outcome = self._attempt.outcome or untold(error)
        try:
            await to_the_end(self._report(self._grant, outcome))
        finally:
            if self._keeper is not None:
                await self._keep_no_more(self._keeper)

    def look(self) -> None:
        """Look at every clock, as the last thing before the call. Raises `MayNotBegin`."""
        outcome = self._unfit() if self._unfit is not None else LAPSED_AT_START
        if outcome is not None:
            raise MayNotBegin(outcome)

    @property
    def runs_on(self) -> bool:
        """Whether the call goes on in a thread although whoever waited for it was cancelled."""
        return self._ending is not None and not self._ending.done()

    def left(self, ending: "asyncio.Future[Any]") -> None:
        """Take what is done once the thread that was left running has ended: signs of life are given until then."""
        self._ending = ending

    async def _keep_no_more(self, keeper: "asyncio.Task[None]") -> None:
        if self._ending is None or self._ending.done():
            await ended(keeper)
        else:
            self._ending.add_done_callback(lambda _: keeper.cancel())

    async def _report(self, grant: Grant, outcome: Outcome) -> None:
        self.standing = await self._grants.finish(grant, outcome)

    async def _keep(self, attempt: Attempt, grant: Grant, lease: float) -> None:
        try:
            await self._grants.keep(grant, lease)
            attempt.lease_lost = True
            await self._grants.give_signs(grant, lease)
        except Exception as error:  # noqa: BLE001 (the attempt goes on; that its lease is not kept is told)
            log.error(
                "the lease is not kept any more",
                action="renew",
                execution_id=grant.execution_id,
                error=type(error).__name__,
            )
        attempt.lease_lost = True


def new_claim_id(label: str | None = None) -> str:
    """Return an id that no other claim has, beginning with the label, or with what names this process."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", clock_mark.host_name())[:100]
    return f"{label or f'{host}/{os.getpid()}'}/{ids.new()}"
