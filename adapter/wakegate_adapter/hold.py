"""The hold: synchronous mode, in which the harness waits for the decision and runs the call itself."""

import asyncio
from typing import Final

from wakegate_adapter.attempt import Attempt
from wakegate_adapter.callee import MayNotBegin, NoThread, Run, run_once
from wakegate_adapter.claim import Claim
from wakegate_adapter.errors import HeldElsewhere, ResultRefused
from wakegate_adapter.log import log
from wakegate_adapter.permissions import Permissions
from wakegate_adapter.persistence import ended, patiently, to_the_end, until_lost
from wakegate_adapter.watch import Watch
from wakegate_schema import clock
from wakegate_schema.calls.call import Call
from wakegate_schema.calls.outcomes import RUNS_ON, untold
from wakegate_schema.calls.saving import save
from wakegate_schema.clock import SECOND
from wakegate_schema.outcome_texts import said
from wakegate_schema.records import Execution
from wakegate_schema.states import HOLD_LOST, UNDECIDED, WAIT_LIMIT, State
from wakegate_schema.store import NotAllowed, Store, StoreUnavailable
from wakegate_schema.wake_targets import NONE

HOLD_S: Final = 30.0
"""How long a hold lasts without being renewed, in seconds."""
INTERRUPTED: Final = "hold_interrupted"
NOT_STARTED: Final = "not_started"


