"""The adapter: how a harness saves calls, waits for them, and runs those it is permitted to run."""

import asyncio
import math
import os
import re
from types import TracebackType
from typing import Final, Self

from wakegate_adapter.attempt import Taken
from wakegate_adapter.callee import Run, check_failures, check_fits
from wakegate_adapter.claim import Claim
from wakegate_adapter.errors import AdapterClosed, WaitTimeout
from wakegate_adapter.hold import HOLD_S, Hold
from wakegate_adapter.location import database_url
from wakegate_adapter.log import log
from wakegate_adapter.permissions import Permissions
from wakegate_adapter.persistence import ended
from wakegate_adapter.watch import Watch
from wakegate_schema import clock, fault_points, ids
from wakegate_schema.calls.call import Call, Ticket
from wakegate_schema.calls.errors import CallRefused
from wakegate_schema.calls.grant import Grant
from wakegate_schema.calls.outcomes import Kind, outcome_of
from wakegate_schema.calls.saving import save
from wakegate_schema.records import Execution, Runs
from wakegate_schema.resolution import Resolution
from wakegate_schema.states import OLDER_EPOCH, State
from wakegate_schema.store import NotFound, Store, open_store

LEASE_S: Final = 30.0
"""How long a started call's lease lasts without being renewed, in seconds."""
PATIENCE_S: Final = 60.0
"""How long an unavailable store is tried again where giving up would lose something, in seconds."""

_REASON: Final = re.compile(r"\S(.{0,253}\S)?")


