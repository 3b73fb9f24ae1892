"""The provider's rules without a store: outcomes, retry times, the error shape."""

from datetime import UTC, datetime
from email.utils import format_datetime

from support.tables import each_row
from wakegate_provider.decisions import approval, overdue, planned_outcome, refusal
from wakegate_provider.delivery import MAX_DELAY, retry_at
from wakegate_provider.model import StoredRequest
from wakegate_provider.outgoing import loopback_url
from wakegate_provider.problems import Problem
from wakegate_schema import wire
from wakegate_schema.clock import MINUTE, SECOND

CREATED = 1_789_560_000 * SECOND


def pending(**fields: object) -> StoredRequest:
    values: dict[str, object] = {
        "request_id": "7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71",
        "instance_id": "b29a43a7-1949-4b9f-9d61-b7ae66f85d31",
        "idempotency_key": "k",
        "tool": "issue_refund",
        "submission": b'{"tool":"issue_refund","arguments":{"amount":49.10},"timeout":"30m"}',
        "approval_ttl": 15 * MINUTE,
        "created_at": CREATED,
        "deadline_at": CREATED + 30 * MINUTE,
        "planned_at": None,
        "planned_status": None,
        "planned_note": None,
        "status": "pending",
        "resolution": None,
        "decided_at": None,
        "decided_by": None,
        "note": None,
        "expires_at": None,
    }
    return StoredRequest(**(values | fields))  # type: ignore[arg-type]


def test_an_approval_expires_after_the_policy_s_time() -> None:
    outcome = approval(pending(), "review", CREATED + SECOND, "ok")
    assert (outcome.decided_at, outcome.expires_at) == (CREATED + SECOND, CREATED + SECOND + 15 * MINUTE)


def test_the_reviewer_s_time_counts_before_the_policy_s() -> None:
    assert approval(pending(), "review", CREATED, None, SECOND).expires_at == CREATED + SECOND


def test_a_clock_that_went_back_decides_no_earlier_than_the_creation() -> None:
    assert refusal(pending(), "denied", "review", CREATED - MINUTE).decided_at == CREATED


def test_a_request_is_overdue_at_its_deadline_and_was_decided_then() -> None:
    request = pending()
    assert overdue(request, request.deadline_at - 1) is None
    late = overdue(request, request.deadline_at + MINUTE)
    assert late is not None
    assert (late.status, late.decided_at, late.expires_at) == ("expired", request.deadline_at, None)


def test_a_decided_request_is_never_overdue() -> None:
    assert overdue(pending(status="denied"), CREATED + 60 * MINUTE) is None


def test_a_plan_is_carried_out_at_its_moment() -> None:
    outcome = planned_outcome(pending(planned_status="denied", planned_note="never"), CREATED + 5)
    assert (outcome.status, outcome.decided_by, outcome.note, outcome.expires_at) == ("denied", "policy", "never", None)


def test_a_view_is_the_object_that_aap_defines() -> None:
    request = pending(status="approved", decided_at=CREATED, expires_at=CREATED + MINUTE, note="fine")
    view = wire.object_from(wire.ApprovalRequest, request.view())
    assert view.decision is not None
    assert (view.status, view.decision.status, view.decision.note) == ("approved", "approved", "fine")
    assert str(view.arguments["amount"]) == "49.10"


def test_a_request_s_repr_shows_neither_arguments_nor_note() -> None:
    shown = repr(pending(note="private"))
    assert "amount" not in shown
    assert "private" not in shown


@each_row(
    ("attempts", "seconds"), [(1, 0.2), (2, 0.5), (3, 1.0), (4, 2.0), (5, 4.0), (11, 256.0), (12, 300.0), (5000, 300.0)]
)
def test_the_delay_grows_to_five_minutes(attempts: int, seconds: float) -> None:
    assert retry_at(0, attempts, None, 0.5) == round(seconds * SECOND)


def test_the_jitter_is_a_fifth_either_way() -> None:
    assert retry_at(0, 3, None, 0.0) == 800_000
    assert retry_at(0, 3, None, 1.0) == 1_200_000


def test_retry_after_in_seconds_lengthens_the_delay() -> None:
    assert retry_at(CREATED, 1, "7200", 0.5) == CREATED + 7200 * SECOND


def test_retry_after_as_a_date_lengthens_the_delay() -> None:
    date = format_datetime(datetime.fromtimestamp(CREATED // SECOND + 90, UTC), usegmt=True)
    assert retry_at(CREATED, 1, date, 0.5) == CREATED + 90 * SECOND


@each_row("header", ["0", "", "soon", "-5", "1.5", "٣", "Thu, 99 Foo 2026", "Mon, 01 Jan 1990 00:00:00 GMT"])
def test_a_retry_after_that_says_nothing_leaves_the_delay(header: str) -> None:
    assert retry_at(CREATED, 1, header, 0.5) == CREATED + 200_000


def test_an_endless_retry_after_stays_a_number() -> None:
    assert retry_at(0, 1, "9" * 400, 0.5) > MAX_DELAY * SECOND


def test_a_problem_is_aap_s_error_object() -> None:
    problem = Problem(400, "invalid_wait", "Give wait once.", param="wait")
    body = wire.parse_object(wire.ErrorBody, problem.body("7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71"))
    assert (body.error.type, body.error.code, body.error.param) == ("invalid_request", "invalid_wait", "wait")


@each_row(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:9/x", True),
        ("http://localhost/x", True),
        ("https://[::1]:9/x", True),
        ("https://example.com/x", False),
        ("https://127.0.0.1.example.com/x", False),
        ("https://10.0.0.1/x", False),
        ("https://localhost.example/x", False),
    ],
)
def test_only_this_machine_is_delivered_to(url: str, loopback: bool) -> None:
    assert loopback_url(url) is loopback
