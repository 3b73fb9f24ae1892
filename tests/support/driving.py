"""The worker's part of a call, driven by hand through the store's verbs."""

import asyncio

from support.desk import approved, new_id
from wakegate_schema import clock
from wakegate_schema.records import Approval, Closing, Execution, Outcome, RequestIdentity
from wakegate_schema.states import State
from wakegate_schema.store import Store

LEASE = clock.MINUTE


async def lease(store: Store, execution_id: str) -> Execution:
    """Lease one execution as soon as it is due, with whatever else is due beside it."""
    async with asyncio.timeout(10):
        while True:
            now = clock.now()
            for leased in await store.lease_due("worker-1", 100, now, now + LEASE):
                if leased.execution_id == execution_id:
                    return leased
                await store.release(leased.lease, now, None, now)
            await asyncio.sleep(0.01)


async def submit(store: Store, execution_id: str) -> Execution:
    """Lease, submit and attach: the execution waits, under a lease."""
    leased = await lease(store, execution_id)
    now = clock.now()
    await store.begin_submission(leased.lease, None, now)
    return await store.attach(execution_id, RequestIdentity(new_id(), now, now + 30 * clock.MINUTE), now)


async def approve(store: Store, execution_id: str, approval: Approval | None = None) -> Execution:
    """Submit a harness-run call and permit it."""
    waiting = await submit(store, execution_id)
    if not await store.permit(waiting.lease, approval or approved(), clock.now()):
        raise LookupError("the permission was refused")
    return await store.execution(execution_id)


async def close(store: Store, execution_id: str, state: State, note: str | None = None) -> Execution:
    """Submit a call and end it unstarted."""
    waiting = await submit(store, execution_id)
    now = clock.now()
    if not await store.close_unstarted(waiting.lease, Closing(state, state.value, now, note=note), now):
        raise LookupError("the ending was refused")
    return await store.execution(execution_id)


async def start(store: Store, execution_id: str, lasting: int = LEASE) -> Execution:
    """Submit a worker-run call and start it, its lease good for `lasting` µs."""
    waiting = await submit(store, execution_id)
    now = clock.now()
    started = await store.start(waiting.lease, approved(), now, now + lasting)
    if started is None:
        raise LookupError("the start was refused")
    return started


async def run(store: Store, execution_id: str, result: bytes = b'{"refund": "r-1"}') -> Execution:
    """Submit a worker-run call, start it and record its result."""
    started = await start(store, execution_id)
    return await store.finish(started.lease, Outcome("succeeded", "returned", result=result), clock.now())


async def next_saved(store: Store, tool: str) -> Execution:
    """Return the first unresolved call of this tool, as soon as it is saved."""
    async with asyncio.timeout(10):
        while True:
            for _, execution in await store.executions():
                if execution.tool == tool and not execution.resolved:
                    return execution
            await asyncio.sleep(0.01)


async def reached(store: Store, execution_id: str, state: State) -> Execution:
    """Wait until an execution is in this state."""
    async with asyncio.timeout(10):
        while (execution := await store.execution(execution_id)).state is not state:
            await asyncio.sleep(0.01)
        return execution
