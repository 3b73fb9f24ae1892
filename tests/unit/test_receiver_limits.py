"""The two budgets."""

import asyncio

import pytest

from wakegate_receiver.answers import Refused
from wakegate_receiver.limits import Admission, Failures


def test_over_the_rate_is_refused_at_once() -> None:
    admission = Admission(rate=2, places=10)
    for _ in range(2):
        with admission:
            pass
    with pytest.raises(Refused) as refused:
        admission.__enter__()
    assert refused.value.reason == "rate_limit"


async def test_the_rate_recovers_with_time() -> None:
    admission = Admission(rate=20, places=1)
    for _ in range(20):
        with admission:
            pass
    await asyncio.sleep(0.1)
    with admission:
        pass


def test_over_the_places_is_refused_and_a_place_comes_back() -> None:
    admission = Admission(rate=100, places=1)
    with admission:
        with pytest.raises(Refused) as refused:
            admission.__enter__()
        assert refused.value.reason == "concurrency_limit"
    with admission:
        pass


def test_a_place_comes_back_after_an_error() -> None:
    admission = Admission(rate=100, places=1)
    with pytest.raises(Refused), admission:
        raise Refused("store_unavailable")
    with admission:
        pass


def test_a_refusal_over_the_places_does_not_spend_the_rate() -> None:
    admission = Admission(rate=2, places=1)
    with admission:
        for _ in range(5):
            with pytest.raises(Refused):
                admission.__enter__()
    with admission:
        pass


def test_failures_have_a_rate_of_their_own() -> None:
    failures = Failures(rate=2)
    assert [failures.spend() for _ in range(3)] == [True, True, False]


def test_refusals_are_prompt_up_to_the_rate_and_spend_nothing_of_the_failures() -> None:
    failures = Failures(rate=2)
    assert [failures.prompt() for _ in range(3)] == [True, True, False]
    assert failures.spend()
