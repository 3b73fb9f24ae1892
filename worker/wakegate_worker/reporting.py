"""Reporting: telling the provider what came of a consumed call, until it answers (DESIGN, the start, step 10)."""

from typing import Final

from wakegate_schema.records import Execution
from wakegate_schema.states import GIVE_UP_AFTER, State
from wakegate_schema.wire import OutcomeStatus
from wakegate_worker.decisions import DecisionSource, ReportAnswer
from wakegate_worker.log import log
from wakegate_worker.owed import Owed

NOT_RUN: Final = "not run"
"""The note of a consumed call that was never begun: AAP knows no other word for it than `failed`."""


class Reporting(Owed):
    """Settles the reports that consumed executions owe once they are in a final state."""

    action = "report"

    async def _lease(self, limit: int, at: int, until: int) -> list[Execution]:
        return await self._store.lease_reports(limit, at, until)

    async def _tell(self, execution: Execution, source: DecisionSource) -> str:
        return await source.report(execution, *outcome_of(execution))

    async def _settle(self, execution: Execution, answer: str) -> None:
        status, _ = outcome_of(execution)
        conflict = None
        if answer == ReportAnswer.TOLD:
            log.info("reported", action="report", outcome=status)
        elif answer == ReportAnswer.OUTCOME_CONFLICT:
            conflict = f"the provider has another outcome on record than {status}, and keeps it"
            log.error("the provider keeps another outcome", action="report", outcome=status, answer=answer)
        else:
            log.warning("the provider takes no outcome of this call", action="report", outcome=status, answer=answer)
        await self._store.report_settled(execution.execution_id, self._now(), conflict=conflict)

    async def _give_up(self, execution: Execution, problem: str) -> None:
        status, _ = outcome_of(execution)
        log.error("report given up", action="report", outcome=status, problem=problem)
        detail = f"the provider could not be told {status} in eight days: {problem}"
        await self._store.report_settled(execution.execution_id, self._now(), given_up=detail)

    async def _forget(self, execution: Execution) -> None:
        await self._store.report_settled(execution.execution_id, self._now())

    async def _retry(self, execution: Execution, due_at: int) -> None:
        await self._store.report_retry(execution.execution_id, due_at)

    def _tries(self, execution: Execution) -> int:
        return execution.report_tries

    def _give_up_at(self, execution: Execution) -> int:
        return (execution.finished_at or execution.changed_at) + GIVE_UP_AFTER


def outcome_of(execution: Execution) -> tuple[OutcomeStatus, str | None]:
    """Return what the provider is told of a consumed execution in a final state, and the note; never a tool's words."""
    if execution.state is State.SUCCEEDED:
        return "succeeded", None
    began = execution.started_at is not None and execution.state is not State.LAPSED
    return "failed", None if began else NOT_RUN
