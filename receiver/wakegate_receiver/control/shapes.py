"""Shapes: what the control API answers, as types; the values are made here and nowhere else."""

import json
from collections.abc import Sequence
from typing import Any, Final, Literal, cast

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from wakegate_schema import timestamps
from wakegate_schema.calls import Standing, Taken
from wakegate_schema.records import Instance
from wakegate_schema.states import State

STRICT: Final = ConfigDict(extra="forbid", use_attribute_docstrings=True)


@with_config(STRICT)
class ResolutionJson(TypedDict):
    """Where a call stands, and for a resolved one how it ended. Times are RFC 3339, UTC."""

    id: str
    """The version: another one after every change, and the same for every repeat of one."""
    execution_id: str
    key: str
    instance_id: str
    request_id: str | None
    tool: str
    state: State
    reason: str | None
    """Machine word for the last change of state (docs/reasons.md)."""
    note: str | None
    """What the approver wrote."""
    decided_at: str | None
    expires_at: str | None
    result: Any
    error: str | None
    finished_at: str | None
    group: str | None


@with_config(STRICT)
class StandingJson(ResolutionJson):
    """Where a call stands, and what is not told of in a resolution."""

    explanation: str
    """One sentence for the agent."""
    runs: Literal["worker", "harness"]
    wake: str
    problem: str | None
    """What keeps the call from going on, while it is being retried."""
    hold_id: str | None
    created_at: str
    deadline_at: str | None
    claim_id: str | None
    started_at: str | None


@with_config(STRICT)
class SavedJson(StandingJson):
    """Where a saved call stands."""

    created: bool
    """Whether this request saved it; false when its key had saved it before."""


@with_config(STRICT)
class InstanceJson(TypedDict):
    """An instance that the harness may use."""

    instance_id: str
    name: str
    state: Literal["active", "parked", "retired"]


@with_config(STRICT)
class HarnessJson(TypedDict):
    """Who asks."""

    harness: str | None
    """The harness's name; null for the receiver's own user, who may use every instance."""
    instances: list[InstanceJson]


@with_config(STRICT)
class PageJson(TypedDict):
    """Some of the calls, the latest first."""

    executions: list[StandingJson]
    next: int | None
    """What to hand in as `before` for the next page; null at the end."""


@with_config(STRICT)
class GroupJson(TypedDict):
    """The calls of a group, the first saved first."""

    executions: list[StandingJson]
    next: int | None
    """What to hand in as `after` for the next page; null at the end."""


@with_config(STRICT)
class HeldJson(TypedDict):
    """Whether the hold still holds."""

    held: bool
    """False when it was lost: the call is, or will be, abandoned."""


@with_config(STRICT)
class AttemptJson(TypedDict):
    """The right to run the call once, from now on."""

    number: int
    token: str
    arguments: dict[str, Any]
    """What was approved, exactly."""
    idempotency_key: str
    """For the API that the call calls: the same in every repeat."""
    lease_seconds: float
    """How long the attempt lasts without being renewed."""
    start_before: str
    """The call begins before, or not at all."""


@with_config(STRICT)
class ClaimedJson(TypedDict):
    """A claimed call."""

    execution: StandingJson
    attempt: AttemptJson


@with_config(STRICT)
class RenewedJson(TypedDict):
    """Whether the attempt's lease was lengthened."""

    kept: bool
    """False when it was lost: the call is in doubt, or settled."""
    settled: bool
    """True when nothing more can be said of this attempt."""


def standing(found: Standing) -> StandingJson:
    """Return where a call stands."""
    resolution = found.resolution
    told = cast("ResolutionJson", resolution.to_json())
    return StandingJson(
        **told,
        explanation=resolution.explanation,
        runs=found.runs,
        wake=found.wake,
        problem=found.problem,
        hold_id=found.hold_id,
        created_at=timestamps.render(found.created_at),
        deadline_at=timestamps.render_known(found.deadline_at),
        claim_id=found.claim_id,
        started_at=timestamps.render_known(found.started_at),
    )


def standings(found: Sequence[Standing]) -> list[StandingJson]:
    """Return where calls stand."""
    return [standing(each) for each in found]


def instance(found: Instance) -> InstanceJson:
    """Return an instance."""
    return InstanceJson(instance_id=found.instance_id, name=found.name, state=found.state)


def claimed(taken: Taken) -> ClaimedJson | None:
    """Return a claimed call; None when the claim was refused."""
    if taken.grant is None or taken.refusal is not None:
        return None
    return ClaimedJson(
        execution=standing(taken.standing),
        attempt=AttemptJson(
            number=taken.grant.number,
            token=taken.grant.token,
            arguments=taken.arguments or {},
            idempotency_key=taken.idempotency_key,
            lease_seconds=taken.lease_seconds,
            start_before=timestamps.render(taken.start_before or 0),
        ),
    )


def dumps(value: object) -> bytes:
    """Write an answer. What the store keeps as JSON comes out as it went in."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
