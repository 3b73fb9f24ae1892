"""Saving: a call becomes an execution on record."""

from dataclasses import dataclass

from wakegate_schema import clock, ids
from wakegate_schema.calls.call import Call
from wakegate_schema.calls.choosing import choose
from wakegate_schema.calls.errors import CallRefused
from wakegate_schema.calls.scope import Scope
from wakegate_schema.records import Execution, Runs, Suspension
from wakegate_schema.store import Store
from wakegate_schema.wake_targets import NONE, wake_name


@dataclass(frozen=True, slots=True)
class Saved:
    """A call on record."""

    execution: Execution
    created: bool
    """Whether this saved it; False when its key had saved it before."""


async def save(
    store: Store, scope: Scope, call: Call, runs: Runs, wake: str, hold: tuple[str, int] | None = None
) -> Saved:
    """Save a call, or find what its key saved before.

    Args:
        store: where to.
        scope: who saves it, and under which instances they may.
        call: what is to be approved and run.
        runs: `worker` or `harness`.
        wake: `none`, or the name of a wake target.
        hold: the id of the hold that waits for it, if one does, and how long that lasts, µs.

    Raises:
        CallRefused, InstanceUnclear, KeyConflict, NotAllowed: see `Calls.suspend`.
    """
    if runs not in ("worker", "harness"):
        raise CallRefused("runs", "it must be worker or harness", reason="bad_runs")
    _check_wake(wake)
    instance = choose(scope.within(await store.instances()), call.instance)
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
        hold_id=None if hold is None else hold[0],
        hold_until=None if hold is None else at + hold[1],
        actor=scope.actor,
    )
    execution = await store.save(suspension)
    return Saved(execution, execution.execution_id == suspension.execution_id)


def _check_wake(wake: str) -> None:
    """Check the name's form; which targets there are, only the worker's settings say."""
    if wake == NONE:
        return
    try:
        wake_name(wake)
    except ValueError as error:
        raise CallRefused("wake", str(error), reason="bad_wake") from None
