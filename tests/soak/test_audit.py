"""The audit finds what it is there to find: each wrong is planted in records that are otherwise good."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from soak import audit, rules
from soak.clocks import SECOND, Knowledge, Readings
from soak.effects import Effect
from soak.records import Case, Records
from support.tables import each_row

T0 = 1_700_000_000 * SECOND
"""When the soak began, µs."""
HOUR = 3600 * SECOND
PATH = ("saved", "submitting", "waiting", "permitted", "started", "succeeded")
CLOCK = {"at": T0 - SECOND, "event": "clock", "clock": "host", "offset": 0}


def steps(states: Iterable[str], reason: str = "some_reason") -> tuple[dict[str, Any], ...]:
    """A history that passes through these states, a second apart."""
    made: list[dict[str, Any]] = []
    before = None
    for number, state in enumerate(states, 1):
        at = T0 + number * SECOND
        made.append(
            {
                "execution_id": "e1",
                "number": number,
                "from_state": before,
                "to_state": state,
                "reason": reason,
                "at": at,
            }
        )
        before = state
    return tuple(made)


def execution(state: str = "succeeded", **changes: Any) -> dict[str, Any]:
    """The store's row of a worker-run call."""
    started = state in ("started", "succeeded", "failed", "in_doubt")
    row = {"execution_id": "e1", "state": state, "reason": "returned", "problem": None, "wake": "soak", "group": None}
    return row | {"started_at": T0 + 5 * SECOND if started else None} | changes


def approved(ends: int = T0 + 2 * HOUR) -> dict[str, Any]:
    """The provider's row of an approved request."""
    return {"status": "approved", "expires_at": ends, "decided_at": T0}


GOOD = Case(
    key="k1",
    tool="later_pay",
    mode="worker",
    saved=True,
    given_up=False,
    execution=execution(),
    transitions=steps(PATH),
    request=approved(),
    effects=(Effect(T0 + 5 * SECOND),),
    void=False,
)
READINGS = Readings([CLOCK], "host", T0 + 60 * SECOND)
KNOWN = Knowledge(READINGS, ())


def lapsed(case: Case, reason: str, ends: int, *, tool: str = "brief_pay", at: int = 4) -> Case:
    """The same, lapsed at a second of the soak."""
    history = steps((*PATH[:3], "lapsed"), reason)
    history[-1]["at"] = T0 + at * SECOND
    return replace(
        case,
        tool=tool,
        execution=execution("lapsed", reason=reason),
        transitions=history,
        request=approved(ends),
        effects=(),
    )


def test_a_good_call_has_no_faults() -> None:
    assert list(rules.faults(GOOD, READINGS, KNOWN)) == []


