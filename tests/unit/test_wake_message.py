"""What a group's wake tells: every call in the order in which they were saved, within a bound that it tells of."""

import json
from typing import Any

from support.executions import CREATED, INSTANCE_ID, an_execution
from wakegate_schema.records import Execution, Wake
from wakegate_schema.states import State
from wakegate_worker.wake_message import GROUP_LIMIT, GroupTold, message_of

GROUP = "turn-7"


def a_wake() -> Wake:
    """The wake of a group."""
    return Wake("a_5", "a", 5, "mine", "owed", 0, None, CREATED, CREATED, None, State.DENIED, group_number=1)


def resolved(number: int, result: bytes | None = b"1", **changes: Any) -> Execution:
    """A call of the group that is resolved."""
    state = State.SUCCEEDED if result is not None else State.DENIED
    return an_execution(
        execution_id=f"id-{number}", group=GROUP, state=state, result=result, finished_at=CREATED, **changes
    )


def told(*executions: Execution) -> dict[str, Any]:
    """The message about these calls."""
    group = GroupTold()
    for number, execution in enumerate(executions):
        group.add(execution, f"id-{number}_6")
    body = message_of(a_wake(), group)
    assert len(body) < GROUP_LIMIT + 1000
    message: dict[str, Any] = json.loads(body)
    return message


def test_a_group_is_told_of_as_a_whole_in_its_order() -> None:
    message = told(resolved(0, b'{"refunded": 4900}'), resolved(1, None))
    assert (message["type"], message["timestamp"]) == ("group.resolved", "2026-09-16T12:00:00Z")
    data = message["data"]
    assert list(data) == ["group", "instance_id", "count", "left_out", "resolutions"]
    assert (data["group"], data["instance_id"], data["count"], data["left_out"]) == (GROUP, INSTANCE_ID, 2, None)
    assert [(each["id"], each["state"], each["result"]) for each in data["resolutions"]] == [
        ("id-0_6", "succeeded", {"refunded": 4900}),
        ("id-1_6", "denied", None),
    ]


def test_results_that_are_too_large_together_are_all_left_out_and_that_is_said() -> None:
    large = json.dumps("x" * (GROUP_LIMIT // 3)).encode()
    assert told(resolved(0, large), resolved(1, b"2"))["data"]["left_out"] is None
    data = told(resolved(0, b"1"), *(resolved(number, large) for number in range(1, 5)))["data"]
    assert (data["left_out"], data["count"]) == ("results", 5)
    assert [each["state"] for each in data["resolutions"]] == ["succeeded"] * 5
    assert {each["result"] for each in data["resolutions"]} == {None}


def test_so_many_calls_that_they_do_not_fit_at_all_are_counted() -> None:
    data = told(*(resolved(number, None, note="n" * 1000) for number in range(700)))["data"]
    assert data == {
        "group": GROUP, "instance_id": INSTANCE_ID, "count": 700, "left_out": "resolutions", "resolutions": [],
    }  # fmt: skip


def test_a_result_that_json_cannot_carry_keeps_nobody_from_hearing_of_the_rest() -> None:
    data = told(resolved(0, b"1"), resolved(1, b"1e999"), resolved(2, b"2"))["data"]
    assert (data["left_out"], data["count"]) == ("results", 3)
    assert [each["state"] for each in data["resolutions"]] == ["succeeded"] * 3
    assert {each["result"] for each in data["resolutions"]} == {None}
