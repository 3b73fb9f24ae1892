"""Adoption's rules: whose run waits for a request, and what is done for it next. Pure; no clock, no I/O.

A resumer that returns says nothing: the checkpoint may not have been written yet, or the thread may have waited for
another request. So it is run again until a read shows that the run went on (docs/decisions/0027).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from wakegate_schema import strict_json, timestamps
from wakegate_schema.clock import MINUTE, SECOND
from wakegate_schema.records import Adoption
from wakegate_schema.setting_types import FRAMEWORK
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
CONSUMED_IN_DOUBT: Final = "consumed_in_doubt"
APPROVAL_EXPIRED: Final = "approval_expired"
GIVEN_UP: Final = "given_up"

_LONGEST_THREAD: Final = 1000
"""Bytes of a thread that are kept as they are: an index holds no more than 2,700. A longer one is kept as its hash."""
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
    """The run, as canonical JSON; the hash of that where it is long."""
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
    """Return the handle in a request's `context.resume`; None when there is none for any resumer."""
    value = (request.context or {}).get("resume")
    framework = value.get("framework") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(framework, str) or not FRAMEWORK.fullmatch(framework):
        return None
    names = _THREADS.get(framework)
    named = {name: value.get(name) for name in names} if names else value
    thread = strict_json.dumps(dict(sorted(named.items())))
    if len(thread) > _LONGEST_THREAD:
        thread = b"sha256:" + hashlib.sha256(thread).hexdigest().encode()
    return Handle(framework, thread.decode(), value)


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


def after_run(adoption: Adoption, request: ApprovalRequest, *, began_at: int, well: bool, now: int) -> int:
    """Return when to read the request again after a run, µs: at once if that was the last.

    Args:
        adoption: as it was before the run.
        request: as it was read before the run.
        began_at: when the run began, µs.
        well: whether it has ended by returning.
        now: wall clock, µs.
    """
    if not well:
        return now + PAUSES[min(adoption.tries, len(PAUSES) - 1)]
    after = replace(adoption, well_runs=adoption.well_runs + 1, run_began_at=began_at)
    if request.consumption is not None or _why_enough(after, request, now) is not None:
        return now
    return now + PAUSES[min(adoption.well_runs, len(PAUSES) - 1)]


def _why_enough(adoption: Adoption, request: ApprovalRequest, now: int) -> str | None:
    """Return why a run that ended well was the last; None when another is to follow."""
    if request.consumption is not None:  # read after that run, which has seen what the one that consumed left
        is_known = request.consumption.outcome is not None or adoption.runs == adoption.well_runs
        return CONSUMED if is_known else CONSUMED_IN_DOUBT
    if request.decision is None or request.decision.expires_at is None:
        return request.status if adoption.well_runs >= ENOUGH else None
    expires_at = timestamps.parse(request.decision.expires_at)
    saw_the_end = adoption.run_began_at is not None and adoption.run_began_at >= expires_at
    return APPROVAL_EXPIRED if saw_the_end and now >= expires_at else None