WRONG_CALLS: dict[str, Case] = {
    "happened 2 times": replace(GOOD, effects=(Effect(T0 + 5 * SECOND), Effect(T0 + 6 * SECOND))),
    "happened 0 times": replace(GOOD, effects=()),
    "not in the store": replace(GOOD, execution=None, transitions=(), request=None, effects=()),
    "happened without being in the store": replace(GOOD, saved=False, execution=None, transitions=()),
    "it is stuck: waiting": replace(GOOD, execution=execution("waiting"), transitions=steps(PATH[:3]), effects=()),
    "it happened and is denied": replace(
        GOOD,
        tool="denied_pay",
        execution=execution("denied"),
        transitions=steps((*PATH[:3], "denied")),
        request={"status": "denied", "expires_at": None},
    ),
    "and the provider says denied": replace(GOOD, request={"status": "denied", "expires_at": None}),
    "and the provider says None": replace(GOOD, request=None),
    "does not follow on": replace(GOOD, transitions=(*GOOD.transitions[:2], *GOOD.transitions[3:])),
    "no step from started to refused": replace(
        GOOD, execution=execution("refused"), transitions=steps((*PATH[:5], "refused"))
    ),
    "started 2 times": replace(
        GOOD,
        execution=execution("in_doubt"),
        transitions=steps((*PATH[:5], "in_doubt", "started", "in_doubt")),
    ),
    "its history ends with": replace(GOOD, execution=execution("failed")),
    "as failed": replace(
        GOOD,
        tool="later_decline",
        execution=execution("failed", reason="tool_failed"),
        transitions=steps((*PATH[:5], "failed")),
    ),
    "which its tool cannot have said": replace(
        GOOD,
        execution=execution("failed", reason="tool_failed"),
        transitions=steps((*PATH[:5], "failed")),
        effects=(),
    ),
    "though its probe can tell": replace(
        GOOD,
        tool="later_hang_probed",
        execution=execution("in_doubt", reason="lease_lost"),
        transitions=steps((*PATH[:5], "in_doubt")),
    ),
    "after the approval's end": replace(GOOD, tool="brief_pay", request=approved(T0 + 3 * SECOND)),
    "had known the approval's end": replace(GOOD, mode="harness", request=approved(T0 + 2 * SECOND)),
    "hours of validity left": lapsed(GOOD, "approval_expired", T0 + 2 * HOUR, tool="later_pay"),
    "before its end by every clock": lapsed(GOOD, "approval_expired", T0 + 20 * SECOND),
    "never showed": lapsed(GOOD, "approval_expired", T0 + 20 * SECOND, at=9000),
    "without having been started": lapsed(GOOD, "start_unconfirmed", T0 + 20 * SECOND),
    "which nothing justifies": lapsed(GOOD, "digest_differs", T0 + 2 * SECOND),
    "nobody gave it up": replace(
        GOOD,
        execution=execution("abandoned", reason="the customer has left"),
        transitions=steps((*PATH[:3], "abandoned")),
        effects=(),
    ),
    "without a reason": replace(GOOD, execution=execution(reason=None)),
}


@each_row(("says", "case"), WRONG_CALLS.items(), ids=WRONG_CALLS)
def test_a_wrong_call_is_found(says: str, case: Case) -> None:
    assert any(says in fault for fault in rules.faults(case, READINGS, KNOWN)), list(
        rules.faults(case, READINGS, KNOWN)
    )


def test_an_approval_may_lapse_once_its_end_has_come() -> None:
    assert list(rules.faults(lapsed(GOOD, "approval_expired", T0 + 3 * SECOND), READINGS, KNOWN)) == []


def test_a_call_may_have_been_in_doubt_when_it_was_said_that_its_approval_had_ended_before_it_began() -> None:
    def late(ends: int) -> Case:
        history = steps((*PATH[:5], "in_doubt", "failed"), "approval_expired")
        failed = execution("failed", reason="approval_expired")
        return replace(
            GOOD, tool="brief_pay", execution=failed, transitions=history, request=approved(ends), effects=()
        )

    assert list(rules.faults(late(T0 + 6 * SECOND), READINGS, KNOWN)) == []
    assert list(rules.faults(late(T0 + 20 * SECOND), READINGS, KNOWN)) != []


def test_a_fast_clock_may_let_an_approval_lapse_and_a_slow_one_may_not() -> None:
    def after(offset: int) -> Readings:
        moved = CLOCK | {"at": T0 + SECOND, "offset": offset * SECOND}
        return Readings([CLOCK, moved], "host", T0 + 60 * SECOND)

    case = lapsed(GOOD, "approval_expired", T0 + 20 * SECOND, at=25)
    assert list(rules.faults(case, after(+21), KNOWN)) == []
    assert list(rules.faults(lapsed(GOOD, "approval_expired", T0 + 20 * SECOND, at=-6), after(-10), KNOWN)) != []


