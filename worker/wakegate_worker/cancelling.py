"""Cancelling: telling the provider that a decision is not needed any more, until it answers (AAP, abandonment)."""

from wakegate_schema import timestamps
from wakegate_schema.downstream import consumption_key
from wakegate_schema.records import Execution
from wakegate_worker.backoff import give_up_at
from wakegate_worker.boundary import identity_of
from wakegate_worker.decisions import CancelAnswer, DecisionSource, Reading, SubmissionRejected
from wakegate_worker.log import log
from wakegate_worker.owed import Owed


class Cancelling(Owed):
    """Settles the cancels that abandoned, refused and unobtained executions owe."""

    action = "cancel"

    async def _lease(self, limit: int, at: int, until: int) -> list[Execution]:
        return await self._store.lease_cancels(limit, at, until)

    async def _tell(self, execution: Execution, source: DecisionSource) -> str:
        try:
            if execution.request_id is None:
                execution = await self._learn_request(execution, source)
            answer = await source.cancel(execution)
        except SubmissionRejected as error:
            return error.reason  # the provider has no request under this key, and takes none
        if answer is CancelAnswer.ALREADY_TERMINAL and execution.consumed_at is None:
            await self._look_for_consumption(execution, source)
        return answer

    async def _learn_request(self, execution: Execution, source: DecisionSource) -> Execution:
        """Submit again under the same key: whatever that made, its id is known then."""
        reading = await source.submit(execution)
        return await self._store.attach(execution.execution_id, identity_of(reading.request), self._now())

    async def _look_for_consumption(self, execution: Execution, source: DecisionSource) -> None:
        """Find out whether it was consumed from here, and the answer lost: then the word that it never ran is owed."""
        consumption = (await source.read(execution, 0)).request.consumption
        if consumption is None or consumption.outcome is not None:
            return
        answer = await source.consume(execution, consumption_key(execution.execution_id, execution.epoch))
        if isinstance(answer, Reading):
            consumed_at = timestamps.parse(consumption.consumed_at)
            await self._store.consumed_in_vain(execution.execution_id, consumed_at, self._now())

    async def _settle(self, execution: Execution, answer: str) -> None:
        log.info("cancelled", action="cancel", answer=answer)
        await self._store.cancel_settled(execution.execution_id)

    async def _give_up(self, execution: Execution, problem: str) -> None:
        log.warning("cancel given up", action="cancel", problem=problem)
        await self._store.cancel_settled(execution.execution_id)

    async def _forget(self, execution: Execution) -> None:
        await self._store.cancel_settled(execution.execution_id)

    async def _retry(self, execution: Execution, due_at: int) -> None:
        await self._store.cancel_retry(execution.execution_id, due_at)

    def _tries(self, execution: Execution) -> int:
        return execution.cancel_tries

    def _give_up_at(self, execution: Execution) -> int:
        return give_up_at(execution)
