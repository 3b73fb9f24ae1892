"""When to try again, when to look, and when to give up."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.executions import CREATED, DEADLINE, DECIDED, EXPIRES, an_execution, unattached
from support.tables import each_row
from wakegate_schema.clock import DAY, HOUR, MINUTE, SECOND
from wakegate_worker.backoff import (
    APPROVED_CAP_S,
    CAP_S,
    LEAST_S,
    after_store_failure,
    again_at,
    delay_s,
    give_up_at,
    look_after_notification,
    next_look,
    retry_at,
)


def most() -> float:
    return 1.0


@each_row(("tries", "longest"), [(0, 1.0), (1, 2.0), (2, 4.0), (9, 512.0), (10, CAP_S), (10**9, CAP_S)])
def test_the_longest_wait_doubles_up_to_a_bound(tries: int, longest: float) -> None:
    assert delay_s(tries, most) == longest


def test_jitter_reaches_down_to_nearly_nothing_and_never_to_a_busy_loop() -> None:
    assert delay_s(8, lambda: 0.0) == LEAST_S
    assert delay_s(1, lambda: 0.25) == 0.5


def test_an_approval_on_record_is_not_left_waiting_by_what_failed_before_it() -> None:
    waiting, approved = an_execution(tries=11), an_execution(tries=11, decided_at=DECIDED, expires_at=EXPIRES)
    assert again_at(waiting, 0, most) == CAP_S * SECOND
    assert again_at(approved, 0, most) == APPROVED_CAP_S * SECOND
    assert again_at(approved, 0, most, retry_after_s=60) == (60 + APPROVED_CAP_S) * SECOND


def test_what_the_store_failed_in_the_middle_of_is_tried_again_soon_though_no_approval_is_on_record() -> None:
    assert after_store_failure(an_execution(tries=0), 0, most) == SECOND
    assert after_store_failure(an_execution(tries=11), 0, most) == APPROVED_CAP_S * SECOND


@given(st.integers(-5, 10_000), st.randoms(use_true_random=False))
def test_a_wait_is_always_within_its_bounds(tries: int, source: random.Random) -> None:
    assert LEAST_S <= delay_s(tries, source.random) <= CAP_S


def test_what_the_other_side_asks_for_is_the_least() -> None:
    assert retry_at(0, CREATED, lambda: 0.5, retry_after_s=120.0) == CREATED + 120 * SECOND + SECOND // 2


def test_a_long_retry_after_is_respected_however_long() -> None:
    assert retry_at(0, CREATED, most, retry_after_s=40 * 86_400.0) == CREATED + 40 * DAY + SECOND


@pytest.mark.parametrize("asked", [None, 0.0, -5.0])
def test_without_a_retry_after_only_the_backoff_counts(asked: float | None) -> None:
    assert retry_at(1, CREATED, most, retry_after_s=asked) == CREATED + 2 * SECOND


@each_row(
    ("after", "then"),
    [
        (0, MINUTE),
        (MINUTE - 1, MINUTE),
        (MINUTE, 5 * MINUTE),
        (5 * MINUTE, 30 * MINUTE),
        (30 * MINUTE, 60 * MINUTE),
        (60 * MINUTE, 4 * HOUR + 10 * SECOND),
        (3 * HOUR, 4 * HOUR + 10 * SECOND),
    ],
)
def test_with_a_webhook_a_request_is_looked_at_rarely(after: int, then: int) -> None:
    execution = an_execution(timeout="4h", deadline_at=CREATED + 4 * HOUR)
    assert next_look(execution, "webhook", CREATED + after) == CREATED + then


def test_the_deadline_comes_before_a_later_look() -> None:
    execution = an_execution(deadline_at=CREATED + 20 * SECOND)
    assert next_look(execution, "webhook", CREATED) == CREATED + 30 * SECOND
    assert next_look(execution, "none", CREATED) == CREATED + 30 * SECOND


def test_a_request_made_long_after_its_call_was_saved_is_looked_at_from_then() -> None:
    execution = an_execution(created_at=CREATED - 2 * HOUR)
    assert next_look(execution, "webhook", CREATED + 1) == CREATED + MINUTE


def test_a_provider_whose_clock_is_ahead_is_looked_at_within_a_minute() -> None:
    execution = an_execution(created_at=CREATED - HOUR)
    assert next_look(execution, "webhook", CREATED - 10 * MINUTE) == CREATED - 9 * MINUTE


@each_row(("age", "spacing"), [(0, MINUTE), (4 * MINUTE, MINUTE), (20 * MINUTE, 5 * MINUTE), (3 * HOUR, 15 * MINUTE)])
def test_without_a_webhook_an_older_request_is_looked_at_more_rarely(age: int, spacing: int) -> None:
    execution = an_execution(timeout="24h", deadline_at=CREATED + 24 * HOUR)
    assert next_look(execution, "none", CREATED + age) == CREATED + age + spacing


@each_row("late", [10 * SECOND, MINUTE, HOUR, 7 * DAY])
@each_row("delivery", ["webhook", "none"])
def test_past_the_deadline_looking_goes_on(delivery: str, late: int) -> None:
    now = DEADLINE + late
    at = next_look(an_execution(timeout="30m"), "webhook" if delivery == "webhook" else "none", now)
    assert now + MINUTE <= at <= now + 60 * MINUTE


@given(st.integers(0, 20 * DAY), st.sampled_from(["webhook", "none"]))
def test_a_look_is_always_ahead(after: int, delivery: str) -> None:
    now = CREATED + after
    assert next_look(an_execution(), "webhook" if delivery == "webhook" else "none", now) > now


def test_after_a_notification_a_pending_request_is_read_again_soon_and_then_long_polled() -> None:
    waits = [look_after_notification(tries, CREATED) for tries in range(4)]
    assert waits == [CREATED + SECOND, CREATED + 2 * SECOND, CREATED + 4 * SECOND, None]


def test_an_undecided_call_is_given_up_eight_days_after_its_deadline() -> None:
    assert give_up_at(an_execution(deadline_at=CREATED + MINUTE)) == CREATED + MINUTE + 8 * DAY


def test_a_call_whose_deadline_is_unknown_is_given_up_by_its_timeout() -> None:
    assert give_up_at(unattached(timeout="2h")) == CREATED + 2 * HOUR + 8 * DAY
