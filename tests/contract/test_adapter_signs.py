"""A harness whose call goes on in doubt gives signs of life, so that no probe's "not yet" is taken for "never"."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from support import driving
from support.ways import Way
from wakegate_adapter import Adapter, Call
from wakegate_schema import clock
from wakegate_schema.clock import HOUR
from wakegate_schema.records import Outcome
from wakegate_schema.states import State
from wakegate_schema.store import Store

NO = Outcome("failed", "probe_found_nothing")


@pytest.fixture
async def adapter(way: Way) -> AsyncIterator[Adapter]:
    """An adapter with short leases, and one instance to use."""
    async with way.adapter(lease=way.short / 2) as opened:
        yield opened


async def sign(store: Store, execution_id: str, after: int | None) -> int:
    """Wait for a sign of life other than this one."""
    async with asyncio.timeout(10):
        while True:
            found = (await store.execution(execution_id)).lease_until
            if found is not None and found != after:
                return found
            await asyncio.sleep(0.02)


async def test_a_call_in_doubt_gives_signs_of_life_until_its_word_settles_it(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("issue_refund", {"amount": 4900}), runs="harness")
    await driving.approve(store, ticket.execution_id)
    async with adapter.claim(ticket.execution_id) as attempt:
        assert attempt.permitted
        await store.sweep(clock.now() + HOUR)  # as by a clock that is an hour ahead
        first = await sign(store, ticket.execution_id, None)
        second = await sign(store, ticket.execution_id, first)
        assert attempt.lease_lost
        assert not await store.settle_by_probe(ticket.execution_id, NO, clock.now(), first)
        assert (await store.execution(ticket.execution_id)).state is State.IN_DOUBT
        assert second != first
        attempt.succeed("refunded")
    assert (await store.execution(ticket.execution_id)).state is State.SUCCEEDED