def test_a_slow_clock_does_not_hide_what_the_mark_knows() -> None:
    slow = CLOCK | {"at": T0 + 4 * SECOND, "offset": -30 * SECOND}
    reset = {"at": T0 + 6 * SECOND, "event": "mark_reset", "clock": "host"}
    readings = Readings([CLOCK, slow], "host", T0 + 60 * SECOND)
    assert Knowledge(readings, [T0 + 3 * SECOND]).at(T0 + 9 * SECOND) == T0 + SECOND
    assert Knowledge(readings, []).at(T0 + 9 * SECOND) == T0 - 23 * SECOND
    forgotten = Readings([CLOCK, slow, reset], "host", T0 + 60 * SECOND)
    assert Knowledge(forgotten, [T0 + 3 * SECOND]).at(T0 + 9 * SECOND) == T0 - 23 * SECOND


def test_what_was_held_up_between_its_last_look_and_its_effect_may_be_late() -> None:
    ends = approved(T0 + 2 * SECOND)
    late = replace(GOOD, tool="brief_pay", request=ends)
    assert list(rules.faults(late, READINGS, KNOWN)) != []
    held_up = replace(late, effects=(Effect(T0 + 5 * SECOND, held_up=4 * SECOND),))
    assert list(rules.faults(held_up, READINGS, KNOWN)) == []


OTHER = replace(
    GOOD,
    key="k2",
    tool="later_pay_in_thread",
    execution=execution(execution_id="e2", group="g1"),
    transitions=tuple(step | {"execution_id": "e2"} for step in steps(PATH)),
)
"""A call by itself in a group."""
RECORDS = Records(
    cases=(GOOD, OTHER),
    strangers=(),
    integrity=("ok",),
    notifications={"n1": ("body", "handled"), "n2": ("other", "received")},
    acknowledged={"n1": "body"},
    delivered=("n2",),
    unhandled=(),
    wakes=(
        {"wake_id": "e1_6", "to_state": "succeeded", "state": "delivered", "tries": 0, "group_number": None},
        {"wake_id": "e2_6", "to_state": "succeeded", "state": "delivered", "tries": 0, "group_number": 7},
    ),
    told={"e1_6": (("execution.resolved", "succeeded"),), "e2_6": (("group.resolved", "succeeded"),)},
    told_of={"e1_6": frozenset({1}), "e2_6": frozenset({1})},
    bad_wakes=0,
    groups=({"number": 7, "group": "g1", "sealed_at": T0},),
    completed=frozenset({"g1"}),
    resolutions=("e1_6", "e2_6"),
    streams={"harness-1": ("e1_6", "e2_6")},
    events=(
        {"event": "start", "service": "worker-1", "pid": 7, "at": T0},
        {"event": "SIGKILL", "service": "worker-1", "pid": 7},
        {"event": "end", "service": "worker-1", "pid": 7, "code": -9, "meant": True},
    ),
    readings=READINGS,
)
ANSWERS = {("unknown", "204"): 2, ("unknown", "503"): 1, ("junk: altered", "401"): 1, ("junk: no HTTP", "closed"): 1}
ENDED = {"event": "end", "service": "worker-1", "pid": 7, "code": 1, "meant": False, "worked": False}


def test_good_records_have_no_faults() -> None:
    assert audit.faults(RECORDS, ANSWERS) == []


