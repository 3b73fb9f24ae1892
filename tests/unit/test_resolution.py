"""A resolution says where a call stands, and keeps the ways of not running apart."""

import json
import re

from support.executions import CREATED, DECIDED, EXPIRES, REQUEST_ID, an_execution
from support.tables import each_row
from wakegate_schema.resolution import resolution_of
from wakegate_schema.states import State

WAKE = "5f1c2c1e-9a55-4f0e-8d0f-4f2f8f5f2a11"


def test_a_resolution_carries_what_the_execution_says() -> None:
    execution = an_execution(
        state=State.SUCCEEDED,
        reason="returned",
        note="fine",
        decided_at=DECIDED,
        expires_at=EXPIRES,
        result=b'{"refund": "r-1", "rate": 0.1}',
        finished_at=DECIDED + 1,
        group="turn-1",
    )
    assert resolution_of(execution, WAKE).to_json() == {
        "id": WAKE,
        "execution_id": execution.execution_id,
        "key": "run-7:call-2",
        "instance_id": execution.instance_id,
        "request_id": REQUEST_ID,
        "tool": "issue_refund",
        "state": "succeeded",
        "reason": "returned",
        "note": "fine",
        "decided_at": "2026-09-16T12:02:00Z",
        "expires_at": "2026-09-16T12:07:00Z",
        "result": {"refund": "r-1", "rate": 0.1},
        "error": None,
        "finished_at": "2026-09-16T12:02:00.000001Z",
        "group": "turn-1",
    }


def test_a_result_reads_as_the_standard_library_reads_it() -> None:
    result = resolution_of(an_execution(state=State.SUCCEEDED, result=b"0.10"), WAKE).result
    assert result == 0.1
    assert type(result) is float


def test_a_result_of_null_and_none_at_all_both_read_as_none() -> None:
    assert resolution_of(an_execution(state=State.SUCCEEDED, result=b"null"), WAKE).result is None
    assert resolution_of(an_execution(state=State.SUCCEEDED), WAKE).result is None


def test_a_resolution_is_json() -> None:
    values = resolution_of(an_execution(state=State.DENIED, note="no"), WAKE).to_json()
    assert json.loads(json.dumps(values)) == values


def test_a_wake_for_an_earlier_state_tells_nothing_of_what_came_later() -> None:
    execution = an_execution(
        state=State.SUCCEEDED, reason="settled", decided_at=DECIDED, result=b"1", error="e", finished_at=CREATED
    )
    resolution = resolution_of(execution, WAKE, State.IN_DOUBT)
    assert resolution.state is State.IN_DOUBT
    assert (resolution.reason, resolution.result, resolution.error, resolution.finished_at) == (None,) * 4
    assert resolution.decided_at == DECIDED


@each_row("state", State)
def test_every_state_is_explained_in_one_sentence_of_its_own(state: State) -> None:
    sentence = resolution_of(an_execution(state=state), WAKE).explanation
    assert re.fullmatch(r"[A-Z][^.]*\.", sentence)
    undecided = {State.SAVED, State.SUBMITTING, State.WAITING}
    others = [other for other in State if other is not state and not {state, other} <= undecided]
    assert sentence not in {resolution_of(an_execution(state=other), WAKE).explanation for other in others}


@each_row("state", [state for state in State if state is not State.DENIED])
def test_only_a_denial_is_called_one(state: State) -> None:
    execution = an_execution(state=state, note="denied before", error="it broke")
    assert not re.search("den(y|ied|ial)|reject", resolution_of(execution, WAKE).explanation)


def test_a_denial_is_explained_with_its_note_on_one_line() -> None:
    execution = an_execution(state=State.DENIED, note="too much,\n ask finance")
    assert resolution_of(execution, WAKE).explanation == (
        'The call was denied and did not run; the note says: "too much, ask finance".'
    )


def test_a_failure_is_explained_with_its_error() -> None:
    execution = an_execution(state=State.FAILED, error="card declined.")
    assert resolution_of(execution, WAKE).explanation.endswith("did not take effect: card declined.")


@each_row(
    "state",
    [State.DENIED, State.EXPIRED, State.CANCELLED, State.LAPSED, State.REFUSED, State.UNOBTAINED, State.ABANDONED],
)
def test_a_call_that_did_not_run_is_said_not_to_have_run(state: State) -> None:
    assert "did not run" in resolution_of(an_execution(state=state), WAKE).explanation


def test_a_resolution_does_not_show_notes_or_results_in_its_repr() -> None:
    execution = an_execution(state=State.SUCCEEDED, note="n-secret", result=b'"r-secret"', error="e-secret")
    assert "secret" not in repr(resolution_of(execution, WAKE))
