"""Consumption: which providers know it, and what they are still to be told."""

from wakegate_schema.records import Execution
from wakegate_schema.store.parts.part import Part
from wakegate_schema.store.verbs import consumption


class Consumption(Part):
    """See the module."""

    async def consumes(self, provider: str) -> bool:
        """Return whether this provider has ever shown that it knows consumption."""
        return await self._reader.read(consumption.is_known, provider)

    async def note_consuming(self, provider: str, at: int) -> None:
        """Keep for good that this provider knows consumption: from now on nothing starts there without it."""
        await self._writer.do(consumption.note, (provider, at))

    async def consumed_in_vain(self, execution_id: str, consumed_at: int, at: int) -> bool:
        """Owe the provider the word that a call never ran which was ended while its approval was consumed.

        False when that is on record already, or the call was started, or may still be.
        """
        return await self._writer.do(consumption.in_vain, (execution_id, consumed_at, at))

    async def lease_reports(self, limit: int, at: int, until: int) -> list[Execution]:
        """Return executions that owe the provider a word of their outcome, each due again at `until`.

        The database itself makes a consumed execution owe one when it comes into a final state.
        """
        return await self._writer.do(consumption.take_reports, (limit, at, until))

    async def report_settled(
        self, execution_id: str, at: int, *, conflict: str | None = None, given_up: str | None = None
    ) -> None:
        """No report is owed any more: the provider has answered, or it is given up.

        Args:
            execution_id: the execution.
            at: wall clock, µs.
            conflict: what the provider has on record against it; kept as an anomaly, `outcome_conflict`.
            given_up: why the provider was never told; kept as an anomaly, `report_given_up`.
        """
        await self._writer.do(consumption.report_settled, (execution_id, conflict, given_up, at))

    async def report_retry(self, execution_id: str, due_at: int) -> None:
        """The report did not get through: try again at `due_at`."""
        await self._writer.do(consumption.report_retry, (execution_id, due_at))
