"""Where a call stands for its harness, and what taking one came to."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wakegate_schema.calls.grant import Grant
from wakegate_schema.downstream import downstream_key
from wakegate_schema.records import Execution, Outcome, Runs
from wakegate_schema.resolution import Resolution
from wakegate_schema.states import OLDER_EPOCH, RESOLVED, State


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a call stands: its resolution so far, and what is not told of in a resolution."""

    resolution: Resolution
    runs: Runs
    wake: str
    problem: str | None
    """What keeps the call from going on, while it is being retried."""
    hold_id: str | None
    """The hold that waits for it, or waited."""
    created_at: int
    deadline_at: int | None
    claim_id: str | None
    started_at: int | None

    @property
    def version(self) -> str:
        """Another one after every transition: the resolution's id."""
        return self.resolution.id

    @property
    def state(self) -> State:
        """The state."""
        return self.resolution.state

    @property
    def resolved(self) -> bool:
        """Whether no arrow leaves the state."""
        return self.state in RESOLVED

    @property
    def awaits_harness(self) -> bool:
        """Whether the next step is the harness's own: a permitted call that it runs, not held for a release."""
        return self.state is State.PERMITTED and self.runs == "harness" and self.problem != OLDER_EPOCH


def standing_of(execution: Execution, resolution: Resolution) -> Standing:
    """Return where an execution stands; `resolution` tells of its present state."""
    return Standing(
        resolution=resolution,
        runs=execution.runs,
        wake=execution.wake,
        problem=execution.problem,
        hold_id=execution.hold_id,
        created_at=execution.created_at,
        deadline_at=execution.deadline_at,
        claim_id=execution.claim_id,
        started_at=execution.started_at,
    )


@dataclass(frozen=True, slots=True)
class Taken:
    """What taking a call came to: a grant, or the reason why there is none."""

    standing: Standing
    explanation: str
    """One sentence for the agent."""
    refusal: str | None
    """None if the call is to be run now, by whoever took it; else a machine word."""
    grant: Grant | None = None
    arguments_json: bytes | None = field(default=None, repr=False)
    lease_seconds: float = 0.0
    """How long the lease lasts without being renewed."""
    start_before: int | None = None
    """When the approval ends by the clock that is furthest ahead, µs: the call begins before, or not at all."""
    unfit: Callable[[], Outcome | None] | None = field(default=None, repr=False, compare=False)
    """Looks once more at every clock of this process: None if the call may still begin, else the outcome to record."""

    @property
    def resolution(self) -> Resolution:
        """The call as it stood when it was taken."""
        return self.standing.resolution

    @property
    def permitted(self) -> bool:
        """Whether the call is to be run now, by whoever took it."""
        return self.refusal is None and self.grant is not None

    @property
    def arguments(self) -> dict[str, Any] | None:
        """The saved arguments as stdlib json reads them, a new dict each time; None when it is not permitted."""
        return None if self.arguments_json is None else json.loads(self.arguments_json)

    @property
    def idempotency_key(self) -> str:
        """For the API that the call calls: the same for every look at this execution, and no other has it."""
        return downstream_key(self.resolution.execution_id)
