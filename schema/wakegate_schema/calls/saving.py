"""Saving: a call becomes an execution on record."""

from wakegate_schema import clock, ids
from wakegate_schema.calls.call import Call
from wakegate_schema.calls.choosing import choose
from wakegate_schema.calls.errors import CallRefused
from wakegate_schema.records import Execution, Runs, Suspension
from wakegate_schema.store import Store
from wakegate_schema.wake_targets import NONE, wake_name


async def save(
    store: Store, call: Call, runs: Runs, wake: str, *, hold_id: str | None = None, hold: int = 0
) -> tuple[Execution, bool]:
    """Save a call, or find what its key saved before.

    Args:
        store: where to.
        call: what is to be approved and run.
        runs: `worker` or `harness`.
        wake: `none`, or the name of a wake target.
        hold_id: the hold that waits for it, if one does.
        hold: how long that hold lasts, µs.

    Returns:
        The execution, and whether this saved it.

    Raises:
        CallRefused, InstanceUnclear, KeyConflict, NotAllowed: see `Adapter.suspend`.
    """
    if runs not in ("worker", "harness"):
        raise CallRefused("runs", "it must be worker or harness", reason="bad_runs")
    _check_wake(wake)
    instance = choose(await store.instances(), call.instance)
    at = clock.now()
    suspension = Suspension(
        execution_id=ids.new(),
        provider=instance.provider,
        instance_id=instance.instance_id,
        idempotency_key=call.key,
        tool=call.tool,
        arguments=call.arguments_json,
        context=call.context_json,
        reasoning=call.reasoning,
        timeout=call.timeout,
        tool_version=call.version,
        runs=runs,
        wake=wake,
        group=call.group,
        at=at,
        hold_id=hold_id,
        hold_until=None if hold_id is None else at + hold,
    )
    execution = await store.save(suspension)
    return execution, execution.execution_id == suspension.execution_id


def _check_wake(wake: str) -> None:
    """Check the name's form; which targets there are, only the worker's settings say."""
    if wake == NONE:
        return
    try:
        wake_name(wake)
    except ValueError as error:
        raise CallRefused("wake", str(error), reason="bad_wake") from None
