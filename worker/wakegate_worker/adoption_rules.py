"""Adoption's rules: whose run waits for a request, and what is done for it next. Pure; no clock, no I/O.

A resumer that returns says nothing: the checkpoint may not have been written yet, or the thread may have waited for
another request. So it is run again until a read shows that the run went on (docs/decisions/0027).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from wakegate_schema import strict_json, timestamps
from wakegate_schema.clock import MINUTE, SECOND
from wakegate_schema.records import Adoption
from wakegate_schema.states import GIVE_UP_AFTER
from wakegate_schema.wire import ApprovalRequest

PAUSES: Final = (1 * SECOND, 10 * SECOND, 1 * MINUTE, 10 * MINUTE)
"""Pauses between the runs, in µs; the last one for good (DESIGN, adopted wakes)."""
ENOUGH: Final = len(PAUSES) + 1
"""Runs that ended well, after which a request without an approval is taken for told."""
PENDING_LOOKS: Final = (1 * SECOND, 2 * SECOND, 4 * SECOND, 15 * SECOND, 1 * MINUTE)
"""Pauses between looks at a request that is pending although its notification came, in µs."""
PENDING_AFTER_NOTIFICATION: Final = "pending_after_notification"

NO_RESUME_HANDLE: Final = "no_resume_handle"
CONSUMED: Final = "consumed"
APPROVAL_EXPIRED: Final = "approval_expired"
GIVEN_UP: Final = "given_up"

_THREADS: Final[Mapping[str, tuple[str, ...]]] = {
    "langgraph": ("thread_id",),
    "pydantic-ai": ("conversation_id",),
    "openai-agents": ("run_id",),
    "adk": ("app_name", "user_id", "session_id"),
    "claude-agent-sdk": ("session_id",),
}
"""The members of a handle that name the run it belongs to, by framework."""


@dataclass(frozen=True, slots=True)
class Handle:
    """What a harness wrote into a request's context, so that its run can be found again."""

    framework: str
    thread: str
    """The run, as canonical JSON."""
    value: Mapping[str, Any]
    """All of it, for the resumer."""


@dataclass(frozen=True, slots=True)
class Run:
    """Run the resumer now."""


@dataclass(frozen=True, slots=True)
class Look:
    """Read the request again then."""

    due_at: int
    problem: str


@dataclass(frozen=True, slots=True)
class End:
    """Nothing more is to be done."""

    reason: str


def handle_of(request: ApprovalRequest) -> Handle | None:
    """Return the handle in a request's `context.resume`; None when there is none that names a framework."""
    value = (request.context or {}).get("resume")
    framework = value.get("framework") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(framework, str) or not framework:
        return None
    names = _THREADS.get(framework)
    named = {name: value.get(name) for name in names} if names else value
    return Handle(framework, strict_json.dumps(dict(sorted(named.items()))).decode(), value)


def next_step(adoption: Adoption, request: ApprovalRequest, now: int) -> Run | Look | End:
    """Say what is done for an adoption whose request was just read.

    Args:
        adoption: one that is owed and due.
        request: what the provider says.
        now: wall clock, µs.
    """
    if now >= adoption.created_at + GIVE_UP_AFTER:
        return End(GIVEN_UP)
    if request.decision is None:
        pause = PENDING_LOOKS[min(adoption.tries, len(PENDING_LOOKS) - 1)]
        return Look(now + pause, PENDING_AFTER_NOTIFICATION)
    if adoption.last_end == "well" and (reason := _why_enough(adoption, request, now)) is not None:
        return End(reason)
    return Run()


def after_run(adoption: Adoption, *, well: bool, now: int) -> int:
    """Return when to read the request again after a run, µs.

    Args:
        adoption: as it was before the run.
        well: whether the run has ended by returning.
        now: wall clock, µs.
    """
    before = adoption.well_runs if well else adoption.tries
    return now + PAUSES[min(before, len(PAUSES) - 1)]


def _why_enough(adoption: Adoption, request: ApprovalRequest, now: int) -> str | None:
    """Return why a run that ended well was the last; None when another is to follow."""
    if request.consumption is not None:
        return CONSUMED  # read after that run, which has seen what the one that consumed left
    if request.decision is None or request.decision.expires_at is None:
        return request.status if adoption.well_runs >= ENOUGH else None
    expires_at = timestamps.parse(request.decision.expires_at)
    saw_the_end = adoption.run_began_at is not None and adoption.run_began_at >= expires_at
    return APPROVAL_EXPIRED if saw_the_end and now >= expires_at else None
