"""Silence: a probe's "it did not happen" counts only once the attempt has given no sign of life for a lease."""

import pytest

from support.executions import an_execution
from support.tables import each_row
from wakegate_schema.calls.calls import LEASE_S as ADAPTERS_LEASE_S
from wakegate_schema.records import Execution
from wakegate_schema.states import State
from wakegate_worker.silence import ENDED, HARNESS_LEASE_S, Silence

LEASE_S = 30.0


class Watch:
    """A silence with a monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.silence = Silence(lease_s=LEASE_S, monotonic=lambda: self.now)
        self.silence.store_took()

    def go_on(self, seconds: float) -> None:
        """Let time pass while the store takes writes."""
        for _ in range(10):
            self.now += seconds / 10
            self.silence.store_took()

    def left(self, sign: int | None, reason: str = "lease_lost") -> float:
        execution = doubtful(sign, reason)
        self.silence.look(execution)
        return self.silence.left_s(execution)


def doubtful(sign: int | None, reason: str) -> Execution:
    return an_execution(state=State.IN_DOUBT, reason=reason, lease_until=sign)


@each_row("reason", ["lease_lost", "tool_still_running", "outcome_not_told", "anything else"])
def test_a_call_that_may_go_on_is_left_alone_for_a_lease_from_when_it_was_first_seen(reason: str) -> None:
    watch = Watch()
    assert watch.left(None, reason) == LEASE_S
    watch.go_on(LEASE_S - 1)
    assert watch.left(None, reason) == pytest.approx(1.0)
    watch.go_on(1.1)
    assert watch.left(None, reason) == 0.0


def test_every_sign_of_life_begins_it_anew_whatever_time_the_sign_names() -> None:
    watch = Watch()
    for sign in (5, 2**60, 7, None):
        watch.go_on(LEASE_S)
        assert watch.left(sign) == LEASE_S


@each_row("reason", sorted(ENDED))
def test_a_call_that_has_come_to_an_end_is_not_waited_for(reason: str) -> None:
    assert Watch().left(None, reason) == 0.0


def test_a_harness_is_waited_for_by_its_own_lease_however_short_a_workers_is() -> None:
    assert HARNESS_LEASE_S == ADAPTERS_LEASE_S
    silence = Silence(lease_s=2.0, monotonic=lambda: 1000.0)
    for runs, left_s in (("harness", HARNESS_LEASE_S), ("worker", 2.0)):
        execution = an_execution(state=State.IN_DOUBT, reason="lease_lost", runs=runs)
        silence.look(execution)
        assert silence.left_s(execution) == left_s
        silence.keep(())


def test_time_in_which_the_store_took_no_writes_does_not_count() -> None:
    watch = Watch()
    watch.left(1)
    watch.go_on(LEASE_S - 1)
    watch.now += LEASE_S  # nobody could give a sign
    assert watch.left(1) == LEASE_S
    watch.silence.store_took()
    watch.go_on(LEASE_S / 2)
    assert watch.left(1) == pytest.approx(LEASE_S / 2)
    watch.go_on(LEASE_S / 2 + 0.1)
    assert watch.left(1) == 0.0


def test_it_is_told_how_long_a_doubt_was_seen_for() -> None:
    watch = Watch()
    assert watch.silence.look(doubtful(None, "lease_lost")) == 0.0
    watch.now += 12
    assert watch.silence.look(doubtful(1, "lease_lost")) == 12.0


def test_what_is_no_longer_in_doubt_is_forgotten() -> None:
    watch = Watch()
    watch.left(None)
    watch.now += LEASE_S
    watch.silence.keep(())
    assert watch.left(None) == LEASE_S


def test_others_with_a_longer_lease_are_waited_for_by_theirs() -> None:
    watch = Watch()
    watch.silence.expect(2 * LEASE_S)
    assert watch.left(None) == 2 * LEASE_S
    watch.go_on(2 * LEASE_S - 1)
    assert watch.left(None) == pytest.approx(1.0)
