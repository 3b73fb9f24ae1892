"""The held run: a callable is run for a held call, once, and what became of it is told."""

import asyncio

from wakegate_adapter.attempt import Attempt
from wakegate_adapter.callee import Failures, MayNotBegin, NoThread, Run, run_once
from wakegate_adapter.claim import Claim
from wakegate_adapter.errors import ResultRefused
from wakegate_adapter.hold import Hold
from wakegate_adapter.log import log
from wakegate_schema.calls.outcomes import RUNS_ON, untold
from wakegate_schema.outcome_texts import said
from wakegate_schema.resolution import Resolution


async def run_held(hold: Hold, run: Run, failures: Failures) -> Resolution:
    """Hold a call and run it; return how it ended.

    Args:
        hold: the call, not entered yet.
        run: called once with the arguments by name, if that is permitted.
        failures: exceptions of `run` that mean "it did not happen".
    """
    async with hold as attempt:
        if hold.claim is not None:
            await _attempt(hold.claim, attempt, run, failures)
    return hold.resolution or attempt.resolution


async def _attempt(claim: Claim, attempt: Attempt, run: Run, failures: Failures) -> None:
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


def _is_being_cancelled() -> bool:
    """Whether somebody cancels the harness, rather than `run` something of its own."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
