"""The boundary: only exactly what was saved, approved and still valid, may start (AAP, execution rules)."""

from typing import Any

import pytest

from support.executions import (
    CREATED,
    DEADLINE,
    DECIDED,
    EXPIRES,
    NOW,
    a_request,
    an_execution,
    approval,
    pending_json,
    unattached,
)
from support.tables import each_row
from wakegate_schema import strict_json
from wakegate_schema.clock import DAY, SECOND
from wakegate_schema.records import Approval, Closing, Execution, RequestIdentity
from wakegate_schema.states import State
from wakegate_schema.timestamps import render
from wakegate_schema.wire import ApprovalRequest, parse_object
from wakegate_worker.boundary import Close, NotYet, Pending, Permit, Refusal, check, identity_of

OTHER_ID = "00000000-0000-4000-8000-000000000000"


def refused(reason: str, *, cancel: bool = False) -> Close:
    return Close(Closing(State.REFUSED, reason, cancel=cancel))


def pending(**changes: Any) -> ApprovalRequest:
    return parse_object(ApprovalRequest, strict_json.dumps(pending_json(**changes)))


def decided(status: str, **changes: Any) -> ApprovalRequest:
    decision = approval(status=status, expires_at=None, **changes)
    return a_request(status=status, decision=decision)


def test_a_matching_approval_permits_until_it_expires() -> None:
    request = a_request(decision=approval(note="fine by me"))
    assert check(an_execution(), request, NOW) == Permit(Approval(DECIDED, EXPIRES, "fine by me"))


def test_an_approval_in_the_answer_to_the_submission_permits() -> None:
    assert check(unattached(), a_request(), NOW) == Permit(Approval(DECIDED, EXPIRES, None))


def test_an_undecided_request_is_pending() -> None:
    assert check(an_execution(), pending(), NOW) == Pending()


def test_a_pending_request_is_pending_however_far_the_providers_clock_is_ahead() -> None:
    assert check(unattached(), pending(), CREATED - DAY) == Pending()


def test_the_identity_to_attach_is_what_the_provider_said() -> None:
    assert identity_of(a_request()) == RequestIdentity(a_request().id, CREATED, DEADLINE)


@each_row(
    ("changes", "reason"),
    [
        ({"id": OTHER_ID}, "request_id_differs"),
        ({"tool": "issue_refunds"}, "tool_differs"),
        ({"tool": "Issue_refund"}, "tool_differs"),
        ({"server": "payments"}, "server_differs"),
        ({"arguments": {"payment_id": "p-9", "amount": 82000, "rate": 0.1}}, "arguments_differ"),
        ({"arguments": {"payment_id": "p-9", "amount": "4900", "rate": 0.1}}, "arguments_differ"),
        ({"arguments": {"payment_id": "p-9", "amount": 4900}}, "arguments_differ"),
        ({"arguments": {"payment_id": "p-9", "amount": 4900, "rate": 0.1, "to": "me"}}, "arguments_differ"),
        ({"arguments": {}}, "arguments_differ"),
        ({"context": {"ticket": "T-2"}}, "context_differs"),
        ({"context": None}, "context_differs"),
        ({"agent_reasoning": "charged thrice"}, "reasoning_differs"),
        ({"agent_reasoning": None}, "reasoning_differs"),
        ({"timeout": "1800s"}, "timeout_differs"),
        ({"created_at": render(CREATED + 1)}, "created_at_differs"),
        ({"deadline_at": render(DEADLINE - 1)}, "deadline_at_differs"),
        (
            {
                "consumption": {
                    "consumed_at": render(DECIDED),
                    "outcome": {"status": "succeeded", "reported_at": render(DECIDED)},
                }
            },
            "already_consumed",
        ),
        ({"decision": approval(note="yes\0no")}, "note_malformed"),
    ],
)
def test_an_approval_of_anything_else_is_refused(changes: dict[str, Any], reason: str) -> None:
    verdict = check(an_execution(), a_request(**changes), NOW)
    assert verdict == refused(reason, cancel=reason == "request_id_differs")


def test_a_consumption_is_no_fault_whose_it_is_is_found_by_asking() -> None:
    shown = check(an_execution(), a_request(consumption={"consumed_at": render(DECIDED)}), NOW)
    assert shown == check(an_execution(), a_request(), NOW)


