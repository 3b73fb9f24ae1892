"""The refusal: why a call may not be claimed. Pure."""

from wakegate_schema import timestamps
from wakegate_schema.calls.standing import Standing
from wakegate_schema.states import OLDER_EPOCH, State

Refusal = tuple[str, str]
"""A machine word, and one sentence for the agent."""


def refusal_of(standing: Standing) -> Refusal:
    """Return why a call that stands like this may not be claimed."""
    if standing.state is State.STARTED and standing.started_at is not None:
        who = f"claim {standing.claim_id}" if standing.claim_id else "the worker"
        when = timestamps.render(standing.started_at)
        return "already_started", f"The call was already started, at {when} by {who}, and is not started again."
    if standing.runs == "worker" and not standing.resolved:
        return "runs_in_worker", "The worker runs this call when it is approved; a harness cannot claim it."
    if standing.problem == OLDER_EPOCH:
        return OLDER_EPOCH, (
            "The store has gone back in time, and the call may have been started before that; it is not started unless"
            " an operator releases it."
        )
    if standing.state is State.PERMITTED:
        return "too_late", "The call was approved, but too little time is left before that ends, so it does not run."
    return standing.state.value, standing.resolution.explanation


def clock_behind(highest: int) -> Refusal:
    """Return that the host's clock is behind `highest`, a time it has shown before (µs)."""
    return "clock_behind", (
        f"The clock of this host is behind {timestamps.render(highest)}, a time it has shown before, so no call may"
        " start here; correct the clock, or have an operator reset the mark (`wakegate clock reset`)."
    )