class Adapter:
    """A harness's way to wakegate, in one event loop. Open it with `open`, close it with `close` or `async with`.

    It speaks to the store alone, never to a provider, and holds no secret. Every error it raises is a
    `WakegateError`; `StoreUnavailable` means that the same call may be made again.
    """

    def __init__(
        self, store: Store, *, lease: float = LEASE_S, hold: float = HOLD_S, patience: float = PATIENCE_S
    ) -> None:
        """Take an open store, which `close` closes, and the seconds that leases, holds and patience last."""
        self._open_store: Store | None = store
        self._hold_seconds = hold
        self._patience = patience
        self._watch = Watch(store, patience)
        self._lease = lease

    @classmethod
    async def open(cls, path_or_url: str | os.PathLike[str] | None = None) -> Self:
        """Open the store.

        Args:
            path_or_url: the database file or its `sqlite:///` URL. None asks the environment: WAKEGATE_CONTROL
                first (refused in this version), then WAKEGATE_DATABASE. A process with the store is fully trusted.

        Raises:
            NotConfigured, ControlNotYet: there is nothing to open.
            StoreMissing, StoreOutdated, StoreUnavailable: it cannot be used; the adapter never makes or migrates one.
        """
        fault_points.arm(os.environ, log.warning)
        return cls(await open_store(database_url(path_or_url, os.environ), mode="use"))

    async def __aenter__(self) -> Self:
        """Return the adapter itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Let go of the store; saved calls go on. End claims and holds first. Repeats are no-ops."""
        store, self._open_store = self._open_store, None
        if store is not None:
            await self._watch.close()
            await store.close()

    async def suspend(self, call: Call, runs: Runs = "worker", wake: str = "none") -> Ticket:
        """Save a call durably; the process may end as soon as this returns.

        The same key with the same call gives the same ticket, also long after it has run.

        Args:
            call: what is to be approved and run.
            runs: `worker`, which runs its registered tool, or `harness`, which claims the call once it is permitted.
            wake: the operator's name of the wake target; `none` when the harness asks.

        Raises:
            KeyConflict: the key was used for another call.
            CallRefused, InstanceUnclear: it cannot be saved as it is.
            NotAllowed: its instance is retired.
        """
        execution, created = await save(self._store, call, runs, wake)
        return Ticket(
            execution_id=execution.execution_id,
            key=execution.idempotency_key,
            instance_id=execution.instance_id,
            state=execution.state,
            created=created,
        )

    async def get(self, execution_id: str) -> Resolution:
        """Return where a call stands now, resolved or not. Raises `NotFound`."""
        execution = await self._store.execution(_checked(execution_id))
        return await self._permissions.resolution(execution)

    async def wait(self, execution_id: str, timeout: float | None = None) -> Resolution:
        """Wait until a call is resolved, and return how.

        Also returns when the harness must act or nothing more will come by itself: at `permitted` for a call that
        the harness runs, and at `in_doubt`. Stopping to wait changes nothing for the call.

        Args:
            execution_id: the call.
            timeout: seconds to wait, 0 to look once; None for as long as it takes.

        Raises:
            WaitTimeout: it is not resolved yet.
            NotFound: there is no such call.
        """
        if timeout is not None and not timeout >= 0:
            raise CallRefused("timeout", "it must be seconds, 0 or more, or None", reason="bad_timeout")
        store, execution_id = self._store, _checked(execution_id)
        waiting = asyncio.get_running_loop().create_task(self._watch.until(execution_id, _ends_the_wait))
        try:
            await asyncio.wait({waiting}, timeout=timeout)
        finally:
            await ended(waiting)
        if waiting.cancelled():
            execution = await store.execution(execution_id)
            if not _ends_the_wait(execution):
                raise WaitTimeout(f"execution {execution_id} is {execution.state} after {timeout:g} s; it goes on")
        else:
            execution = waiting.result()
        return await self._permissions.resolution(execution)

    def claim(self, execution_id: str, claim_id: str | None = None) -> Claim:
        """Claim a permitted call in order to run it here: `async with adapter.claim(execution_id) as attempt`.

        Entering spends the permission, once and for ever; `attempt.permitted` says whether that was granted, and
        nothing may run otherwise. Less than two seconds before the approval ends, it is not. The lease is renewed in
        the background. Leaving records what `attempt.succeed`, `fail` or `not_begun` said; without a word, or by an
        exception, the call is in doubt and is never run again by itself.

        Args:
            execution_id: a call saved with `runs="harness"`.
            claim_id: up to 200 visible ASCII characters by which the records name this claim; host and process
                by default. A part of its own is added to each, so that no repeat of it can run the call again.

        Raises (on entering):
            NotFound: there is no such call.
        Raises (on leaving):
            OutcomeNotRecorded: the store could not be reached for a minute.
        """
        return Claim(self._permissions, _checked(execution_id), claim_id)

    async def take(self, execution_id: str, claim_id: str) -> Taken:
        """Claim a permitted call to be run elsewhere; whoever has the `grant` renews and finishes it.

        Repeating it with the same id, while the attempt runs, gives the same attempt again with a fresh token: for
        a claimer whose answer was lost, and only if nothing was begun.

        Args:
            execution_id: a call saved with `runs="harness"`.
            claim_id: the claimer's choice, 1 to 255 visible ASCII characters.
        """
        return await self._permissions.take(_checked(execution_id), claim_id)

    async def renew(self, grant: Grant) -> bool:
        """Say that a taken call still runs, at least every 10 s. False when it is in doubt, or settled.

        Said on while it is in doubt, it keeps a probe from settling the call as one that did not happen.
        """
        kept = await self._permissions.renew(grant)
        if not kept:
            await self._permissions.runs_on(grant)
        return kept

    async def finish(
        self,
        grant: Grant,
        kind: Kind,
        *,
        result: object = None,
        error: str | None = None,
    ) -> Resolution:
        """Record how a taken call ended; also late, when it was in doubt. Repeats are no-ops.

        Args:
            grant: from `take`.
            kind: `succeeded` with a result, `failed` if it is known not to have happened, `in_doubt` if nobody
                knows, `not_begun` if it was never begun.
            result: JSON of at most 256 KiB; one that is not is left out and the record says so.
            error: one line about it, at most 500 characters.

        Raises:
            OutcomeNotRecorded: the store could not be reached for a minute, or the grant is not this attempt's.
        """
        permissions = self._permissions
        return await permissions.resolution(await permissions.finish(grant, outcome_of(kind, result, error)))

    async def hold(
        self,
        call: Call,
        run: Run,
        wait_limit: float = 540,
        failures: tuple[type[Exception], ...] = (),
    ) -> Resolution:
        """Save a call, wait for its approval here, and run it: synchronous mode.

        While this waits it keeps a lease on the call; a process that dies or is interrupted gives the call up.

        Args:
            call: what is to be approved and run.
            run: takes the arguments by name; async, or sync and then run in a thread of its own.
            wait_limit: seconds to wait for the decision. Past it the call is abandoned: its approval could not be
                obtained, which is no denial.
            failures: exceptions of `run` that mean "it did not happen". Any other leaves the call in doubt; it is
                logged, not raised.

        Returns:
            How the call ended. An earlier call with this key that is resolved is not run again, only returned.

        Raises:
            HeldElsewhere: the key's call is unresolved and saved by somebody else.
            KeyConflict, CallRefused, InstanceUnclear, NotAllowed: as `suspend`.
        """
        if not (math.isfinite(wait_limit) and wait_limit > 0):
            raise CallRefused("wait_limit", "it must be a number of seconds above 0", reason="bad_wait_limit")
        check_failures(failures)
        check_fits(run, call.arguments)
        hold = Hold(
            self._store, self._watch, self._permissions,
            hold_id=ids.new(), seconds=self._hold_seconds, patience=self._patience,
        )  # fmt: skip

        execution = await hold.through(call, run, wait_limit, failures)
        return await self._permissions.resolution(execution)

    async def abandon(self, execution_id: str, reason: str) -> Resolution:
        """Give a call up before it starts; the worker cancels its request. A resolved one is returned as it is.

        Args:
            execution_id: the call.
            reason: why, 1 to 255 printable characters.

        Raises:
            NotAllowed: it has started, and may have happened.
            NotFound: there is no such call.
        """
        if not isinstance(reason, str) or not reason.isprintable() or not _REASON.fullmatch(reason):
            raise CallRefused("reason", "it must be 1 to 255 printable characters", reason="bad_reason")
        execution = await self._store.abandon(_checked(execution_id), reason, "harness", clock.now())
        return await self._permissions.resolution(execution)

    @property
    def _store(self) -> Store:
        if self._open_store is None:
            raise AdapterClosed
        return self._open_store

    @property
    def _permissions(self) -> Permissions:
        return Permissions(self._store, self._lease, self._patience)


def _ends_the_wait(execution: Execution) -> bool:
    free = execution.problem != OLDER_EPOCH  # else nothing comes of a claim until an operator releases it
    asks_for_the_harness = execution.state is State.PERMITTED and execution.runs == "harness" and free
    return execution.resolved or execution.state is State.IN_DOUBT or asks_for_the_harness


def _checked(execution_id: str) -> str:
    """Return an execution id as it is on record. Raises `NotFound` for what cannot be one."""
    try:
        return ids.parse(execution_id if isinstance(execution_id, str) else "")
    except ids.MalformedId:
        raise NotFound("there is no such execution: an execution id is a UUID, as `suspend` returns it") from None
