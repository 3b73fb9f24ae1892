"""Adoption's rules: whose run a request belongs to, and what is done next."""

from typing import Any

from support.tables import each_row
from wakegate_schema import timestamps
from wakegate_schema.clock import DAY, MINUTE, SECOND
from wakegate_schema.records import Adoption
from wakegate_schema.wire import ApprovalRequest, object_from
from wakegate_worker.adoption_rules import End, Handle, Look, Run, after_run, handle_of, next_step

CREATED = timestamps.parse("2026-12-01T10:00:00Z")
NOW = CREATED + 10 * MINUTE
EXPIRES = CREATED + 15 * MINUTE


def adoption(**changes: Any) -> Adoption:
    plain: dict[str, Any] = {
        "number": 1, "provider": "p", "instance_id": "i", "request_id": "r", "state": "owed", "reason": None,
        "framework": "langgraph", "thread": "t", "problem": None, "tries": 0, "due_at": NOW, "lease_number": 1,
        "runs": 0, "well_runs": 0, "run_began_at": None, "run_until": None, "last_end": None, "created_at": CREATED,
        "ended_at": None,
    }  # fmt: skip
    return Adoption(**(plain | changes))


def request(
    status: str = "approved", *, resume: Any = None, consumed: bool = False, outcome: str | None = None
) -> ApprovalRequest:
    value: dict[str, Any] = {
        "id": "846c4074-1351-44d3-a98e-f3b8009df8c5", "tool": "refund", "arguments": {}, "timeout": "30m",
        "status": status, "created_at": timestamps.render(CREATED), "deadline_at": timestamps.render(CREATED + DAY),
    }  # fmt: skip
    if resume is not None:
        value["context"] = {"resume": resume}
    if status != "pending":
        value["decision"] = {"status": status, "decided_at": timestamps.render(CREATED + MINUTE)}
    if status == "approved":
        value["decision"]["expires_at"] = timestamps.render(EXPIRES)
    if consumed:
        value["consumption"] = {"consumed_at": timestamps.render(CREATED + 2 * MINUTE)}
    if outcome is not None:
        value["consumption"]["outcome"] = {"status": outcome, "reported_at": timestamps.render(CREATED + 3 * MINUTE)}
    return object_from(ApprovalRequest, value)


@each_row(
    ("resume", "thread"),
    [
        ({"framework": "langgraph", "thread_id": "t", "assistant_id": "a"}, '{"thread_id":"t"}'),
        ({"framework": "pydantic-ai", "conversation_id": "c"}, '{"conversation_id":"c"}'),
        ({"framework": "openai-agents", "run_id": "r"}, '{"run_id":"r"}'),
        (
            {"session_id": "s", "user_id": "u", "app_name": "a", "framework": "adk"},
            '{"app_name":"a","session_id":"s","user_id":"u"}',
        ),
        ({"framework": "claude-agent-sdk", "session_id": "s", "tool_use_id": "x"}, '{"session_id":"s"}'),
        ({"z": 1, "framework": "mine", "a": [True]}, '{"a":[true],"framework":"mine","z":1}'),
    ],
)
def test_the_thread_is_what_names_the_run(resume: dict[str, Any], thread: str) -> None:
    assert handle_of(request(resume=resume)) == Handle(resume["framework"], thread, resume)


def test_a_long_thread_is_named_by_its_hash() -> None:
    long = [request(resume={"framework": "langgraph", "thread_id": end * 5000, "step": end}) for end in "ab"]
    handles = [handle_of(each) for each in long]
    threads = {each.thread for each in handles if each is not None}
    assert len(threads) == 2
    assert all(thread.startswith("sha256:") and len(thread) < 100 for thread in threads)


@each_row(
    "resume",
    [None, "langgraph", [], {}, {"framework": 5}, *({"framework": name} for name in ("", "A", "a\0", "a" * 65)),
     {"thread_id": "t"}],
)  # fmt: skip
def test_what_names_no_framework_has_no_handle(resume: Any) -> None:
    assert handle_of(request(resume=resume)) is None


WELL = {"runs": 1, "well_runs": 1, "last_end": "well", "run_began_at": CREATED + 3 * MINUTE}
TOLD = {"runs": 5, "well_runs": 5, "last_end": "well"}


@each_row(
    ("stands", "found", "now", "step"),
    [
        ({}, request(), NOW, Run()),
        ({}, request(consumed=True), NOW, Run()),
        (WELL, request(consumed=True), NOW, End("consumed")),
        ({**WELL, "runs": 2}, request(consumed=True), NOW, End("consumed_in_doubt")),
        ({**WELL, "runs": 2}, request(consumed=True, outcome="failed"), NOW, End("consumed")),
        ({**WELL, "last_end": "badly"}, request(consumed=True), NOW, Run()),
        (WELL, request(), NOW, Run()),
        (TOLD, request(), NOW, Run()),
        ({**WELL, "run_began_at": EXPIRES - 1}, request(), EXPIRES, Run()),
        ({**WELL, "run_began_at": EXPIRES}, request(), EXPIRES, End("approval_expired")),
        ({**WELL, "run_began_at": EXPIRES, "last_end": "badly"}, request(), EXPIRES, Run()),
        *(({}, request(status), NOW, Run()) for status in ("denied", "expired", "cancelled")),
        *((WELL, request(status), NOW, Run()) for status in ("denied", "expired", "cancelled")),
        *((TOLD, request(status), NOW, End(status)) for status in ("denied", "expired", "cancelled")),
        ({**TOLD, "last_end": "badly"}, request("denied"), NOW, Run()),
        ({}, request("pending"), NOW, Look(NOW + SECOND, "pending_after_notification")),
        ({"tries": 2}, request("pending"), NOW, Look(NOW + 4 * SECOND, "pending_after_notification")),
        ({"tries": 50}, request("pending"), NOW, Look(NOW + MINUTE, "pending_after_notification")),
        ({}, request(), CREATED + 8 * DAY, End("given_up")),
        ({}, request("pending"), CREATED + 8 * DAY, End("given_up")),
    ],
)
def test_what_is_done_next(stands: dict[str, Any], found: ApprovalRequest, now: int, step: Run | Look | End) -> None:
    assert next_step(adoption(**stands), found, now) == step


@each_row(
    ("stands", "well", "pause"),
    [
        ({}, True, SECOND),
        ({"well_runs": 1}, True, 10 * SECOND),
        ({"well_runs": 2}, True, MINUTE),
        ({"well_runs": 3}, True, 10 * MINUTE),
        ({"well_runs": 40}, True, 10 * MINUTE),
        ({}, False, SECOND),
        ({"tries": 1, "well_runs": 4}, False, 10 * SECOND),
        ({"tries": 9}, False, 10 * MINUTE),
    ],
)
def test_pauses_grow(stands: dict[str, Any], well: bool, pause: int) -> None:
    assert after_run(adoption(**stands), request(), began_at=NOW, well=well, now=NOW) == NOW + pause


@each_row(
    ("stands", "found", "began_at", "now"),
    [
        ({"well_runs": 4}, request("denied"), NOW, NOW),
        ({}, request(consumed=True), NOW, NOW),
        ({}, request(), EXPIRES, EXPIRES),
    ],
)
def test_after_the_last_run_it_is_read_at_once(
    stands: dict[str, Any], found: ApprovalRequest, began_at: int, now: int
) -> None:
    assert after_run(adoption(**stands), found, began_at=began_at, well=True, now=now) == now
