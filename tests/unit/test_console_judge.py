"""The demo's verdict: it holds only if everything is as it must be."""

import dataclasses
import io
import json
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from wakegate_console.demo.cases import CASES, DENIAL, DENIED, DUPLICATED, EXPIRED, KILLED, POLICY, Case
from wakegate_console.demo.ledger import VARIABLE, LedgerDamaged, count_refunds, record_refund
from wakegate_console.demo.report import Finding, judge, table
from wakegate_schema.records import Execution
from wakegate_schema.states import State

SAVED_AT = 1_790_000_000_000_000


def execution(case: Case, state: State, note: str | None) -> Execution:
    """An execution that ended so."""
    values = dict.fromkeys(field.name for field in dataclasses.fields(Execution))
    return Execution(
        **{  # type: ignore[arg-type]
            **values,
            "execution_id": case.name,
            "tool": case.tool,
            "state": state,
            "note": note,
            "created_at": SAVED_AT,
            "decided_at": SAVED_AT + 1_500_000,
            "changed_at": SAVED_AT + 2_000_000,
        }
    )


def finding(case: Case, **changes: object) -> Finding:
    """A case that went as it must, but for the changes."""
    right = Finding(
        case=case,
        execution=execution(case, case.ends, DENIAL if case is DENIED else None),
        starts=case.times,
        decision="approved, review",
        deliveries=2 if case is DUPLICATED else 1,
    )
    return dataclasses.replace(right, **changes)  # type: ignore[arg-type]


def right() -> list[Finding]:
    """Every case as it must be."""
    return [finding(case) for case in CASES]


def effects() -> Counter[str]:
    """The ledger as it must be."""
    return Counter(case.name for case in CASES if case.times)


def changed(case: Case, **changes: object) -> list[Finding]:
    """Every case as it must be, but for one."""
    return [finding(each, **changes) if each is case else finding(each) for each in CASES]


def test_nothing_is_wrong_when_all_held() -> None:
    assert judge(right(), effects()) == []


def test_an_effect_that_happened_twice_is_wrong() -> None:
    assert judge(right(), effects() + Counter([POLICY.name])) == ["policy approves: paid back 2 times, not 1"]


def test_an_effect_that_is_missing_is_wrong() -> None:
    assert judge(right(), effects() - Counter([POLICY.name])) == ["policy approves: paid back 0 times, not 1"]


def test_an_effect_of_a_denied_call_is_wrong() -> None:
    assert judge(right(), effects() + Counter([DENIED.name])) == ["denied, with note: paid back 1 times, not 0"]


def test_a_call_killed_while_it_ran_that_did_not_stay_in_doubt_is_wrong() -> None:
    run_again = execution(KILLED, State.SUCCEEDED, None)
    assert judge(changed(KILLED, execution=run_again, starts=2), effects() + Counter([KILLED.name])) == [
        "killed mid-run: ended succeeded, not in_doubt",
        "killed mid-run: started 2 times, not 1",
        "killed mid-run: paid back 2 times, not 1",
    ]


def test_an_effect_that_no_call_asked_for_is_wrong() -> None:
    assert judge(right(), effects() + Counter(["pay-99"])) == ["pay-99 was paid back, and no call had asked for it"]


def test_another_end_is_wrong() -> None:
    ended = execution(EXPIRED, State.ABANDONED, None)
    assert judge(changed(EXPIRED, execution=ended), effects()) == ["left undecided: ended abandoned, not expired"]


def test_a_second_start_is_wrong() -> None:
    assert judge(changed(POLICY, starts=2), effects()) == ["policy approves: started 2 times, not 1"]


def test_a_lost_note_is_wrong() -> None:
    without = execution(DENIED, State.DENIED, None)
    assert judge(changed(DENIED, execution=without), effects()) == [
        "denied, with note: the reviewer's note is not on record"
    ]


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_duplicate_that_was_not_counted_once_is_wrong(times: int) -> None:
    assert judge(changed(DUPLICATED, deliveries=times), effects()) == [
        f"policy approves: the notification came {times} times, not twice"
    ]


def test_a_missing_case_is_wrong() -> None:
    assert "policy approves: not on record" in judge(right()[1:], effects())


def test_the_table_has_a_row_for_each_case() -> None:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(table(right(), effects()))
    text = console.export_text()
    for case in CASES:
        assert case.tells in text
        assert str(case.ends) in text
    assert "2.0 s" in text


def test_the_ledger_counts_every_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ledger.jsonl"
    monkeypatch.setenv(VARIABLE, str(path))
    assert count_refunds(path) == {}
    for payment in ("pay-1", "pay-2", "pay-1"):
        record_refund(payment, 100, "EUR")
    assert count_refunds(path) == {"pay-1": 2, "pay-2": 1}
    assert json.loads(path.read_text().splitlines()[0]) == {"payment_id": "pay-1", "amount": 100, "currency": "EUR"}


def test_an_effect_of_half_a_line_is_not_overlooked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"payment_id": "pay-1"')
    with pytest.raises(LedgerDamaged):
        count_refunds(path)
