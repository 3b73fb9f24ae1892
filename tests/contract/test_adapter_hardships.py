"""A harness that is held up, or whose errors have no text: nothing runs late, and what is known is not doubted."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from support import driving
from support.desk import approved
from support.raw import open_raw
from support.ways import Way
from wakegate_adapter import Adapter, Call, State
from wakegate_adapter.callee import run_once
from wakegate_adapter.log import NAME
from wakegate_schema.clock import SECOND
from wakegate_schema.records import Claimed, Execution
from wakegate_schema.store import Store
from wakegate_schema.store.dialects import POSTGRESQL

LASTING = 5 * SECOND // 2
"""How long approvals here are good, in µs: enough to be claimed, less than a log line takes."""


LEASE = 3.0
"""Seconds; longer than a claim is held up here."""


class Speechless(Exception):
    """A failure that has no text."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class _Stuck(logging.Handler):
    """Somebody who reads the log, slowly."""

    def emit(self, record: logging.LogRecord) -> None:
        if "claimed" in record.getMessage():
            time.sleep(LASTING / SECOND)


@pytest.fixture
async def adapter(way: Way) -> AsyncIterator[Adapter]:
    """An adapter of its own."""
    async with way.adapter(lease=LEASE) as opened:
        yield opened


@contextmanager
def held_up() -> Iterator[None]:
    """Hold every claim up for longer than approvals are good."""
    logger, handler = logging.getLogger(NAME), _Stuck()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield
    logger.removeHandler(handler)
    logger.setLevel(level)


async def permit(store: Store, lasting: int = 15 * 60 * SECOND) -> None:
    """Permit the next refund that is saved."""
    execution = await driving.next_saved(store, "issue_refund")
    await driving.approve(store, execution.execution_id, approved(lasting))


async def test_a_claim_held_up_by_its_log_is_not_permitted_after_the_approval_has_ended(
    adapter: Adapter, store: Store
) -> None:
    ticket = await adapter.suspend(Call("issue_refund", {"amount": 4900}), runs="harness")
    await permit(store, LASTING)
    with held_up():
        async with adapter.claim(ticket.execution_id) as attempt:
            assert not attempt.permitted
    done = await adapter.get(ticket.execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "lapsed_at_start")


async def test_a_hold_that_was_held_up_since_its_claim_does_not_call(
    adapter: Adapter, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(*args: Any) -> Any:
        time.sleep(LASTING / SECOND)  # as a stopped process, or others who have the loop
        return await run_once(*args)

    called: list[int] = []
    monkeypatch.setattr("wakegate_adapter.held_run.run_once", late)
    permitting = asyncio.create_task(permit(store, LASTING))
    done = await adapter.hold(Call("issue_refund", {"amount": 4900}), run=lambda amount: called.append(amount))
    await permitting
    assert (done.state, done.reason, called) == (State.LAPSED, "lapsed_at_start", [])


async def test_a_claim_that_took_as_long_as_its_lease_begins_nothing(
    way: Way, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have taken it for dead, and settled it, by now."""
    claim, lease = Store.claim, 0.3

    async def slowly(*arguments: Any) -> Claimed | Execution:
        claimed = await claim(*arguments)
        await asyncio.sleep(lease)
        return claimed

    monkeypatch.setattr(Store, "claim", slowly)
    async with way.adapter(lease=lease) as adapter:
        ticket = await adapter.suspend(Call("issue_refund", {"amount": 4900}), runs="harness")
        await permit(store)
        async with adapter.claim(ticket.execution_id) as attempt:
            assert not attempt.permitted
        done = await adapter.get(ticket.execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "start_too_slow")


async def test_a_call_altered_since_its_approval_is_not_begun(adapter: Adapter, store: Store, database: str) -> None:
    ticket = await adapter.suspend(Call("issue_refund", {"amount": 4900}), runs="harness")
    await permit(store)
    with closing(open_raw(database)) as raw:
        raw.execute(f"DROP TRIGGER execution_call_is_fixed{' ON execution' if raw.dialect is POSTGRESQL else ''}")
        raw.execute("UPDATE execution SET arguments = CAST('{\"amount\": 82000}' AS BLOB)")
    async with adapter.claim(ticket.execution_id) as attempt:
        assert not attempt.permitted
    done = await adapter.get(ticket.execution_id)
    assert (done.state, done.reason) == (State.LAPSED, "digest_differs")


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_declared_failure_without_a_text_is_a_failure(adapter: Adapter, store: Store, is_async: bool) -> None:
    async def asynchronous(amount: int) -> None:
        raise Speechless

    def sync(amount: int) -> None:
        raise Speechless

    permitting = asyncio.create_task(permit(store))
    call = Call("issue_refund", {"amount": 4900})
    done = await adapter.hold(call, run=asynchronous if is_async else sync, failures=(Speechless,))
    await permitting
    assert (done.state, done.error) == (State.FAILED, "Speechless")


async def test_an_error_without_a_text_can_be_told(adapter: Adapter, store: Store) -> None:
    ticket = await adapter.suspend(Call("issue_refund", {"amount": 4900}), runs="harness")
    await permit(store)
    async with adapter.claim(ticket.execution_id) as attempt:
        attempt.fail(Speechless())
    done = await adapter.get(ticket.execution_id)
    assert (done.state, done.error) == (State.FAILED, "no reason was given")
