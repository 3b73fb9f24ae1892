"""Consumption: which providers know it, and the outcomes that they are still to be told (AAP, consumption)."""

from wakegate_schema.records import Execution
from wakegate_schema.store.transaction import Transaction, each
from wakegate_schema.store.verbs import anomalies, executions, mapping


def is_known(tx: Transaction, provider: str) -> bool:
    """Return whether a provider has shown that it knows consumption."""
    return tx.first("consuming_provider", {"provider": provider}) is not None


@each
def note(tx: Transaction, item: tuple[str, int]) -> None:
    """Keep for good that a provider knows consumption."""
    provider, at = item
    tx.change("consuming_provider_note", {"provider": provider, "at": at})


@each
def in_vain(tx: Transaction, item: tuple[str, int, int]) -> bool:
    """Owe the word that a consumed call, which was ended meanwhile, never ran."""
    execution_id, consumed_at, at = item
    params = {"execution_id": execution_id, "consumed_at": consumed_at, "at": at}
    return tx.change("consumed_in_vain", params) == 1


@each
def take_reports(tx: Transaction, item: tuple[int, int, int]) -> list[Execution]:
    """Return what owes its provider a report."""
    limit, at, until = item
    return mapping.executions(tx.all("lease_reports", {"limit": limit, "at": at, "until": until}))


@each
def report_settled(tx: Transaction, item: tuple[str, str | None, str | None, int]) -> None:
    """No report is owed any more; keep what the provider has on record against it, or why it was never told."""
    execution_id, conflict, given_up, at = item
    tx.change("report_settled", {"execution_id": execution_id})
    if conflict is not None:
        _note(tx, execution_id, "outcome_conflict", conflict, at)
    if given_up is not None:
        _note(tx, execution_id, "report_given_up", given_up, at)


@each
def report_retry(tx: Transaction, item: tuple[str, int]) -> None:
    """Try the report again later."""
    execution_id, due_at = item
    tx.change("report_retry", {"execution_id": execution_id, "due_at": due_at})


def _note(tx: Transaction, execution_id: str, kind: str, detail: str, at: int) -> None:
    row = executions.require(tx, execution_id)
    anomalies.note(
        tx, kind=kind, provider=row["provider"], instance_id=row["instance_id"], subject_id=execution_id,
        detail=detail, at=at,
    )  # fmt: skip