class Hold:
    """One held call, from its saving to its end."""

    def __init__(
        self, store: Store, watch: Watch, permissions: Permissions, *, hold_id: str, seconds: float, patience: float
    ) -> None:
        """Take the parts of the adapter, a new hold id, and the seconds a hold lasts without being renewed."""
        self._store = store
        self._watch = watch
        self._permissions = permissions
        self._hold_id = hold_id
        self._seconds = seconds
        self._patience = patience

    async def through(
        self,
        call: Call,
        run: Run,
        wait_limit: float,
        failures: tuple[type[Exception], ...],
    ) -> Execution:
        """Save, wait, claim and run; return the execution as it is at the end.

        Args:
            call: what is to be approved and run.
            run: called once with the arguments by name.
            wait_limit: seconds to wait for the decision.
            failures: exceptions of `run` that mean "it did not happen".

        Raises:
            HeldElsewhere: the key's call is unresolved and not held by this hold.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + wait_limit
        execution = await self._saved(call)
        if execution.resolved or execution.state is State.IN_DOUBT:
            return execution
        if execution.hold_id != self._hold_id:
            raise HeldElsewhere(
                f"execution {execution.execution_id} was already saved with this key and is {execution.state};"
                " wait for it with Adapter.wait, or make a new key for a new attempt"
            )
        execution_id = execution.execution_id
        try:
            reason = await self._permitted(execution_id, until - loop.time())
        except asyncio.CancelledError:
            await to_the_end(self._let_go(execution_id, INTERRUPTED))
            raise
        if reason is not None:
            return await self._abandoned(execution_id, reason)
        return await self._run(execution_id, run, failures)

    async def _saved(self, call: Call) -> Execution:
        saving = asyncio.get_running_loop().create_task(self._save(call))
        try:
            return await asyncio.shield(saving)
        except asyncio.CancelledError:
            await to_the_end(self._give_up_saved(saving))
            raise

    async def _save(self, call: Call) -> Execution:
        lasting = int(self._seconds * SECOND)

        async def once() -> tuple[Execution, bool]:
            return await save(self._store, call, "harness", NONE, hold_id=self._hold_id, hold=lasting)

        return (await patiently(once, self._patience))[0]

    async def _give_up_saved(self, saving: "asyncio.Task[Execution]") -> None:
        await asyncio.wait({saving})
        if not saving.cancelled() and saving.exception() is None and saving.result().hold_id == self._hold_id:
            await self._let_go(saving.result().execution_id, INTERRUPTED)

    async def _permitted(self, execution_id: str, seconds: float) -> str | None:
        """Wait until the call is permitted or resolved; return why it is to be abandoned instead, if it is."""
        loop = asyncio.get_running_loop()
        keeping = loop.create_task(self._keep(execution_id))
        waiting = loop.create_task(self._watch.until(execution_id, _decided))
        try:
            await asyncio.wait({keeping, waiting}, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await ended(keeping, waiting)
        if not keeping.cancelled():
            keeping.result()
        if not waiting.cancelled():
            if waiting.result().state is not State.PERMITTED or await self._still_held(execution_id):
                return None
            return HOLD_LOST
        return WAIT_LIMIT if keeping.cancelled() else HOLD_LOST

    async def _keep(self, execution_id: str) -> None:
        """Keep the hold; return when it was lost."""

        def failed(error: StoreUnavailable) -> None:
            log.warning(
                "the hold could not be renewed yet", action="hold", execution_id=execution_id, reason=error.reason
            )

        await until_lost(lambda: self._renewed(execution_id), self._seconds, failed)

    async def _still_held(self, execution_id: str) -> bool:
        return await patiently(lambda: self._renewed(execution_id), self._patience)

    async def _renewed(self, execution_id: str) -> bool:
        at = clock.now()
        until = at + int(self._seconds * SECOND)
        return await self._store.keep_hold(execution_id, self._hold_id, until, at)

    async def _run(self, execution_id: str, run: Run, failures: tuple[type[Exception], ...]) -> Execution:
        claim = Claim(self._permissions, execution_id)
        try:
            async with claim as attempt:
                if attempt.permitted:
                    await self._attempt(claim, attempt, run, failures)
        except asyncio.CancelledError:
            if claim.execution is None:
                await to_the_end(self._let_go(execution_id, INTERRUPTED))
            raise
        if claim.execution is not None:
            return claim.execution
        if attempt.resolution.state is State.PERMITTED:  # too late, or the clock is not to be believed
            return await self._abandoned(execution_id, attempt.refusal or NOT_STARTED)
        return await patiently(lambda: self._store.execution(execution_id), self._patience)

    async def _attempt(self, claim: Claim, attempt: Attempt, run: Run, failures: tuple[type[Exception], ...]) -> None:
        try:
            value = await run_once(run, attempt.arguments, claim.left, claim.look)
        except MayNotBegin as late:  # others had this loop, or this process, since the claim
            attempt.tell(late.outcome)
        except NoThread as error:
            attempt.not_begun(str(error))
        except failures as error:
            attempt.fail(said(error, type(error).__name__))
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            outcome = RUNS_ON if claim.runs_on else untold(error)
            attempt.tell(outcome)
            log.error(
                "the call's function raised; nobody knows whether the call has happened",
                action="hold",
                execution_id=attempt.execution_id,
                error=outcome.error,
            )
            if _is_being_cancelled():
                raise
        else:
            try:
                attempt.succeed(value)
            except ResultRefused as error:
                log.warning(
                    "the call has happened; its result cannot be kept",
                    action="hold",
                    execution_id=attempt.execution_id,
                    reason=error.reason,
                )

    async def _abandoned(self, execution_id: str, reason: str) -> Execution:
        async def abandon() -> Execution:
            return await self._store.abandon(execution_id, reason, "harness", clock.now())

        try:
            return await to_the_end(patiently(abandon, self._patience))
        except NotAllowed:  # somebody else claimed it in the last moment
            return await patiently(lambda: self._store.execution(execution_id), self._patience)

    async def _let_go(self, execution_id: str, reason: str) -> None:
        """Abandon without insisting: an unrenewed hold is abandoned by the sweep in any case."""
        try:
            await self._store.abandon(execution_id, reason, "harness", clock.now())
        except NotAllowed:
            log.info("it has started already", action="hold", execution_id=execution_id)
        except StoreUnavailable as error:
            log.warning(
                "the call could not be abandoned yet; it will be, once its hold runs out",
                action="hold",
                execution_id=execution_id,
                reason=error.reason,
            )


def _decided(execution: Execution) -> bool:
    return execution.state not in UNDECIDED


def _is_being_cancelled() -> bool:
    """Whether somebody cancels the harness, rather than `run` something of its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
