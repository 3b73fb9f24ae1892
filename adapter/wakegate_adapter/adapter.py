"""The adapter: how a harness saves calls, waits for them, and runs those it is permitted to run."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Final, ParamSpec, Self

from wakegate_adapter import held, location, stream
from wakegate_adapter.callee import Failures, Run, check_failures, check_fits, check_wait_limit
from wakegate_adapter.claim import Claim
from wakegate_adapter.control_calls import ControlCalls
from wakegate_adapter.errors import AdapterClosed, WaitTimeout
from wakegate_adapter.grants import Grants
from wakegate_adapter.held_run import run_held
from wakegate_adapter.hold import Hold, Means
from wakegate_adapter.log import log
from wakegate_adapter.watch import Watch
from wakegate_schema import fault_points
from wakegate_schema.calls import Call, CallRefused, Calls, Grant, Standing, StoreCalls, Taken, Ticket, checks
from wakegate_schema.calls.calls import HOLD_S
from wakegate_schema.calls.checks import execution_id as checked
from wakegate_schema.calls.outcomes import Kind, outcome_of
from wakegate_schema.calls.persistence import ended
from wakegate_schema.records import Runs
from wakegate_schema.resolution import Resolution
from wakegate_schema.states import State
from wakegate_schema.store import open_store

PATIENCE_S: Final = 60.0
"""How long a verb is tried again where giving up would lose something, in seconds."""
WAIT_LIMIT_S: Final = 540.0
"""How long a hold waits for its decision, in seconds."""
PAGE: Final = 50
"""How many calls are listed at once."""

P = ParamSpec("P")


class Adapter:
    """A harness's way to wakegate, in one event loop. Open it with `open`, close it with `close` or `async with`.

    It speaks to the receiver's control API or to the store, never to a provider, and holds no secret of theirs. Every
    error it raises is a `WakegateError`; `StoreUnavailable` means that the same call may be made again.
    """

    def __init__(self, calls: Calls, *, hold: float = HOLD_S, patience: float = PATIENCE_S) -> None:
        """Take the verbs, which `close` closes, and the seconds that holds and patience last."""
        self._open_calls: Calls | None = calls
        self._hold_seconds = hold
        self._patience = patience

    @classmethod
    async def open(cls, where: str | os.PathLike[str] | None = None) -> Self:
        """Open the way to wakegate.

        Args:
            where: the control API as its socket's path or `host:port`, or the store as its file's path or
                `sqlite:///` URL. None asks the environment: WAKEGATE_CONTROL first, then WAKEGATE_DATABASE. A process
                with the store is fully trusted; over the control API it has its own instances only.

        Raises:
            NotConfigured: there is nothing to open.
            StoreMissing, StoreOutdated, StoreUnavailable: it cannot be used; the adapter never makes or migrates one.
            ControlRefused: the receiver does not know this harness.
        """
        fault_points.arm(os.environ, log.warning)
        found = location.find(where, os.environ)
        if not isinstance(found, location.Control):
            return cls(StoreCalls(await open_store(found, mode="use")))
        control = ControlCalls(found.address, found.token)
        try:
            await control.introduce()
        except BaseException:
            await control.close()
            raise
        return cls(control)

    async def __aenter__(self) -> Self:
        """Return the adapter itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """Let go of what was opened; saved calls go on. End claims and holds first. Repeats are no-ops."""
        calls, self._open_calls = self._open_calls, None
        if calls is not None:
            await calls.close()

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
        standing, created = await self._calls.suspend(call, runs, wake)
        saved = standing.resolution
        return Ticket(
            execution_id=saved.execution_id,
            key=saved.key,
            instance_id=saved.instance_id,
            state=saved.state,
            created=created,
        )

    async def get(self, execution_id: str) -> Resolution:
        """Return where a call stands now, resolved or not. Raises `NotFound`."""
        return (await self._calls.show(checked(execution_id))).resolution

    async def list(self, *, state: State | None = None, group: str | None = None) -> AsyncGenerator[Resolution, None]:
        """Yield the calls of this harness, the latest first, read as they are asked for.

        Args:
            state: only calls that stand there.
            group: only calls of this group.
        """
        before: int | None = None
        while True:
            page, before = await self._calls.listed(state=state, group=group, before=before, limit=PAGE)
            for standing in page:
                yield standing.resolution
            if before is None:
                return

    async def resolutions(self, after: str | None = None) -> AsyncGenerator[tuple[str, Resolution], None]:
        """Yield what harnesses are told, in order and without end, each with the cursor to resume after.

        Keep the cursor once a resolution was dealt with: what was not comes again. A connection that breaks off is
        taken up again where it was.

        Args:
            after: a cursor; the empty string begins with the earliest that is kept, None with what comes from now on.

        Raises:
            CallRefused: `after` is no cursor.
        """
        async with aclosing(stream.follow(self._calls, after, self._patience)) as told:
            async for each in told:
                yield each

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
        calls, watch, execution_id = self._calls, self._watch, checked(execution_id)
        waiting = asyncio.get_running_loop().create_task(watch.until(execution_id, _ends_the_wait))
        try:
            await asyncio.wait({waiting}, timeout=timeout)
        finally:
            await ended(waiting)
        if not waiting.cancelled():
            return waiting.result().resolution
        standing = await calls.show(execution_id)
        if not _ends_the_wait(standing):
            raise WaitTimeout(f"execution {execution_id} is {standing.state} after {timeout:g} s; it goes on")
        return standing.resolution

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
        return Claim(self._grants, checked(execution_id), claim_id)

    async def take(self, execution_id: str, claim_id: str) -> Taken:
        """Claim a permitted call to be run elsewhere; whoever has the `grant` renews and finishes it.

        Repeating it with the same id, while the attempt runs, gives the same attempt again with a fresh token: for
        a claimer whose answer was lost, and only if nothing was begun.

        Args:
            execution_id: a call saved with `runs="harness"`.
            claim_id: the claimer's choice, 1 to 255 visible ASCII characters.
        """
        return await self._grants.take(checked(execution_id), claim_id)

    async def renew(self, grant: Grant) -> bool:
        """Say that a taken call still runs, at least every 10 s. False when it is in doubt, or settled.

        Said on while it is in doubt, it keeps a probe from settling the call as one that did not happen.
        """
        kept = await self._calls.renew(grant)
        if not kept:
            await self._calls.runs_on(grant)
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
        return (await self._grants.finish(grant, outcome_of(kind, result, error))).resolution

    async def hold(self, call: Call, run: Run, wait_limit: float = WAIT_LIMIT_S, failures: Failures = ()) -> Resolution:
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
        hold = self.holding(call, wait_limit)
        check_failures(failures)
        check_fits(run, call.arguments)
        return await run_held(hold, run, failures)

    def holding(self, call: Call, wait_limit: float = WAIT_LIMIT_S) -> Hold:
        """Hold a call and run it by hand: `async with adapter.holding(call) as attempt`.

        Entering saves the call, waits for its decision and, once it is permitted, claims it. Inside, `attempt` is
        as in `claim`: unless `attempt.permitted` nothing may run, and `attempt.explanation` says why. Leaving records
        what was told. Arguments and errors are those of `hold`.
        """
        check_wait_limit(wait_limit)
        means = Means(self._calls, self._watch, self._grants, self._hold_seconds, self._patience)
        return Hold(means, call, wait_limit)

    def held(
        self,
        *,
        instance: str | None = None,
        timeout: str = "30m",
        wait_limit: float = WAIT_LIMIT_S,
        failures: Failures = (),
        tool: str | None = None,
        version: str | None = None,
    ) -> Callable[[Callable[P, Any]], held.Held[P]]:
        """Decorate a function, async or sync, so that every call of it is held, and run only once it is permitted.

        What is awaited then returns the call's `Resolution`. All arguments go by name into what is approved, defaults
        included. `await function.calling(key=…, reasoning=…)(…)` gives one call its key and what the approver reads.

        Args:
            instance: name or id of the instance to submit under.
            timeout: how long the provider may take to decide, such as `30m`.
            wait_limit: as `hold`.
            failures: as `hold`.
            tool: the tool's name; the function's own unless given.
            version: the tool's version.

        Raises (when it decorates):
            CallRefused: the function has arguments without names, or one of these is not what it must be.
        """
        check_wait_limit(wait_limit)
        check_failures(failures)

        def decorate(function: Callable[P, Any]) -> held.Held[P]:
            name = tool or str(getattr(function, "__name__", ""))
            return held.Held(function, held.Terms(self.hold, name, instance, timeout, wait_limit, failures, version))

        return decorate

    async def abandon(self, execution_id: str, reason: str) -> Resolution:
        """Give a call up before it starts; the worker cancels its request. A resolved one is returned as it is.

        Args:
            execution_id: the call.
            reason: why, 1 to 255 printable characters.

        Raises:
            NotAllowed: it has started, and may have happened.
            NotFound: there is no such call.
        """
        checks.check_reason(reason)
        return (await self._calls.abandon(checked(execution_id), reason)).resolution

    async def seal(self, group: str, instance: str | None = None) -> tuple[Resolution, ...]:
        """Say that a group is complete: no call joins it any more. Repeats are no-ops.

        Its calls' target is told of them by one wake, once all are resolved (see docs/wakes.md).

        Args:
            group: the group's name, as its calls give it.
            instance: name or id of the instance; may be left out when there is exactly one.

        Returns:
            Its calls, the first saved first.

        Raises:
            NotFound: there is no such group.
            InstanceUnclear: more than one instance could be meant.
        """
        found: list[Standing] = []
        after: int | None = None
        while True:
            page, after = await self._calls.seal(group, instance, after=after, limit=PAGE)
            found += page
            if after is None:
                return tuple(standing.resolution for standing in found)

    @property
    def _calls(self) -> Calls:
        if self._open_calls is None:
            raise AdapterClosed
        return self._open_calls

    @property
    def _grants(self) -> Grants:
        return Grants(self._calls, self._patience)

    @property
    def _watch(self) -> Watch:
        return Watch(self._calls, self._patience)


def _ends_the_wait(standing: Standing) -> bool:
    return standing.resolved or standing.state is State.IN_DOUBT or standing.awaits_harness
