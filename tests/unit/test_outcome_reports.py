"""What a provider is told of a consumed call: that it succeeded, or failed, and whether it was ever begun."""

from support.executions import an_execution
from support.tables import each_row
from wakegate_console import advice, views
from wakegate_schema.states import State
from wakegate_worker.reporting import NOT_RUN, outcome_of

BEGUN, NOT_BEGUN = 1_000_000, None


@each_row(
    "state, started_at, told",
    [
        (State.SUCCEEDED, BEGUN, ("succeeded", None)),
        (State.FAILED, BEGUN, ("failed", None)),
        (State.LAPSED, BEGUN, ("failed", NOT_RUN)),
        (State.LAPSED, NOT_BEGUN, ("failed", NOT_RUN)),
        (State.ABANDONED, NOT_BEGUN, ("failed", NOT_RUN)),
        (State.REFUSED, NOT_BEGUN, ("failed", NOT_RUN)),
        (State.UNOBTAINED, NOT_BEGUN, ("failed", NOT_RUN)),
        (State.DENIED, NOT_BEGUN, ("failed", NOT_RUN)),
        (State.EXPIRED, NOT_BEGUN, ("failed", NOT_RUN)),
        (State.CANCELLED, NOT_BEGUN, ("failed", NOT_RUN)),
    ],
)
def test_each_end_has_its_word(state: State, started_at: int | None, told: tuple[str, str | None]) -> None:
    ended = an_execution(state=state, started_at=started_at, error="token=s3cr3t", consumed_at=1)
    assert outcome_of(ended) == told


def test_what_is_still_to_be_told_is_shown() -> None:
    ended = an_execution(state=State.SUCCEEDED, consumed_at=BEGUN, report_due_at=2 * BEGUN, report_tries=3)
    shown = views.execution(ended, {})
    assert [shown[name] for name in ("consumed_at", "report_due_at", "report_tries")] == [
        "1970-01-01T00:00:01Z",
        "1970-01-01T00:00:02Z",
        3,
    ]
    assert "report_due_at" in (advice.for_execution(ended, "desk") or "")
    assert advice.for_execution(an_execution(state=State.SUCCEEDED), "desk") is None