WRONG_RECORDS: dict[str, Callable[[Records], Records]] = {
    "damaged": lambda good: replace(good, integrity=("row 3 missing from index",)),
    "nobody was about to save it": lambda good: replace(good, strangers=("k9",)),
    "acknowledged and is not in the store": lambda good: replace(good, acknowledged={"n3": "body"}),
    "other bytes": lambda good: replace(good, acknowledged={"n1": "changed"}),
    "the provider had a 2xx": lambda good: replace(good, delivered=("n4",)),
    "waits though": lambda good: replace(good, unhandled=("n2",)),
    "no wake was owed": lambda good: replace(good, wakes=(), told={}),
    "is owed, after": lambda good: replace(good, wakes=(good.wakes[0] | {"state": "owed"}, good.wakes[1])),  # type: ignore[operator]
    "never came": lambda good: replace(good, told={}),
    "and is about succeeded": lambda good: replace(good, told={"e1_6": (("execution.resolved", "failed"),)}),
    "not on record": lambda good: replace(good, told={**good.told, "e9_1": ()}),
    "0 wakes are on record": lambda good: replace(good, wakes=good.wakes[:1]),
    "2 wakes are on record": lambda good: replace(good, wakes=(*good.wakes, good.wakes[1] | {"wake_id": "e9_6"})),  # type: ignore[operator]
    "1 wakes are on record": lambda good: replace(good, groups=(good.groups[0] | {"sealed_at": None},)),  # type: ignore[operator]
    "said to be sealed and is not": lambda good: replace(good, groups=(good.groups[0] | {"sealed_at": None},)),  # type: ignore[operator]
    "calls without it": lambda good: replace(good, groups=()),
    "told of with 2 calls": lambda good: replace(good, told_of={**good.told_of, "e2_6": frozenset({2})}),
    "the other way round": lambda good: replace(good, resolutions=good.resolutions[:1]),
    "1 are missing": lambda good: replace(good, streams={"harness-1": good.resolutions[:1]}),
    "1 came again": lambda good: replace(good, streams={"harness-1": (*good.resolutions, "e1_6")}),
    "out of order": lambda good: replace(good, streams={"harness-1": good.resolutions[::-1]}),
    "not signed": lambda good: replace(good, bad_wakes=1),
    "ended by itself": lambda good: replace(good, events=(good.events[0], ENDED)),
    "did not stop": lambda good: replace(good, events=({"event": "does_not_stop", "service": "worker-1", "pid": 7},)),
}


@each_row(("says", "spoil"), WRONG_RECORDS.items(), ids=WRONG_RECORDS)
def test_wrong_records_are_found(says: str, spoil: Callable[[Records], Records]) -> None:
    found = audit.faults(spoil(RECORDS), ANSWERS)
    assert any(says in fault for fault in found), found


@pytest.mark.parametrize(("gone", "back"), [("disk_filling", "disk_free"), ("database_gone", "database_back")])
def test_a_service_may_fail_to_start_while_the_store_is_away(gone: str, back: str) -> None:
    full, free = {"event": gone, "at": T0}, {"event": back, "at": T0}
    start = RECORDS.events[0]
    assert audit.faults(replace(RECORDS, events=(full, start, free, ENDED)), ANSWERS) == []
    assert audit.faults(replace(RECORDS, events=(start, full, free, ENDED)), ANSWERS) == []
    assert audit.faults(replace(RECORDS, events=(full, free, start, ENDED)), ANSWERS) != []
    assert audit.faults(replace(RECORDS, events=(full, start, free, ENDED | {"worked": True})), ANSWERS) != []


@each_row(("kind", "answer"), [("junk: altered", "204"), ("junk: altered", "500"), ("unknown", "500"), ("real", "502")])
def test_a_wrong_answer_is_found(kind: str, answer: str) -> None:
    assert audit.faults(RECORDS, {**ANSWERS, (kind, answer): 1}) != []


def test_a_soak_in_which_little_came_about_says_so() -> None:
    assert "no call is in_doubt" in audit.too_little(replace(RECORDS, cases=(GOOD,) * 100), ANSWERS)
    assert "no call is in_doubt" not in audit.too_little(RECORDS, ANSWERS)
    assert "no call is succeeded" in audit.too_little(replace(RECORDS, cases=()), ANSWERS)


def test_a_soak_in_which_its_servers_had_no_trouble_says_so() -> None:
    far = replace(RECORDS, events=({"event": "ground", "ground": "postgresql+redis"}, *RECORDS.events))
    assert {"no postgresql_killed", "no redis_emptied"} <= set(audit.too_little(far, ANSWERS))
    assert "no disk_full" not in audit.too_little(far, ANSWERS)
    assert "no disk_full" in audit.too_little(RECORDS, ANSWERS)
