"""Telling: where a call stands, read from the store."""

from wakegate_schema.calls.standing import Standing, standing_of
from wakegate_schema.records import Execution
from wakegate_schema.resolution import resolution_of
from wakegate_schema.store import Store


async def tell(store: Store, execution: Execution) -> Standing:
    """Return where an execution stands, under the id that its wake has too."""
    transitions = await store.transitions(execution.execution_id)
    *_, told = (found for found in transitions if found.to_state is execution.state)  # a release enters it again
    return standing_of(execution, resolution_of(execution, told.wake_id))
