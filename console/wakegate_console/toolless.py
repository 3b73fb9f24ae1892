"""Calls whose tool no living worker has: shown as what keeps them from going on, though nothing is on record of it."""

from collections.abc import Collection
from dataclasses import replace

from wakegate_schema import clock
from wakegate_schema.records import Execution
from wakegate_schema.states import NO_WORKER_HAS_THE_TOOL, UNDECIDED
from wakegate_schema.store import Store

Missing = Collection[tuple[str, str | None]]
"""Tools and their versions, as calls declare them."""


async def missing_now(store: Store) -> Missing:
    """Return the tools that calls name and no living worker has."""
    return {(one.tool, one.version) for one in await store.missing_tools(clock.now())}


def shown(record: Execution, missing: Missing) -> Execution:
    """Return an execution with the problem that it has beside those on record."""
    waits = record.runs == "worker" and record.state in UNDECIDED and record.problem is None
    if waits and (record.tool, record.tool_version or None) in missing:
        return replace(record, problem=NO_WORKER_HAS_THE_TOOL)
    return record