@each_row(
    ("saved", "shown"),
    [
        (b'{"n": 1}', {"n": True}),
        (b'{"n": true}', {"n": 1}),
        (b'{"n": 0}', {"n": False}),
        (b'{"n": 0}', {"n": None}),
        (b'{"n": 49}', {"n": "49"}),
        (b'{"n": 9007199254740993}', {"n": 9007199254740992}),
        (b'{"n": 0.1}', {"n": 0.30000000000000004}),
        (b'{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567891}),
        (b'{"n": [1, 2]}', {"n": [2, 1]}),
        (b'{"n": "\xc3\xa9"}', {"n": "e\u0301"}),
    ],
)
def test_values_that_only_look_alike_are_refused(saved: bytes, shown: dict[str, Any]) -> None:
    verdict = check(an_execution(arguments=saved), a_request(arguments=shown), NOW)
    assert verdict == refused("arguments_differ")


@each_row(
    ("saved", "shown"),
    [
        (b'{"n": 49}', b'{"n": 49.0}'),
        (b'{"n": 49.0}', b'{"n": 4.9e1}'),
        (b'{"n": 1e16}', b'{"n": 10000000000000000}'),
        (b'{"n": -0.0}', b'{"n": 0}'),
        (b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}'),
        (b'{"s": "\\u00e9"}', b'{"s": "\xc3\xa9"}'),
        (b'{"s": "\\u0000"}', b'{"s": "\\u0000"}'),
        (b"{}", b"{}"),
    ],
)
def test_the_same_values_in_another_spelling_permit(saved: bytes, shown: bytes) -> None:
    request = a_request(arguments=strict_json.parse(shown))
    assert isinstance(check(an_execution(arguments=saved), request, NOW), Permit)


@each_row(("saved", "shown"), [(None, None), (b"{}", None), (None, {}), (b"{}", {})], ids=repr)
def test_no_context_and_an_empty_one_are_the_same(saved: bytes | None, shown: dict[str, Any] | None) -> None:
    assert isinstance(check(an_execution(context=saved), a_request(context=shown), NOW), Permit)


def test_no_reasoning_and_an_empty_one_are_not_the_same() -> None:
    verdict = check(an_execution(reasoning=None), a_request(agent_reasoning=""), NOW)
    assert verdict == refused("reasoning_differs")


@pytest.mark.parametrize("status", ["denied", "expired", "cancelled"])
def test_a_mismatch_counts_more_than_the_decision(status: str) -> None:
    decision = approval(status=status, expires_at=None)
    request = a_request(status=status, decision=decision, tool="other")
    assert check(an_execution(), request, NOW) == refused("tool_differs")


def test_a_pending_request_for_something_else_is_refused_and_cancelled() -> None:
    assert check(an_execution(), pending(tool="other"), NOW) == refused("tool_differs", cancel=True)


def test_a_submission_answered_with_something_else_is_refused_and_cancelled() -> None:
    assert check(unattached(), pending(arguments={"amount": 1}), NOW) == refused("arguments_differ", cancel=True)


@each_row(
    ("changes", "reason"),
    [
        ({"digest": b"\0" * 32}, "digest_differs"),
        ({"arguments": b'{"payment_id": "p-9", "amount": 1}', "digest": an_execution().digest}, "digest_differs"),
        ({"tool_version": "1", "tool": "other", "digest": an_execution().digest}, "digest_differs"),
        ({"arguments": None}, "payload_erased"),
        ({"arguments": b'{"n": NaN}'}, "payload_unreadable"),
        ({"arguments": b'{"n": "\\ud800"}'}, "payload_unreadable"),
        ({"arguments": b'{"n": 1, "n": 2}'}, "payload_unreadable"),
        ({"context": b"{"}, "payload_unreadable"),
    ],
)
def test_a_saved_call_that_is_not_whole_is_refused(changes: dict[str, Any], reason: str) -> None:
    assert check(an_execution(**changes), a_request(), NOW) == refused(reason)


@pytest.mark.parametrize(
    ("status", "state", "reason"),
    [
        ("denied", State.DENIED, "denied"),
        ("expired", State.EXPIRED, "deadline_passed"),
        ("cancelled", State.CANCELLED, "cancelled_at_provider"),
    ],
)
def test_every_other_decision_ends_the_call_as_what_it_is(status: str, state: State, reason: str) -> None:
    verdict = check(an_execution(), decided(status, note="no\0pe"), NOW)
    assert verdict == Close(Closing(state, reason, DECIDED, note="no\N{REPLACEMENT CHARACTER}pe"))


@pytest.mark.parametrize("late", [0, 1, DAY])
def test_an_approval_at_or_past_its_end_has_lapsed(late: int) -> None:
    closing = Closing(State.LAPSED, "approval_expired", DECIDED, EXPIRES)
    assert check(an_execution(), a_request(), EXPIRES + late) == Close(closing)


def test_an_approval_permits_in_its_last_microsecond() -> None:
    assert isinstance(check(an_execution(), a_request(), EXPIRES - 1), Permit)


@each_row("ahead", [1, 300 * SECOND])
@each_row("status", ["approved", "denied", "expired", "cancelled"])
def test_a_decision_a_little_ahead_of_the_clock_is_not_final(ahead: int, status: str) -> None:
    request = a_request() if status == "approved" else decided(status)
    assert check(an_execution(), request, DECIDED - ahead) == NotYet(DECIDED)


@pytest.mark.parametrize("status", ["approved", "denied"])
def test_a_decision_far_ahead_of_the_clock_is_refused(status: str) -> None:
    request = a_request() if status == "approved" else decided(status)
    verdict = check(an_execution(), request, DECIDED - 300 * SECOND - 1)
    assert verdict == refused("time_in_future")


def timed(**times: int) -> ApprovalRequest:
    all_times = {"created": CREATED, "deadline": DEADLINE, "decided": DECIDED, "expires": EXPIRES, **times}
    return a_request(
        created_at=render(all_times["created"]),
        deadline_at=render(all_times["deadline"]),
        decision=approval(decided_at=render(all_times["decided"]), expires_at=render(all_times["expires"])),
    )


@each_row(
    ("times", "reason"),
    [
        ({"deadline": DEADLINE + SECOND + 1}, "deadline_too_late"),
        ({"deadline": CREATED - SECOND - 1, "decided": CREATED - SECOND}, "deadline_too_early"),
        ({"deadline": DECIDED - SECOND - 1}, "decided_too_late"),
        ({"decided": CREATED - SECOND - 1}, "decided_too_early"),
    ],
)
def test_times_that_cannot_be_are_refused(times: dict[str, int], reason: str) -> None:
    assert check(unattached(), timed(**times), NOW) == refused(reason)


@each_row(
    "times",
    [
        {"deadline": DEADLINE + SECOND},
        {"deadline": DECIDED - SECOND},
        {"deadline": DECIDED},
        {"decided": CREATED - SECOND},
        {"expires": NOW + 1},
        {"expires": DEADLINE + DAY},
    ],
)
def test_times_a_seconds_rounding_apart_permit(times: dict[str, int]) -> None:
    assert isinstance(check(unattached(), timed(**times), NOW), Permit)


def test_a_deadline_beyond_the_timeout_is_refused_while_pending_and_cancelled() -> None:
    request = pending(deadline_at=render(DEADLINE + 2 * SECOND))
    assert check(unattached(), request, NOW) == refused("deadline_too_late", cancel=True)


def test_an_expiry_may_be_recorded_after_the_deadline() -> None:
    verdict = check(an_execution(), decided("expired", decided_at=render(DEADLINE + 60 * SECOND)), DEADLINE + DAY)
    assert isinstance(verdict, Close)
    assert verdict.closing.state is State.EXPIRED


def built(**changes: Any) -> ApprovalRequest:
    """Return a request past the wire's own checks, as if those had a fault."""
    request = a_request()
    return request.model_copy(update=changes)


def test_the_boundary_does_not_rely_on_the_wires_checks() -> None:
    decision = a_request().decision
    assert decision is not None
    cases = [
        built(decision=None),
        built(status="pending"),
        built(status="denied"),
        built(decision=decision.model_copy(update={"expires_at": None})),
        built(decision=decision.model_copy(update={"status": "denied"})),
    ]
    for request in cases:
        verdict = check(an_execution(), request, NOW)
        assert verdict == refused("status_disagrees", cancel=request.status == "pending")
    backwards = decision.model_copy(update={"expires_at": decision.decided_at})
    assert check(an_execution(), built(decision=backwards), NOW) == refused("expires_too_early")


def test_every_refusal_has_a_word_of_its_own() -> None:
    assert len({refusal.value for refusal in Refusal}) == len(Refusal)


def seen(**changes: Any) -> Execution:
    """The execution once its approval was read and could not be used yet."""
    return an_execution(**({"decided_at": DECIDED, "expires_at": EXPIRES} | changes))


def test_the_same_approval_read_again_permits() -> None:
    assert check(seen(), a_request(decision=approval(note="again")), NOW) == Permit(Approval(DECIDED, EXPIRES, "again"))


@each_row("moved", [1, -1, SECOND, DAY, -SECOND])
def test_reading_again_never_moves_the_end_of_an_approval(moved: int) -> None:
    request = a_request(decision=approval(expires_at=render(EXPIRES + moved)))
    assert check(seen(), request, NOW) == refused("decision_differs")


def test_an_approval_decided_anew_is_another_one() -> None:
    request = a_request(decision=approval(decided_at=render(DECIDED + SECOND)))
    assert check(seen(), request, NOW) == refused("decision_differs")


@pytest.mark.parametrize("status", ["denied", "expired", "cancelled"])
def test_an_approval_that_became_something_else_is_refused(status: str) -> None:
    assert check(seen(), decided(status), NOW) == refused("decision_differs")


def test_an_approval_that_became_pending_is_refused_and_cancelled() -> None:
    assert check(seen(), pending(), NOW) == refused("decision_differs", cancel=True)
