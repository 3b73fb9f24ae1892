"""A claim over the control API: by which clocks the call may still begin."""

import time

import pytest

from wakegate_adapter.control_calls import Begun
from wakegate_schema import clock
from wakegate_schema.clock import MINUTE, SECOND

LEASE = 30.0


def begun(seconds_ago: float = 0.0, *, wall: int | None = None) -> Begun:
    return Begun(clock.now() if wall is None else wall, time.monotonic() - seconds_ago)


def reason(found: Begun, start_before: int, lease: float = LEASE) -> str | None:
    outcome = found.unfit(start_before, lease)
    return None if outcome is None else outcome.reason


def test_in_time_it_may_begin() -> None:
    assert reason(begun(), clock.now() + MINUTE) is None


def test_past_the_end_it_may_not() -> None:
    assert reason(begun(), clock.now()) == "lapsed_at_start"


def test_a_wall_clock_set_back_after_the_claim_gains_nothing() -> None:
    claimed = begun(10, wall=clock.now() + 5 * SECOND)  # it showed more than it shows now
    assert reason(claimed, claimed.at + 9 * SECOND) == "lapsed_at_start"
    assert reason(claimed, claimed.at + 20 * SECOND) is None


def test_a_machine_that_was_suspended_has_lost_its_lease() -> None:
    assert reason(begun(0, wall=clock.now() - MINUTE), clock.now() + 10 * MINUTE) == "start_too_slow"


@pytest.mark.parametrize("seconds", [LEASE, LEASE + 1])
def test_after_the_lease_others_may_take_it_for_dead(seconds: float) -> None:
    assert reason(begun(seconds), clock.now() + 10 * MINUTE) == "start_too_slow"
