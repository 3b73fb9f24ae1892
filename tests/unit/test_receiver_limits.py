"""The two budgets."""

import asyncio

import pytest

from wakegate_receiver.answers import Refused
from wakegate_receiver.limits import Admission, Failures


async def test_over_the_rate_is_refused_at_once() -> None:
    admission = Admission(rate=2, places=10)
    for _ in range(2):
        async with admission:
            pass
    with pytest.raises(Refused) as refused:
        await admission.__aenter__()
    assert refused.value.reason == "rate_limit"


async def test_the_rate_recovers_with_time() -> None:
    admission = Admission(rate=20, places=1)
    for _ in range(20):
        async with admission:
            pass
    await asyncio.sleep(0.1)
    async with admission:
        pass


async def test_over_the_places_is_refused_and_a_place_comes_back() -> None:
    admission = Admission(rate=100, places=1)
    async with admission:
        with pytest.raises(Refused) as refused:
            await admission.__aenter__()
        assert refused.value.reason == "concurrency_limit"
    async with admission:
        pass


async def test_a_place_comes_back_after_an_error() -> None:
    admission = Admission(rate=100, places=1)
    with pytest.raises(Refused):
        async with admission:
            raise Refused("store_unavailable")
    async with admission:
        pass


async def test_a_refusal_over_the_places_does_not_spend_the_rate() -> None:
    admission = Admission(rate=2, places=1)
    async with admission:
        for _ in range(5):
            with pytest.raises(Refused):
                await admission.__aenter__()
    async with admission:
        pass


async def test_failures_have_a_rate_of_their_own() -> None:
    failures = Failures(rate=2)
    await failures.spend()
    await failures.spend()
    with pytest.raises(Refused) as refused:
        await failures.spend()
    assert refused.value.reason == "too_many_failures"


async def test_refusals_are_prompt_up_to_the_rate_and_spend_nothing_of_the_failures() -> None:
    failures = Failures(rate=2)
    assert [await failures.prompt() for _ in range(3)] == [True, True, False]
    await failures.spend()
