"""The demo's report: what became of each call, beside what had to, and the verdict."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from wakegate_console.demo.cases import CASES, DENIAL, DENIED, DUPLICATED, Case
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Execution
from wakegate_schema.states import State


@dataclass(frozen=True, slots=True)
class Finding:
    """What the records say became of one case."""

    case: Case
    execution: Execution
    starts: int
    """How often it went to `started`."""
    decision: str
    """The provider's word: its status, and who approved or denied."""
    deliveries: int
    """How often its notification came in; 0 where the provider sends none."""


def judge(findings: Sequence[Finding], effects: Mapping[str, int]) -> list[str]:
    """Return everything that is not as it must be, one line each; nothing when all held.

    Args:
        findings: one for each case.
        effects: how often each payment was paid back, counted outside wakegate.
    """
    problems = [f"{case.tells}: not on record" for case in CASES if case not in {found.case for found in findings}]
    for found in findings:
        problems += _faults(found, effects.get(found.case.name, 0))
    strangers = Counter(effects).keys() - {case.name for case in CASES}
    problems += [f"{name} was paid back, and no call had asked for it" for name in sorted(strangers)]
    return problems


def table(findings: Sequence[Finding], effects: Mapping[str, int]) -> Table:
    """Return the findings as a table."""
    made = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    for heading in ("call", "decision", "state"):
        made.add_column(heading, no_wrap=heading != "decision", vertical="bottom")
    for heading in ("events", "starts", "effects", "decided\nafter", "ended\nafter"):
        made.add_column(heading, justify="right", no_wrap=True)
    for found in findings:
        effect = effects.get(found.case.name, 0)
        style = "red" if _faults(found, effect) else _STYLES.get(found.execution.state, "")
        made.add_row(
            found.case.tells,
            found.decision,
            str(found.execution.state),
            f"{found.deliveries}×",
            f"{found.starts}×",
            str(effect),
            _after(found.execution, found.execution.decided_at),
            _after(found.execution, found.execution.changed_at),
            style=style,
        )
    return made


_STYLES = {State.SUCCEEDED: "green", State.IN_DOUBT: "yellow"}


def _faults(found: Finding, effects: int) -> list[str]:
    case, execution = found.case, found.execution
    faults = []
    if execution.state is not case.ends:
        faults.append(f"{case.tells}: ended {execution.state}, not {case.ends}")
    if found.starts != case.times:
        faults.append(f"{case.tells}: started {found.starts} times, not {case.times}")
    if effects != case.times:
        faults.append(f"{case.tells}: paid back {effects} times, not {case.times}")
    if case is DENIED and execution.state is State.DENIED and execution.note != DENIAL:
        faults.append(f"{case.tells}: the reviewer's note is not on record")
    if case is DUPLICATED and found.deliveries != 2:
        faults.append(f"{case.tells}: the notification came {found.deliveries} times, not twice")
    return faults


def _after(execution: Execution, at: int | None) -> str:
    """Return a time as seconds after the call was saved."""
    if at is None:
        return "-"
    seconds = (at - execution.created_at) / SECOND
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"  # no wider: the table has 80 columns
